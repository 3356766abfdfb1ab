package app

import (
	"errors"
	"fmt"
	"testing"

	"github.com/binlogcache/binlogcache/hsserver"
	"github.com/binlogcache/binlogcache/router"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/writeback"
)

// TestWriteErrors: every error of a write has its word in the HandlerSocket protocol, or is that of an unreachable database.
func TestWriteErrors(t *testing.T) {
	r := router.New(router.Config{})
	t.Cleanup(r.Close)
	w := hsWriter{router: r}
	def := &schema.Table{Schema: "app", Name: "t"}
	for _, tc := range []struct {
		err     error
		text    string
		request bool
	}{
		{&writeback.Refused{Number: 121}, "121", false},
		{&writeback.Refused{Number: 1406}, "1406", false},
		{writeback.ErrUncertain, "uncertain", false},
		{writeback.ErrReadOnly, "readonly", false},
		{writeback.ErrTooLarge, "toolarge", true},
		{writeback.ErrNoNumber, "modop", true},
		{writeback.ErrNoKey, "nokey", true},
		{writeback.ErrUnavailable, "", false},
		{writeback.ErrTimeLimit, "", false},
		{writeback.ErrClosed, "", false},
	} {
		err := w.translate(def, fmt.Errorf("change: %w", tc.err))
		got := &hsserver.WriteError{}
		if errors.As(err, &got) != (tc.text != "") || got.Text != tc.text || got.Request != tc.request || !errors.Is(err, tc.err) {
			t.Errorf("%v: %q, %v", tc.err, got.Text, got.Request)
		}
	}
	if err := w.translate(def, fmt.Errorf("change: %w", writeback.ErrChanged)); !errors.Is(err, hsserver.ErrChanged) {
		t.Errorf("a changed table: %v", err)
	}
	if err := w.translate(def, nil); err != nil {
		t.Error(err)
	}
}
