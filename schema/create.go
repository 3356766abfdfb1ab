package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParseCreate describes a table by the text of its CREATE TABLE statement, in the form of SHOW CREATE TABLE, which dumps
// hold. It knows less than Load: collations have no numbers, ENUM and SET no members, and where the text leaves out a
// default collation it is the one that the character set has by itself. Schema and name are the caller's to set.
//
// Statements that people write can have forms that it does not know; those give an error, or a table whose columns are
// not supported.
func ParseCreate(flavor, text string) (*Table, error) {
	tokens, rest, err := tokenize(text)
	if err != nil {
		return nil, fmt.Errorf("CREATE TABLE: %w", err)
	}
	open := 0
	for open < len(tokens) && (tokens[open].quoted || tokens[open].text != "(") {
		open++
	}
	if open+1 >= len(tokens) {
		return nil, errors.New("CREATE TABLE: no definitions")
	}
	t := &Table{Flavor: flavor, Key: -1}
	p := createParser{table: t, text: text}
	refusals := p.options(rest)
	inner := tokens[open+1 : len(tokens)-1]
	for len(inner) > 0 {
		n := 0
		for n < len(inner) && (inner[n].depth != 1 || !inner[n].is(",")) {
			n++
		}
		if n == 0 {
			return nil, errors.New("CREATE TABLE: empty definition")
		}
		if err := p.definition(inner[:n]); err != nil {
			return nil, fmt.Errorf("CREATE TABLE: %w", err)
		}
		inner = inner[min(n+1, len(inner)):]
	}
	if len(t.Columns) == 0 {
		return nil, errors.New("CREATE TABLE: no columns")
	}
	if err := p.resolveIndexes(); err != nil {
		return nil, fmt.Errorf("CREATE TABLE: %w", err)
	}
	refusals = append(refusals, t.virtualRefusals(p.virtual)...)
	refusals = append(refusals, t.columnRefusals()...)
	key := t.chooseKey()
	if t.innoDB() {
		refusals = append(refusals, key...)
	} else {
		refusals = append(refusals, fmt.Sprintf("its engine is %s, not InnoDB", t.Engine))
	}
	keys, err := foreignKeys(text)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if len(k.actions) > 0 {
			refusals = append(refusals, fmt.Sprintf("its foreign key %s has %s, which the log of servers before MySQL 9.6 does not show",
				QuoteName(k.name), strings.Join(k.actions, " and ")))
		}
	}
	t.Refusal = strings.Join(refusals, "; ")
	return t, nil
}

type createParser struct {
	table *Table
	text  string
	// charset and collation are the table's.
	charset, collation string
	virtual            []virtualColumn
	indexes            []parsedIndex
}

// parsedIndex has the names of its columns still.
type parsedIndex struct {
	Index
	columns []string // empty for an expression
}

// options reads what stands behind the definitions.
func (p *createParser) options(rest string) (refusals []string) {
	// A parenthesis of its own lets the definitions' tokenizer read it.
	rest, _, _ = strings.Cut(rest, "PARTITION BY")
	tokens, _, err := tokenize("(" + rest + "\n)")
	if err != nil {
		return nil
	}
	value := func(i int) string {
		if i+1 < len(tokens) && tokens[i+1].is("=") {
			i++
		}
		if i+1 < len(tokens) {
			return tokens[i+1].text
		}
		return ""
	}
	p.table.Engine = "InnoDB"
	for i, t := range tokens {
		switch {
		case t.is("ENGINE"):
			p.table.Engine = value(i)
		case t.is("CHARSET"):
			p.charset = normalCharset(value(i))
		case t.is("COLLATE"):
			p.collation = normalCharset(value(i))
		case t.is("VERSIONING") && i > 0 && tokens[i-1].is("SYSTEM"):
			refusals = append(refusals, "it is system-versioned: its history would look like rows")
		}
	}
	if p.charset == "" {
		p.charset = charsetOf(p.collation)
	}
	if p.collation == "" {
		p.collation = defaultCollation(p.charset)
	}
	return refusals
}

