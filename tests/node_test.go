package tests

import (
	"net"
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/internal/testnode"
)

// TestNodeHandlerSocket runs the client library node-handlersocket against both ports, with a table in memory, a hot one and
// one that the database answers for.
func TestNodeHandlerSocket(t *testing.T) {
	for _, s := range testmysql.Servers(t) {
		for _, tc := range []struct {
			name, tables string
			args         []string
		}{{"live", ".kv", nil}, {"hot", ".none*", nil}, {"database", ".none*", []string{"--hot", "off"}}} {
			t.Run(s.Flavor+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				cmd := testnode.Command(t, "clients/node/handlersocket_smoke.js", "node-handlersocket@0.1.0")
				schema := s.Schema(t)
				mustExec(t, s.DB(t), "CREATE TABLE "+schema+`.kv (id INT NOT NULL PRIMARY KEY, grp INT NOT NULL,
					name VARCHAR(50) CHARACTER SET utf8mb4, score INT, KEY by_grp (grp))`)
				d := start(t, s.DSN, schema+tc.tables, tc.args...).waitReady()
				host, read, err := net.SplitHostPort(d.handlerSocket)
				if err != nil {
					t.Fatal(err)
				}
				_, write, err := net.SplitHostPort(d.writePort)
				if err != nil {
					t.Fatal(err)
				}
				cmd.Env = append(cmd.Env, "HS_HOST="+host, "HS_PORT="+read, "HS_PORT_WR="+write, "HS_SCHEMA="+schema)
				if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "OK") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
