package hsserver

import (
	"path/filepath"
	"testing"

	"github.com/binlogcache/binlogcache/internal/dialogue"
)

// FuzzSession checks that no input makes a session panic, and that its answers do not depend on how the input is cut.
func FuzzSession(f *testing.F) {
	for _, dir := range []string{".", "auth"} {
		all, err := dialogue.ReadDir(filepath.Join("..", "testdata", "dialogues", "handlersocket", dir))
		if err != nil || len(all) == 0 {
			f.Fatalf("%d dialogues, %v", len(all), err)
		}
		for _, d := range all {
			var sent []byte
			for _, l := range d.Lines {
				if l.Kind == dialogue.Send {
					sent = append(sent, l.Data...)
				}
			}
			f.Add(sent, uint16(3), false)
		}
	}
	f.Add([]byte("A\t1\tx\nP\t0\tapp\tuser\tkname\tid,name,age\tage,name\n0\t>\t1\ta\t9\t0\tW\t<=\t0\t50\n0\t=\t1\ta\t9\t0\t@\t0\t2\tbob\tann\n"), uint16(20), true)
	f.Add([]byte("A\t1\tx\nP\t0\tapp\tuser\tPRIMARY\tid,name,age\tage\n0\t+\t3\t9\tx\t1\n0\t>=\t1\t1\t9\t0\tF\t<\t0\t50\t+?\t\x00\t\x00\t3\n0\t=\t1\t2\t1\t0\tU\t2\tb\x01I\n"), uint16(30), true)
	m := users(f)
	// The recordings' names reach the tables too.
	for _, name := range []string{"t1", "item", "kv"} {
		def := tableOf(name, intColumn("id"), textColumn("v"), intColumn("n"))
		def.Schema = "dlg"
		m.load(f, def, "1,one,5", `2,two,\N`, "3,x\x05y,7")
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint16, writable bool) {
		s := New(Config{Reader: m, Writer: &noted{m: m}, Writable: writable, Secret: map[bool]string{true: "x"}[writable]})
		whole, cuts, bytewise := newTalk(t, s), newTalk(t, s), newTalk(t, s)
		cuts.limit = 64 // leaves Serve in the middle of a pipeline
		whole.send(string(in))
		for rest := in; len(rest) > 0; {
			n := min(int(cut)+1, len(rest))
			cuts.send(string(rest[:n]))
			rest = rest[n:]
		}
		if string(cuts.out) != string(whole.out) {
			t.Errorf("whole: %q\ncut every %d: %q", whole.out, int(cut)+1, cuts.out)
		}
		if len(in) > 2000 {
			return
		}
		for i := range in {
			bytewise.send(string(in[i : i+1]))
		}
		if string(bytewise.out) != string(whole.out) {
			t.Errorf("whole: %q\nbyte by byte: %q", whole.out, bytewise.out)
		}
	})
}
