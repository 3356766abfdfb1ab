package mcserver

import (
	"testing"

	"github.com/binlogcache/binlogcache/cache"
)

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

// TestStrictCommands checks that the commands which the plugin lacks are there where no container is.
func TestStrictCommands(t *testing.T) {
	s, _ := demoServer(t, CompatStrict)
	const touch = "\x80\x1c\x00\x02\x04\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05AA"
	const noop = "\x80\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00"
	want := "\x81\x1c\x00\x00\x00\x00\x00\x81\x00\x00\x00\x0f\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00Unknown command\x81\x0a" + noop[2:]
	if got := newConn(s).send(t, touch+noop); got != want {
		t.Errorf("binary touch: got %q, want %q", got, want)
	}
	plain := New(Config{Reader: testReader{}, Compat: CompatStrict, Items: cache.NewItems(cache.ItemsConfig{MemoryLimit: 1 << 20})})
	if _, err := plain.SetContainers(t.Context(), ContainerSet{}); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"set a 1 100 1\r\nx\r\ntouch a 0\r\nmg a t v\r\n":     "STORED\r\nTOUCHED\r\nVA 1 t-1\r\nx\r\n",
		"set b 1 -1 1\r\nx\r\nget b\r\nms b 1\r\nx\r\nmn\r\n": "STORED\r\nEND\r\nHD\r\nMN\r\n",
	} {
		if got := newConn(plain).send(t, in); got != want {
			t.Errorf("%q without containers: got %q, want %q", in, got, want)
		}
	}
}

// TestPluginInteger has numbers cut as the plugin's own suite shows them, and what stands around digits passed over.
func TestPluginInteger(t *testing.T) {
	for _, tt := range []struct{ column, text, want string }{
		{"tinyint", "127", "127"},
		{"tinyint", "129", "-127"},
		{"int", "-2147483648", "-2147483648"},
		{"int", "2147483648", "-2147483648"},
		{"bigint", "9223372036854775808", "9223372036854775807"},
		{"bigint", "-9223372036854775808", "-9223372036854775808"},
		{"bigint", "-99999999999999999999", "-9223372036854775808"},
		{"bigint unsigned", "18446744073709551615", "18446744073709551615"},
		{"bigint unsigned", "18446744073709551616", "18446744073709551615"},
		{"int unsigned", "-1", "4294967295"},
		{"int", " +012xy", "12"},
		{"int", "x12", ""},
		{"int", "-", ""},
		{"int", "", ""},
	} {
		col := makeColumn(t, "n", tt.column)
		got, err := pluginInteger(&col, []byte(tt.text))
		if string(got) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q in %s: got %q (%v), want %q", tt.text, tt.column, got, err, tt.want)
		}
	}
}
