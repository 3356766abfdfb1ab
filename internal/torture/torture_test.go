package torture

import (
	"path/filepath"
	"testing"
)

func TestScenariosParse(t *testing.T) {
	files, err := filepath.Glob("../../testdata/torture/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		s, err := Parse(f)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(s.Tables) == 0 || len(s.After) == 0 {
			t.Errorf("%s: %d tables, %d steps after the mark", s.Name, len(s.Tables), len(s.After))
		}
	}
}

func TestContainsGTIDs(t *testing.T) {
	const u = "3E11FA47-71CA-11E1-9E33-C80AA9429562"
	for _, c := range []struct {
		flavor, applied, wanted string
		contains                bool
	}{
		{"mysql", u + ":1-5", u + ":1-5", true},
		{"mysql", u + ":1-5", u + ":1-6", false},
		{"mysql", u + ":1-9", u + ":2-3:5", true},
		{"mysql", u + ":1-9:tag:1-3", u + ":1-9:tag:1-3", true},
		{"mysql", u + ":1-9", u + ":1-9:tag:1", false},
		{"mysql", "", "", true},
		{"mysql", "", u + ":1", false},
		{"mariadb", "0-1-10", "0-1-10", true},
		{"mariadb", "0-1-10", "0-2-11", false},
		{"mariadb", "0-1-10,1-1-3", "0-1-9", true},
		{"mariadb", "0-1-10", "0-1-9,1-1-1", false},
	} {
		if got := containsGTIDs(c.flavor, c.applied, c.wanted); got != c.contains {
			t.Errorf("containsGTIDs(%s, %q, %q) = %v", c.flavor, c.applied, c.wanted, got)
		}
	}
}
