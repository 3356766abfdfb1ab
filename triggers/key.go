package triggers

import (
	"fmt"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// MaxKeyBytes is the longest key that memcached's protocols carry.
const MaxKeyBytes = 250

// keyPart is a fixed text, or a column in the form in which it stands in the key.
type keyPart struct {
	text string
	ref  Ref    // when text is empty
	form string // "", "text", "hex" or "sha2"
}

// parseKey reads a key's pattern: user:{id}, or mail:{email|sha2}.
func parseKey(s string) ([]keyPart, error) {
	var parts []keyPart
	for s != "" {
		open := strings.IndexByte(s, '{')
		if open < 0 {
			open = len(s)
		}
		if open > 0 {
			text := s[:open]
			for i := range len(text) {
				if text[i] <= ' ' || text[i] >= 0x7f || text[i] == '}' {
					return nil, fmt.Errorf("%q can't stand in a key: memcached's keys are ASCII without blanks", text[i])
				}
			}
			parts = append(parts, keyPart{text: text})
			s = s[open:]
			continue
		}
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return nil, fmt.Errorf("the brace of %q is not closed", s)
		}
		name, form, _ := strings.Cut(s[1:end], "|")
		r, err := parseRef(name)
		if err != nil {
			return nil, err
		}
		if form != "" && form != "text" && form != "hex" && form != "sha2" {
			return nil, fmt.Errorf("{%s|%s}: the form is text, hex or sha2", name, form)
		}
		if n := len(parts); n > 0 && parts[n-1].text == "" {
			return nil, fmt.Errorf("{%s} follows a column directly: two rows could have the same key; put a separator between", name)
		}
		parts = append(parts, keyPart{ref: r, form: form})
		s = s[end+1:]
	}
	return parts, nil
}

// keyExpr checks the key against the columns and writes it as an expression.
func (d *Design) keyExpr() (Expr, error) {
	parts := d.Spec.Key
	length, columns := 0, 0
	var args []any
	for i, p := range parts {
		if len(args) > 0 {
			args = append(args, ", ")
		}
		if p.text != "" {
			length += len(p.text)
			args = append(args, literal(p.text))
			continue
		}
		c, err := d.column(p.ref)
		if err != nil {
			return nil, err
		}
		if p.ref.Alias != "" {
			return nil, fmt.Errorf("{%s}: the key is made of the source table's own columns", p.ref)
		}
		if c.Nullable && c.Generated {
			return nil, fmt.Errorf("{%s} is generated and can be NULL, and a key can't: %s", p.ref, generatedNull)
		}
		if c.Nullable {
			return nil, fmt.Errorf("{%s} can be NULL, and a key can't: use a NOT NULL column, or leave rows without it out and make the column NOT NULL", p.ref)
		}
		e, n, err := d.keyColumn(c, p)
		if err != nil {
			return nil, err
		}
		if p.form == "text" && i != len(parts)-1 {
			return nil, fmt.Errorf("{%s|text} is not at the key's end: its text could hold what follows, and two rows could have the same key; put it last or use hex", p.ref)
		}
		length += n
		columns++
		args = append(args, e)
	}
	switch {
	case columns == 0:
		return nil, fmt.Errorf("the key names no column: every row would have the same key")
	case length > MaxKeyBytes:
		return nil, fmt.Errorf("the key can have %d bytes, memcached allows %d: use {column|sha2}", length, MaxKeyBytes)
	case len(parts) == 1 && (parts[0].form == "hex" || parts[0].form == "sha2" || parts[0].form == "text"):
		return join(args...), nil
	case len(parts) == 1:
		return join(join("CAST("), join(args...), " AS CHAR)"), nil
	}
	return join("CONCAT(", join(args...), ")"), nil
}

// keyColumn writes a column as a part of a key, with the most bytes that it can have.
func (d *Design) keyColumn(c *schema.Column, p keyPart) (Expr, int, error) {
	e := column(p.ref)
	if d.grouped() && c.Kind == schema.KindVarchar && padded(c.Collation) {
		e = join("RTRIM(", e, ")") // texts that differ by blanks at their end are one group
	}
	switch p.form {
	case "hex":
		n := c.MaxBytes
		if c.Kind == schema.KindInt || n == 0 {
			return nil, 0, fmt.Errorf("{%s|hex} is for CHAR, VARCHAR, BINARY and VARBINARY", p.ref)
		}
		return join("HEX(", e, ")"), 2 * n, nil
	case "sha2":
		switch c.Kind {
		case schema.KindTimestamp, schema.KindFloat, schema.KindDouble, schema.KindBit, schema.KindJSON, schema.KindGeometry:
			return nil, 0, fmt.Errorf("{%s|sha2} is for texts and binary columns, whole numbers and dates, not for %s", p.ref, c.TypeText)
		}
		return join("SHA2(", e, ", 256)"), 64, nil
	case "text":
		if c.Kind != schema.KindChar && c.Kind != schema.KindVarchar {
			return nil, 0, fmt.Errorf("{%s|text} is for CHAR and VARCHAR", p.ref)
		}
		return e, utf8Bytes(c), nil
	}
	switch c.Kind {
	case schema.KindInt:
		return e, 20, nil
	case schema.KindYear:
		return e, 4, nil
	case schema.KindDecimal:
		return e, c.Precision + 2, nil
	case schema.KindDate:
		return join("CAST(", e, " AS CHAR)"), 10, nil
	case schema.KindUUID:
		return join("CAST(", e, " AS CHAR)"), 36, nil
	case schema.KindChar, schema.KindVarchar:
		return nil, 0, fmt.Errorf("{%[1]s} is text, and keys are without blanks and control characters: write {%[1]s|text} if no row has any, {%[1]s|hex} or {%[1]s|sha2} if some may", p.ref)
	}
	return nil, 0, fmt.Errorf("{%s}: a column of type %s can't be a part of a key; numbers, dates and short texts can", p.ref, c.TypeText)
}

// utf8Bytes is the most bytes that a text column's value has as UTF-8, in which keys are stored.
func utf8Bytes(c *schema.Column) int {
	switch {
	case strings.HasPrefix(c.Charset, "utf"), c.Charset == "ascii", c.Charset == "gb18030":
		return c.MaxBytes
	}
	return 3 * c.MaxBytes // one byte of latin1 may be three
}

// padded tells whether a collation ignores blanks at the end of a text.
func padded(collation string) bool {
	return !strings.Contains(collation, "0900") && !strings.Contains(collation, "nopad") && collation != "binary"
}

const generatedNull = "MySQL takes NOT NULL after the expression, MariaDB does not; there use the columns that it is generated from"
