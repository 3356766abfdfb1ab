// Package deploy tests the files of this folder; it has no code.
package deploy

import (
	"bytes"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"go.yaml.in/yaml/v3"

	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// TestSampleConfigurations: the samples are read without a complaint, and say what they seem to say.
func TestSampleConfigurations(t *testing.T) {
	for file, source := range map[string]string{
		"binlogcache.yaml":     "cache:secret@tcp(127.0.0.1:3306)/",
		"lab/binlogcache.yaml": "cache:lab@tcp(mysql:3306)/", // from the environment, as in docker-compose.yml
	} {
		cmd, err := config.Parse([]string{"serve", "--config", file}, func(name string) (string, bool) {
			return source, name == "BINLOGCACHE_SOURCE" && strings.HasPrefix(file, "lab/")
		})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		s := cmd.(*config.Serve)
		if s.Sources[0].Reveal() != source || len(s.Tables) == 0 || len(s.Containers) != 1 || s.Containers[0].Name != "user" {
			t.Errorf("%s: read as %+v", file, s)
		}
	}
}

// TestComposeFile: what docker-compose.yml names is there.
func TestComposeFile(t *testing.T) {
	text, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var project struct {
		Services map[string]struct {
			Image       string
			Environment map[string]string
			Volumes     []string
			Ports       []string
			DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		}
		Volumes map[string]struct{}
	}
	if err := yaml.Unmarshal(text, &project); err != nil {
		t.Fatal(err)
	}
	table := config.FlagsTable()
	for name, s := range project.Services {
		if !strings.HasPrefix(s.Image, "${") || !strings.Contains(s.Image, ":-") {
			t.Errorf("%s: the image %q is no variable with a default", name, s.Image)
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if !strings.HasPrefix(from, "./") {
				if _, ok := project.Volumes[from]; !ok {
					t.Errorf("%s: volume %s is not declared", name, from)
				}
			} else if _, err := os.Stat(filepath.Join("..", from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is published beyond this machine", name, p)
			}
		}
		for variable := range s.Environment {
			if strings.HasPrefix(variable, config.EnvPrefix) && !strings.Contains(table, "`"+variable+"`") {
				t.Errorf("%s: nobody reads the variable %s", name, variable)
			}
		}
		for other := range s.DependsOn {
			if _, ok := project.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, other)
			}
		}
	}
	if len(project.Services) != 5 {
		t.Errorf("%d services, want MySQL and MariaDB, binlogcache for each, and memcached", len(project.Services))
	}
}

// TestLabData runs the laboratory's script as the images do, and reads as the cache's user.
func TestLabData(t *testing.T) {
	script, err := os.ReadFile("lab/init.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := testmysql.Private(t, flavor)
			socket, err := os.ReadFile(filepath.Join(s.Dir, "socket-path"))
			if err != nil {
				t.Fatal(err)
			}
			client := exec.CommandContext(t.Context(), filepath.Join(s.Dir, "bin", "sql"), "--socket="+strings.TrimSpace(string(socket)), "-uroot")
			client.Stdin = bytes.NewReader(script)
			if out, err := client.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			dsn, err := mysql.ParseDSN(s.DSN)
			if err != nil {
				t.Fatal(err)
			}
			dsn.User, dsn.Passwd = "cache", "lab"
			connector, err := mysql.NewConnector(dsn)
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(connector)
			defer db.Close()
			var rows, first, last int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*), MIN(id), MAX(id) FROM app.user").Scan(&rows, &first, &last); err != nil {
				t.Fatal(err)
			}
			if rows != 100_000 || first != 1 || last != 100_000 {
				t.Errorf("%d rows from %d to %d, want 100,000 from 1", rows, first, last)
			}
			var name, email string
			if err := db.QueryRowContext(t.Context(), "SELECT uname, email FROM app.user WHERE id = 4711").Scan(&name, &email); err != nil ||
				name != "user4711" || email != "user4711@example.com" {
				t.Errorf("row 4711: %s, %s, %v", name, email, err)
			}
			// Following needs this right; the statement differs between the servers.
			status := "SHOW BINARY LOG STATUS"
			if flavor == testmysql.MariaDB {
				status = "SHOW MASTER STATUS"
			}
			if _, err := db.ExecContext(t.Context(), status); err != nil {
				t.Errorf("the cache's user: %v", err)
			}
		})
	}
}
