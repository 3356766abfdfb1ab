package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/binlogcache/binlogcache"
	root   = "../.."
)

// imports says which packages of this module a package may import. Packages that are not named may import none.
// docs/ARCHITECTURE.md gives the reasons. Test files are free.
var imports = map[string][]string{
	"cmd/binlogcache": {"internal/app", "internal/config"},
	// internal/app joins all parts, but for those that serve tests.
	"internal/app": {
		"admin", "cache", "canal", "hsserver", "mcserver", "router", "rowcodec", "schema", "internal/adopt", "internal/config", "internal/dbreader",
		"internal/demo", "internal/headroom", "internal/loadgen", "internal/netserver", "internal/progress", "internal/sqltext", "internal/state",
		"internal/steady", "triggers", "triggers/install", "verify", "writeback",
	},
	"triggers":          {"schema"},
	"triggers/install":  {"schema", "triggers"},
	"hsserver":          {"internal/netserver", "rowcodec", "schema"},
	"mcserver":          {"internal/item", "internal/netserver", "rowcodec", "schema"},
	"canal":             {"internal/sqltext", "internal/steady", "rowcodec", "schema"},
	"cache":             {"internal/item", "rowcodec", "schema"},
	"router":            {"cache", "internal/dbreader", "internal/headroom", "rowcodec", "schema"},
	"rowcodec":          {"schema"},
	"verify":            {"schema"},
	"writeback":         {"internal/dbreader", "internal/sqltext", "rowcodec", "schema"},
	"internal/adopt":    {"mcserver", "schema"},
	"internal/dbreader": {"internal/headroom", "internal/sqltext", "rowcodec", "schema"},
	"internal/demo":     {"internal/loadgen", "internal/progress", "scripts"},
	"internal/sqltext":  {"internal/headroom"},
	"internal/state":    {"rowcodec", "schema"},
	"internal/torture":  {"internal/sqltext"}, // for tests
}

// drivers are the only packages that may import go-mysql; rowcodec reads its table maps.
const driver = "github.com/go-mysql-org/go-mysql/"

var drivers = map[string][]string{
	"canal":            nil, // all of it
	"internal/sqltext": nil,
	"rowcodec":         {"mysql", "replication"},
}

// long names the files over maxLines, each with the reason why it is one piece.
var long = map[string]string{}

const maxLines = 700

type pkg struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImports(t *testing.T) {
	packages := list(t)
	if len(packages) < 10 {
		t.Fatalf("go list found %d packages only", len(packages))
	}
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, i := range p.Imports {
			if other, ok := strings.CutPrefix(i, module+"/"); ok && !slices.Contains(imports[name], other) {
				t.Errorf("%s imports %s", name, other)
			}
			part, ok := strings.CutPrefix(i, driver)
			if !ok {
				continue
			}
			if parts, ok := drivers[name]; !ok || parts != nil && !slices.Contains(parts, part) {
				t.Errorf("%s imports go-mysql's %s", name, part)
			}
		}
	}
}

// walk calls each for every file of the repository that is text by its name.
func walk(t *testing.T, each func(path string, text []byte)) {
	t.Helper()
	count := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		if d.IsDir() {
			if name == ".git" || name == "bin" || name == "dist" {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".go", ".sh", ".md", ".yaml", ".yml", ".sql", ".js", ".css", ".html", ".mod", ".txt", ".service", ".json", "":
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		count++
		each(name, text)
		return nil
	})
	if err != nil || count < 50 {
		t.Fatalf("walked over %d files: %v", count, err)
	}
}

func TestFileLength(t *testing.T) {
	walk(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") {
			return
		}
		lines := bytes.Count(text, []byte("\n"))
		if lines > maxLines && long[name] == "" {
			t.Errorf("%s has %d lines: split it by concern", name, lines)
		}
		if lines <= maxLines && long[name] != "" {
			t.Errorf("%s has %d lines and needs no exception", name, lines)
		}
	})
}

// TestForeignWords: the repository speaks of the product, not of the machine or the work it was made in.
func TestForeignWords(t *testing.T) {
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	// Put together, so that this file does not hold them.
	words := []string{here + "/", "/wo" + "rk/", "/tmp" + "/w/", "../sha" + "red", "proxy.go" + "lang", "deb.deb" + "ian", "/ro" + "ot/"}
	process := regexp.MustCompile(`(?i)\bissue #?\d+\b`)
	walk(t, func(name string, text []byte) {
		for _, w := range words {
			if i := bytes.Index(text, []byte(w)); i >= 0 {
				t.Errorf("%s:%d: has %q", name, 1+bytes.Count(text[:i], []byte("\n")), w)
			}
		}
		if at := process.FindIndex(text); at != nil {
			t.Errorf("%s:%d: has %q", name, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]])
		}
	})
}
