package mcserver

import "testing"

// TestStrict checks the quirks of the plugin that CompatStrict keeps.
func TestStrict(t *testing.T) {
	s, _ := demoServer(t, CompatStrict)
	for in, want := range map[string]string{
		"get @@chars.a b c\r\n":  "VALUE @@chars.a 0 6\r\nxy    \r\nVALUE b 0 0\r\n\r\nVALUE c 0 6\r\n      \r\nEND\r\n",
		"gets @@chars.a\r\n":     "VALUE @@chars.a 0 6 0\r\nxy    \r\nEND\r\n",
		"get @@city.3abc x3\r\n": "VALUE @@city.3abc 0 11\r\nDelhi||1000\r\nEND\r\n",
		"get @@chars.abcdef\r\n": "END\r\n",
	} {
		if got := newConn(s).send(t, in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestVersionAsCAS checks that a container without a cas column shows the version of rows in memory, and 0 for rows of
// the database.
func TestVersionAsCAS(t *testing.T) {
	s, reader := demoServer(t, CompatSafe)
	if got, want := newConn(s).send(t, "gets @@chars.b\r\n"), "VALUE @@chars.b 0 0 1001\r\n\r\nEND\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	reader["app.chars"].inMemory.Store(false)
	if got, want := newConn(s).send(t, "gets @@chars.b\r\n"), "VALUE @@chars.b 0 0 0\r\n\r\nEND\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
