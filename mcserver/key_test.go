package mcserver

import (
	"testing"
)

func TestKeyValue(t *testing.T) {
	tests := []struct {
		typ, key string
		strict   bool
		want     string
		fit      fit
	}{
		{"int", "3", false, "3", fits},
		{"int", "0003", false, "3", fits},
		{"int", "+3", false, "3", fits},
		{"int", "-3", false, "-3", fits},
		{"int", "-003", false, "-3", fits},
		{"int", "-0", false, "0", fits},
		{"int", "000", false, "0", fits},
		{"int", "2147483647", false, "2147483647", fits},
		{"int", "-2147483648", false, "-2147483648", fits},
		{"int", "2147483648", false, "", fitsAbove},
		{"int", "-2147483649", false, "", fitsBelow},
		{"int", "99999999999999999999999999", false, "", fitsAbove},
		{"int", "-18446744073709551616", false, "", fitsBelow},
		{"int", "", false, "", fitsNothing},
		{"int", "-", false, "", fitsNothing},
		{"int", "x", false, "", fitsNothing},
		{"int", "3x", false, "", fitsNothing},
		{"int", "3.0", false, "", fitsNothing},
		{"int", "\t3", false, "", fitsNothing},
		{"int", "3x", true, "3", fits},
		{"int", "-3x", true, "-3", fits},
		{"int", "\t3", true, "3", fits},
		{"int", "x3", true, "", fitsNothing},
		{"int", "2147483648x", true, "", fitsAbove},
		{"tinyint", "127", false, "127", fits},
		{"tinyint", "-128", false, "-128", fits},
		{"tinyint", "-129", false, "", fitsBelow},
		{"tinyint unsigned", "255", false, "255", fits},
		{"tinyint unsigned", "256", false, "", fitsAbove},
		{"tinyint unsigned", "-1", false, "", fitsBelow},
		{"bigint", "-9223372036854775808", false, "-9223372036854775808", fits},
		{"bigint", "-9223372036854775809", false, "", fitsBelow},
		{"bigint", "9223372036854775808", false, "", fitsAbove},
		{"bigint unsigned", "18446744073709551615", false, "18446744073709551615", fits},
		{"bigint unsigned", "18446744073709551616", false, "", fitsAbove},

		{"varchar(3)", "abc", false, "abc", fits},
		{"varchar(3)", "", false, "", fits},
		{"varchar(3)", "abcd", false, "abc", fitsCut},
		{"varchar(3)", "abc  ", false, "abc", fits}, // PAD SPACE: as good as the same
		{"varchar(3)", "äöü", false, "äöü", fits},
		{"varchar(3)", "äöüß", false, "äöü", fitsCut},
		{"varchar(3)", "a\xff", false, "", fitsNothing},
		{"char(3)", "abc ", false, "abc", fits},
		{"varbinary(3)", "a\xffb", false, "a\xffb", fits},
		{"varbinary(3)", "abcd", false, "abc", fitsCut},
		{"varbinary(3)", "abc ", false, "abc", fitsCut},
	}
	for _, tt := range tests {
		c := makeColumn(t, "k", tt.typ)
		k := newKeyCheck(&c)
		var scratch []byte
		got, fit := k.value([]byte(tt.key), tt.strict, &scratch)
		if fit != tt.fit || string(got) != tt.want && fit != fitsNothing {
			t.Errorf("%s %q (strict %v): got %q, %d, want %q, %d", tt.typ, tt.key, tt.strict, got, fit, tt.want, tt.fit)
		}
	}
}

// TestNoPadKey checks that blanks at the end count where the collation says so.
func TestNoPadKey(t *testing.T) {
	c := makeColumn(t, "k", "varchar(3)")
	c.Collation = "utf8mb4_0900_ai_ci"
	k := newKeyCheck(&c)
	var scratch []byte
	if got, fit := k.value([]byte("abc "), false, &scratch); fit != fitsCut {
		t.Errorf("got %q, %d", got, fit)
	}
}
