package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// step is a command of a document and what it prints.
type step struct {
	line    int
	command string
	output  []string
}

// consoleSteps reads the blocks ```console of a document: commands behind "$ ", and their output, in which ... stands for
// any text of a line, and alone on its line for any lines.
func consoleSteps(t *testing.T, path string) []step {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	inside := false
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "```console":
			inside = true
		case line == "```":
			inside = false
		case !inside:
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{line: i + 1, command: line[2:]})
		case len(steps) > 0:
			s := &steps[len(steps)-1]
			s.output = append(s.output, line)
		}
	}
	return steps
}

// matches compares printed text with what the document says.
func (s *step) matches(printed string) bool {
	pattern := `\A`
	for _, line := range s.output {
		if line == "..." {
			pattern += `(?:.*\n)*?`
			continue
		}
		pattern += strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`) + `\n`
	}
	return regexp.MustCompile(pattern + `\z`).MatchString(printed)
}

// shims are programs that the document uses and a machine may not have, or that have to find the test's server.
const shims = `
nc() { exec 3<>"/dev/tcp/$1/$2"; cat >&3; tr -d '\r' <&3; exec 3>&-; }
curl() { # -sf URL
  local url=${2#http://} status
  { exec 4<>"/dev/tcp/${url%%:*}/$(p=${url#*:}; echo "${p%%/*}")"; } 2>/dev/null || return 7
  printf 'GET /%s HTTP/1.0\r\n\r\n' "${url#*/}" >&4
  read -r _ status _ <&4
  if [ "$status" = 200 ]; then sed '1,/^\r$/d' <&4; else cat <&4 >/dev/null; return 22; fi
}
mysql() {
  # The plugin's stand-in ends where the plugin would.
  if [[ "$*" == *"UNINSTALL PLUGIN"* ]]; then kill "$STAND_IN"; return; fi
  "$CLIENTS/sql" -S "$SOCKET" -uroot "$@"
}
mysqldump() { "$CLIENTS/mysqldump" -S "$SOCKET" -uroot "$@" 2>/dev/null; } # MySQL's warns of GTIDs
`

// TestMigrationGuide runs the commands of docs/MIGRATION.md in one shell and compares what they print. In place of the
// plugin, which no server of today has, another binlogcache answers on its port, by the same tables.
func TestMigrationGuide(t *testing.T) {
	t.Parallel()
	steps := consoleSteps(t, "../docs/MIGRATION.md")
	if len(steps) < 25 {
		t.Fatalf("the guide has %d commands only", len(steps))
	}
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor)
			server := strings.TrimSuffix(s.DSN[strings.Index(s.DSN, "(")+1:], ")/")
			plugin, beside, admin := freeAddress(t), freeAddress(t), freeAddress(t)
			moved := strings.NewReplacer("127.0.0.1:3306", server, "127.0.0.1:11211", plugin, "127.0.0.1 11211", strings.Replace(plugin, ":", " ", 1),
				"127.0.0.1:11311", beside, "127.0.0.1 11311", strings.Replace(beside, ":", " ", 1), "127.0.0.1:8911", admin)
			root, err := filepath.Abs("..")
			if err != nil {
				t.Fatal(err)
			}
			socket, err := os.ReadFile(filepath.Join(s.Dir, "socket-path"))
			if err != nil {
				t.Fatal(err)
			}
			var script strings.Builder
			script.WriteString(shims)
			for i, st := range steps {
				command := moved.Replace(st.command)
				if i == 0 {
					// The stand-in finds the containers that the first command makes.
					command += "\nbinlogcache serve --source 'root:test@tcp(" + server + ")/' --tables test.* --memcached " + plugin +
						" --handlersocket-read off --handlersocket-write off --admin off 2>plugin.log & STAND_IN=$!; disown"
				}
				fmt.Fprintf(&script, "echo '#step %d'\n%s\n", i, command)
			}
			script.WriteString("echo '#step end'\nkill $(jobs -p); wait\n")
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
			// All that the shell has started ends with it.
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
			cmd.WaitDelay = 5 * time.Second
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "CLIENTS="+filepath.Join(s.Dir, "bin"),
				"SOCKET="+strings.TrimSpace(string(socket)), "BINLOGCACHE_ADMIN="+admin, "BINLOGCACHE_MEMCACHED="+plugin)
			if err := os.Symlink(filepath.Join(root, "testdata"), filepath.Join(cmd.Dir, "testdata")); err != nil {
				t.Fatal(err)
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			for i := range steps {
				st := steps[i]
				_, printed, _ := strings.Cut(string(out), fmt.Sprintf("#step %d\n", i))
				printed, _, _ = strings.Cut(printed, "#step ")
				st.output = slices.Clone(st.output)
				for j := range st.output {
					st.output[j] = moved.Replace(st.output[j])
				}
				if !st.matches(printed) {
					t.Errorf("line %d: %s\nprinted:\n%s\nthe guide says:\n%s", st.line, st.command, printed, strings.Join(st.output, "\n"))
				}
			}
		})
	}
}
