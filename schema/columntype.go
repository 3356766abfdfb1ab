package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// Widths to which ZEROFILL pads FLOAT and DOUBLE when no width was declared: the servers' own constants.
const (
	floatDefaultWidth  = 12
	doubleDefaultWidth = 22
)

// setType fills in what COLUMN_TYPE of information_schema says: the kind, sizes and flags. A type that is not known, or
// not known in that form, leaves KindUnsupported. Members are not set; see labelTexts.
func (c *Column) setType(text, flavor string) {
	c.TypeText = text
	c.Kind = KindUnsupported
	c.Scale = -1
	name, args, rest := splitType(text)
	// MariaDB says in a comment what a name alone does not: COMPRESSED columns are compressed in the log too, and the
	// temporal types of before MariaDB 10.1 and early UUIDs have other bytes.
	rest, comment, _ := strings.Cut(rest, "/*")
	old := strings.TrimSpace(comment) == "mariadb-5.3 */"
	if comment != "" && !old {
		return
	}
	words := strings.Fields(rest)
	for _, word := range words {
		if word == "unsigned" {
			c.Unsigned = true
		}
	}
	zerofill := false
	for _, word := range words {
		zerofill = zerofill || word == "zerofill"
	}
	numbers, ok := parseArgs(args)
	if name == "enum" || name == "set" {
		ok = true
	}
	if !ok {
		return
	}
	first := func(otherwise int) int {
		if len(numbers) > 0 {
			return numbers[0]
		}
		return otherwise
	}
	integer := func(bytes, width int) {
		c.Kind, c.Bytes = KindInt, bytes
		if zerofill {
			c.Zerofill = first(width)
		}
	}
	floating := func(kind Kind, bytes, width int) {
		c.Kind, c.Bytes = kind, bytes
		if len(numbers) == 2 {
			c.Precision, c.Scale = numbers[0], numbers[1]
		}
		if zerofill {
			c.Zerofill = first(width)
		}
	}
	temporal := func(kind Kind) {
		c.Fraction = first(0)
		// The log does not tell the size of an old one with a fraction.
		if !old || c.Fraction == 0 {
			c.Kind = kind
		}
	}
	blob := func(kind Kind, prefix int) { c.Kind, c.Bytes = kind, prefix }

	switch name {
	case "tinyint":
		integer(1, 3)
	case "smallint":
		integer(2, 5)
	case "mediumint":
		integer(3, 8)
	case "int":
		integer(4, 10)
	case "bigint":
		integer(8, 20)
	case "decimal":
		if len(numbers) == 2 {
			c.Kind, c.Precision, c.Scale = KindDecimal, numbers[0], numbers[1]
			if zerofill {
				c.Zerofill = c.Precision
				if c.Scale > 0 {
					c.Zerofill++
				}
			}
		}
	case "float":
		floating(KindFloat, 4, floatDefaultWidth)
	case "double":
		floating(KindDouble, 8, doubleDefaultWidth)
	case "year":
		c.Kind, c.Length = KindYear, first(4)
	case "date":
		c.Kind = KindDate
	case "time":
		temporal(KindTime)
	case "datetime":
		temporal(KindDatetime)
	case "timestamp":
		temporal(KindTimestamp)
	case "char":
		c.Kind, c.Length = KindChar, first(1)
	case "varchar":
		c.Kind, c.Length = KindVarchar, first(0)
	case "binary":
		c.Kind, c.Length = KindBinary, first(1)
	case "varbinary":
		c.Kind, c.Length = KindVarbinary, first(0)
	case "tinytext":
		blob(KindText, 1)
	case "text":
		blob(KindText, 2)
	case "mediumtext":
		blob(KindText, 3)
	case "longtext":
		blob(KindText, 4)
	case "tinyblob":
		blob(KindBlob, 1)
	case "blob":
		blob(KindBlob, 2)
	case "mediumblob":
		blob(KindBlob, 3)
	case "longblob":
		blob(KindBlob, 4)
	case "enum":
		c.Kind = KindEnum
	case "set":
		c.Kind = KindSet
	case "bit":
		c.Kind, c.Length = KindBit, first(1)
	case "json":
		if flavor == FlavorMySQL {
			blob(KindJSON, 4)
		}
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
		"geomcollection", "geometrycollection":
		blob(KindGeometry, 4)
	case "vector":
		c.Kind, c.Length = KindVector, first(0)*4
		if flavor == FlavorMySQL {
			c.Bytes = 4
		}
	case "uuid":
		if flavor == FlavorMariaDB {
			c.Kind = KindUUID
		}
	case "inet4":
		if flavor == FlavorMariaDB {
			c.Kind = KindInet4
		}
	case "inet6":
		if flavor == FlavorMariaDB {
			c.Kind = KindInet6
		}
	}
}

