package writeback

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/binlogcache/binlogcache/schema"
)

// TestBrokenTriggerIsExplained: what the server calls a syntax error of our statement is one of a trigger, and the log says
// what to do.
func TestBrokenTriggerIsExplained(t *testing.T) {
	var out bytes.Buffer
	w := &Writer{log: slog.New(slog.NewTextHandler(&out, nil))}
	err := refused(&mysql.MyError{Code: codeSyntax, State: "42000", Message: "Unknown trigger has an error in its body: 'Query was empty'"})
	w.finished(&schema.Table{Schema: "app", Name: "user"}, schema.ChangeInsert, time.Now(), err)
	for _, want := range []string{"level=WARN", "a trigger of the table is broken", "FLUSH TABLES", "table=app.user"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %q: %s", want, out.String())
		}
	}
}