// definition reads one column or index.
func (p *createParser) definition(d []token) error {
	word := func(i int, w string) bool { return i < len(d) && d[i].is(w) }
	index := parsedIndex{Index: Index{BTree: true}}
	i := 0
	switch {
	case word(0, "PRIMARY") && word(1, "KEY"):
		index.Name, index.Unique = "PRIMARY", true
		i = 2
	case word(0, "UNIQUE"):
		index.Unique = true
		i = 1
	case word(0, "FULLTEXT"), word(0, "SPATIAL"), word(0, "VECTOR") && word(1, "KEY"):
		index.BTree = false
		i = 1
	case word(0, "KEY"), word(0, "INDEX"):
	case word(0, "CONSTRAINT"), word(0, "FOREIGN"), word(0, "CHECK"), word(0, "PERIOD") && word(1, "FOR"):
		return nil
	default:
		return p.column(d)
	}
	if word(i, "KEY") || word(i, "INDEX") {
		i++
	}
	if i < len(d) && !d[i].is("(") {
		index.Name = d[i].text
		i++
	}
	if index.Name == "" || i >= len(d) || !d[i].is("(") {
		return fmt.Errorf("index %q cannot be read", index.Name)
	}
	for i++; i < len(d) && d[i].depth > 1; i++ {
		switch t := d[i]; {
		case t.depth == 2 && !t.is("(") && (d[i-1].is("(") || d[i-1].is(",")):
			index.Parts = append(index.Parts, Part{})
			index.columns = append(index.columns, t.text)
		case t.depth == 2 && t.is("(") && (d[i-1].is("(") || d[i-1].is(",")):
			index.Parts = append(index.Parts, Part{Column: -1})
			index.columns = append(index.columns, "")
		case t.depth == 2 && t.is("DESC") && len(index.Parts) > 0:
			index.Parts[len(index.Parts)-1].Desc = true
		case t.depth == 3 && d[i-1].is("(") && d[i-1].depth == 2 && d[i-2].depth == 2 && !d[i-2].is(","):
			n, err := strconv.Atoi(t.text)
			if err != nil {
				return fmt.Errorf("index %q: prefix %q", index.Name, t.text)
			}
			index.Parts[len(index.Parts)-1].Prefix = n
		}
	}
	for ; i < len(d); i++ {
		switch {
		case d[i].is("USING") && word(i+1, "HASH"):
			index.BTree = false
		case d[i].is("INVISIBLE"), d[i].is("IGNORED"):
			index.Hidden = true
		}
	}
	p.indexes = append(p.indexes, index)
	return nil
}

// column reads the definition of a column.
func (p *createParser) column(d []token) error {
	c := Column{Name: d[0].text, Nullable: true}
	if len(d) < 2 || d[1].quoted {
		return fmt.Errorf("column %q has no type", c.Name)
	}
	end := 1
	if end+1 < len(d) && d[end+1].is("(") && d[end+1].depth == 1 {
		for end++; d[end].depth != 1 || d[end].quoted || d[end].text != ")"; end++ {
			if end+1 == len(d) {
				return fmt.Errorf("the type of column %q is not closed", c.Name)
			}
		}
	}
	for end+1 < len(d) && (d[end+1].is("unsigned") || d[end+1].is("zerofill")) {
		end++
	}
	typeText := p.text[d[1].at:d[end].end]
	charset, collation := "", ""
	for i := end + 1; i < len(d); i++ {
		if d[i].depth != 1 || d[i].quoted {
			continue
		}
		next := func(n int) string {
			if i+n < len(d) {
				return d[i+n].text
			}
			return ""
		}
		switch {
		case d[i].is("COMPRESSED"):
			typeText += " /*M!100301 COMPRESSED*/"
		case d[i].is("CHARACTER") && strings.EqualFold(next(1), "SET"):
			charset = normalCharset(next(2))
		case d[i].is("COLLATE"):
			collation = normalCharset(next(1))
		case d[i].is("NOT") && strings.EqualFold(next(1), "NULL"):
			c.Nullable = false
		case d[i].is("AUTO_INCREMENT"):
			c.AutoIncrement = true
		case d[i].is("INVISIBLE"):
			c.Invisible = true
		case d[i].is("AS") && next(1) == "(":
			c.Generated = true
			p.generated(c.Name, d[i+1:])
		}
	}
	c.setType(typeText, p.table.Flavor)
	switch c.Kind {
	case KindChar, KindVarchar, KindText, KindEnum, KindSet:
		p.characters(&c, charset, collation)
	case KindBinary, KindVarbinary, KindVector:
		c.MaxBytes = c.Length
	}
	p.table.Columns = append(p.table.Columns, c)
	return nil
}

