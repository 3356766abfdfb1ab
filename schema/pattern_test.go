package schema

import (
	"slices"
	"strings"
	"testing"
)

func TestPatterns(t *testing.T) {
	tests := []struct {
		text  string
		match []string // schema/table
		not   []string
		exact []string
	}{
		{"", nil, []string{"a/b", "/"}, nil},
		{"app.user", []string{"app/user"}, []string{"app/users", "app/User", "App/user", "app/use", "x/user"}, []string{"app.user"}},
		{"app.user,shop.*", []string{"app/user", "shop/a", "shop/"}, []string{"app/a", "shops/a"}, []string{"app.user"}},
		{" app.user ,\n shop.order ,,", []string{"app/user", "shop/order"}, []string{"app/user "}, []string{"app.user", "shop.order"}},
		{"*.log_?", []string{"a/log_1", "b/log_é", "c/log_😀"}, []string{"a/log_", "a/log_12", "mysql/log_1", "sys/log_1", "performance_schema/log_1"}, nil},
		{"*.*", []string{"a/b"}, []string{"mysql/user", "information_schema/TABLES", "INFORMATION_SCHEMA/TABLES"}, nil},
		{"mysql.*", []string{"mysql/user"}, []string{"a/user"}, nil},
		{"app_*.t*_*z", []string{"app_/t_z", "app_1/tab_cz", "app_x/t__zz"}, []string{"app/t_z", "app_1/tz", "app_1/t_y"}, nil},
		{"`odd.name`.`a,b``c *`", []string{"odd.name/a,b`c *"}, []string{"odd.name/a,b`c x"}, []string{"odd.name.a,b`c *"}},
		{"`a` .b", []string{"a/b"}, nil, []string{"a.b"}},
		{"größe.straße *", []string{"größe/straße x"}, []string{"größe/straße"}, nil},
		{"tort.t.1,tort.we`ird", []string{"tort/t.1", "tort/we`ird"}, []string{"tort.t/1"}, []string{"tort.t.1", "tort.we`ird"}},
		{"a.??*?", []string{"a/xyz", "a/wxyz"}, []string{"a/xy"}, nil},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			p, err := ParsePatterns(test.text)
			if err != nil {
				t.Fatal(err)
			}
			check := func(names []string, want bool) {
				for _, name := range names {
					s, table, _ := strings.Cut(name, "/")
					if got := p.Match(s, table); got != want {
						t.Errorf("match of %s: %v", name, got)
					}
				}
			}
			check(test.match, true)
			check(test.not, false)
			var exact []string
			for _, n := range p.Exact() {
				exact = append(exact, n.String())
			}
			if !slices.Equal(exact, test.exact) {
				t.Errorf("exact names %q, want %q", exact, test.exact)
			}
		})
	}
}

func TestPatternErrors(t *testing.T) {
	for text, want := range map[string]string{
		"user":         `"user" at byte 0: not of the form schema.table`,
		"app.user,foo": `"foo" at byte 9: not of the form schema.table`,
		"app.":         "byte 4: empty name",
		".user":        "byte 0: empty name",
		"a.b,.":        "byte 4: empty name",
		"`a`.`b`.c":    `unexpected '.' at byte 7`,
		"`a.b":         "byte 0: quote is not closed",
		"a.`b`x":       `unexpected 'x' at byte 5`,
		"``.b":         "empty name",
	} {
		p, err := ParsePatterns(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, error %v, want one with %q", text, p, err, want)
		}
	}
}

// TestPatternIsNotExponential has the pattern that ruins matchers which go back to every star.
func TestPatternIsNotExponential(t *testing.T) {
	p, err := ParsePatterns("a." + strings.Repeat("a*", 64) + "b")
	if err != nil {
		t.Fatal(err)
	}
	if p.Match("a", strings.Repeat("a", 2000)) {
		t.Error("match without the b")
	}
	if !p.Match("a", strings.Repeat("a", 2000)+"b") {
		t.Error("no match")
	}
}

func FuzzPatterns(f *testing.F) {
	f.Add("app.user,shop.*", "app", "user")
	f.Add("`a``.`.`*`,x?.y*", "a`.", "*")
	f.Fuzz(func(t *testing.T, text, schemaName, table string) {
		p, err := ParsePatterns(text)
		if err != nil {
			return
		}
		p.Match(schemaName, table)
		for _, n := range p.Exact() {
			if !p.Match(n.Schema, n.Table) {
				t.Errorf("%q does not match its own name %s", text, n)
			}
			again, err := ParsePatterns(QuoteName(n.Schema) + "." + QuoteName(n.Table))
			if err != nil || len(again.Exact()) != 1 || again.Exact()[0] != n {
				t.Errorf("%s, quoted: %v, %v", n, again, err)
			}
		}
	})
}
