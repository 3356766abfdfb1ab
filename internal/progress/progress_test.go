package progress

import (
	"strings"
	"testing"
)

func TestLinesWithoutTerminal(t *testing.T) {
	var out strings.Builder
	b := New(&out, "rows", 10)
	b.Set(5) // within the interval: no line
	b.Set(12)
	b.Done(12)
	b.Done(12)
	if got := out.String(); !strings.HasPrefix(got, "rows: 12 in ") || strings.Count(got, "\n") != 1 {
		t.Errorf("output %q", got)
	}
}