// generated notes a virtual column; d begins with the expression's parenthesis.
func (p *createParser) generated(name string, d []token) {
	end := 1
	for end < len(d) && (d[end].depth != 1 || d[end].text != ")") {
		end++
	}
	if end == len(d) {
		return
	}
	for _, t := range d[end:] {
		if t.is("STORED") || t.is("PERSISTENT") {
			return
		}
	}
	p.virtual = append(p.virtual, virtualColumn{name, p.text[d[0].at:d[end].end]})
}

// characters settles the character set of a column.
func (p *createParser) characters(c *Column, charset, collation string) {
	switch {
	case charset == "" && collation == "":
		charset, collation = p.charset, p.collation
	case charset == "":
		charset = charsetOf(collation)
	case collation == "":
		if collation = defaultCollation(charset); charset == p.charset {
			collation = p.collation
		}
	}
	c.Charset, c.Collation = charset, collation
	if c.Kind == KindChar || c.Kind == KindVarchar {
		c.MaxBytes = c.Length * maxCharBytes(charset)
	}
}

// resolveIndexes finds the columns of the indexes.
func (p *createParser) resolveIndexes() error {
	for _, x := range p.indexes {
		for i, name := range x.columns {
			if name == "" {
				continue
			}
			if x.Parts[i].Column = p.table.ColumnIndex(name); x.Parts[i].Column < 0 {
				return fmt.Errorf("index %q has an unknown column %q", x.Name, name)
			}
			if x.Name == "PRIMARY" {
				p.table.Columns[x.Parts[i].Column].Nullable = false
			}
		}
		if len(x.Parts) == 0 {
			return fmt.Errorf("index %q has no columns", x.Name)
		}
		p.table.Indexes = append(p.table.Indexes, x.Index)
	}
	return nil
}

func charsetOf(collation string) string {
	charset, _, _ := strings.Cut(collation, "_")
	return charset
}

// defaultCollation is the collation that a character set has by itself, where it is named without one: dumps of MySQL 8
// and of MariaDB name both, those of 5.7 leave out the default.
func defaultCollation(charset string) string {
	switch charset {
	case "":
		return ""
	case "binary":
		return "binary"
	case "latin1", "dec8", "swe7":
		return charset + "_swedish_ci"
	case "latin5":
		return "latin5_turkish_ci"
	case "big5", "gb2312", "gbk", "gb18030":
		return charset + "_chinese_ci"
	case "sjis", "ujis", "cp932", "eucjpms":
		return charset + "_japanese_ci"
	case "euckr":
		return "euckr_korean_ci"
	case "tis620":
		return "tis620_thai_ci"
	case "hp8":
		return "hp8_english_ci"
	}
	return charset + "_general_ci"
}

func maxCharBytes(charset string) int {
	switch charset {
	case "utf8mb4", "utf16", "utf16le", "utf32", "gb18030":
		return 4
	case "utf8mb3", "ujis", "eucjpms":
		return 3
	case "ucs2", "sjis", "cp932", "gbk", "gb2312", "big5", "euckr":
		return 2
	}
	return 1
}