// splitType cuts "decimal(10,2) unsigned" into its name, the text in parentheses and the rest.
func splitType(text string) (name, args, rest string) {
	end := strings.IndexAny(text, "( ")
	if end < 0 {
		return text, "", ""
	}
	name = text[:end]
	if text[end] == ' ' {
		return name, "", text[end:]
	}
	// Labels of ENUM and SET may hold parentheses; nothing follows the last one but a comment, if anything.
	if name == "enum" || name == "set" {
		end := strings.LastIndexByte(text, ')')
		if end < len(name) {
			return name, "", ""
		}
		return name, text[len(name)+1 : end], text[end+1:]
	}
	inside, rest, found := strings.Cut(text[end+1:], ")")
	if !found {
		return name, "", ""
	}
	return name, inside, rest
}

func parseArgs(args string) (numbers []int, ok bool) {
	if args == "" {
		return nil, true
	}
	for field := range strings.SplitSeq(args, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 0 || len(numbers) == 2 {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, true
}

// label is one member of an ENUM or SET as COLUMN_TYPE spells it.
type label struct {
	text []byte
	// raw is true where the server gave the bytes themselves (x'ff' of MySQL) instead of text.
	raw bool
}

// labelTexts parses the labels of "enum('a','b”c',x'ff')". The servers escape quotes by doubling and NUL, LF, CR and
// the backslash by a backslash.
func labelTexts(typeText string) ([]label, error) {
	_, args, _ := splitType(typeText)
	var labels []label
	for i := 0; i < len(args); {
		raw := args[i] == 'x'
		if raw {
			i++
		}
		if i >= len(args) || args[i] != '\'' {
			return nil, fmt.Errorf("labels of %q: quote expected at byte %d", typeText, i)
		}
		text, next, err := unquote(args, i)
		if err != nil {
			return nil, fmt.Errorf("labels of %q: %w", typeText, err)
		}
		if raw {
			if text, err = unhex(text); err != nil {
				return nil, fmt.Errorf("labels of %q: %w", typeText, err)
			}
		}
		labels = append(labels, label{text, raw})
		i = next
		if i < len(args) {
			if args[i] != ',' {
				return nil, fmt.Errorf("labels of %q: comma expected at byte %d", typeText, i)
			}
			i++
		}
	}
	return labels, nil
}

// unquote reads the quoted text that starts at s[i] and returns it with the position after its closing quote.
func unquote(s string, i int) (text []byte, next int, err error) {
	quote := s[i]
	text = []byte{}
	for i++; i < len(s); i++ {
		switch {
		case s[i] == quote && i+1 < len(s) && s[i+1] == quote:
			i++
			text = append(text, quote)
		case s[i] == quote:
			return text, i + 1, nil
		case s[i] == '\\' && quote == '\'' && i+1 < len(s):
			i++
			switch s[i] {
			case '0':
				text = append(text, 0)
			case 'n':
				text = append(text, '\n')
			case 'r':
				text = append(text, '\r')
			default:
				text = append(text, s[i])
			}
		default:
			text = append(text, s[i])
		}
	}
	return nil, i, fmt.Errorf("quote is not closed")
}
