package schema

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
)

// labelBatch is how many labels one query asks for. MySQL ends a recursive query after 1,000 rounds by default.
const labelBatch = 500

func unhex(text []byte) ([]byte, error) {
	raw := make([]byte, hex.DecodedLen(len(text)))
	if _, err := hex.Decode(raw, text); err != nil {
		return nil, err
	}
	return raw, nil
}

// loadMembers sets c.Members of an ENUM or SET column: the labels' bytes in the column's character set.
//
// The catalog gives them as utf8mb3, so characters beyond the basic plane and bytes that are no text come as '?'.
// Labels that may have suffered, and those of character sets in which ASCII is not ASCII, are asked for.
func loadMembers(ctx context.Context, q Querier, t *Table, c *Column) error {
	labels, err := labelTexts(c.TypeText)
	if err != nil {
		return err
	}
	if len(labels) == 0 {
		return fmt.Errorf("%q has no labels", c.TypeText)
	}
	c.Members = make([][]byte, len(labels))
	safe := true
	for i, l := range labels {
		c.Members[i] = l.text
		safe = safe && (l.raw || sameInCharset(c.Charset, l.text))
	}
	if safe {
		return nil
	}
	for from := 0; from < len(labels); from += labelBatch {
		if err := askMembers(ctx, q, t, c, labels, from, min(from+labelBatch, len(labels))); err != nil {
			return err
		}
	}
	return nil
}

// sameInCharset reports that the catalog's spelling of a label is certainly what the column holds.
func sameInCharset(charset string, text []byte) bool {
	ascii := true
	for _, b := range text {
		if b == '?' {
			return false
		}
		ascii = ascii && b < 0x80
	}
	switch charset {
	case "utf8mb4", "utf8mb3":
		return true
	case "ascii", "binary", "latin1", "latin2", "latin5", "latin7", "cp1250", "cp1251", "cp1256", "cp1257", "cp850",
		"cp852", "cp866", "koi8r", "koi8u", "greek", "hebrew", "macce", "macroman", "gbk", "gb2312", "gb18030", "big5":
		return ascii
	}
	return false
}

// askMembers asks for the labels number from+1 to number to. It needs no row in the table and no right but SELECT.
func askMembers(ctx context.Context, q Querier, t *Table, c *Column, labels []label, from, to int) error {
	ask := askMySQL
	if t.Flavor == FlavorMariaDB {
		ask = askMariaDB
	}
	at := from
	err := ask(ctx, q, t, c, from, to, func(hexRaw, hexText []byte) error {
		if at >= to {
			return fmt.Errorf("more labels than %d", to)
		}
		raw, err := unhex(hexRaw)
		if err != nil {
			return err
		}
		text, err := unhex(hexText)
		if err != nil {
			return err
		}
		if l := labels[at]; !bytes.Equal(text, l.text) && !l.raw && c.Charset != "binary" {
			return fmt.Errorf("label %d is %q here and %q in the catalog", at+1, text, l.text)
		}
		c.Members[at] = raw
		at++
		return nil
	})
	if err == nil && at < to {
		err = fmt.Errorf("%d labels instead of %d", at, to)
	}
	if err != nil {
		return fmt.Errorf("labels of column %q: %w", c.Name, err)
	}
	return nil
}

// askMySQL has the server turn the numbers of labels into labels by a recursive query: its seed has the column's type,
// and a number that is put into it becomes the label.
func askMySQL(ctx context.Context, q Querier, t *Table, c *Column, from, to int, take func(hexRaw, hexText []byte) error) error {
	value := "n+1"
	if c.Kind == KindSet {
		value = "1<<n" // a SET takes a mask with one bit for each label
	}
	query := fmt.Sprintf("WITH RECURSIVE l(v,n) AS (SELECT t.%s, %d FROM (SELECT 1) one LEFT JOIN %s t ON FALSE"+
		" UNION ALL SELECT %s, n+1 FROM l WHERE n<%d)"+
		" SELECT HEX(v), HEX(CONVERT(v USING utf8mb3)) FROM l WHERE n>%d ORDER BY n",
		QuoteName(c.Name), from, t.quoted(), value, to, from)
	return q.Query(ctx, query, func(values [][]byte) error { return take(values[0], values[1]) })
}

// askMariaDB does the same by a variable of the column's type. (MariaDB's recursive queries hold a SET in one byte and
// lose the labels from the ninth on.)
func askMariaDB(ctx context.Context, q Querier, t *Table, c *Column, from, to int, take func(hexRaw, hexText []byte) error) error {
	value := "n+1"
	if c.Kind == KindSet {
		value = "1<<n"
	}
	block := fmt.Sprintf("BEGIN NOT ATOMIC DECLARE v TYPE OF %s.%s; DECLARE n INT DEFAULT %d; SET @binlogcache_labels = '';"+
		" WHILE n<%d DO SET v = %s; SET n = n+1;"+
		" SET @binlogcache_labels = CONCAT(@binlogcache_labels, HEX(v), ' ', HEX(CONVERT(v USING utf8mb3)), ',');"+
		" END WHILE; END", t.quoted(), QuoteName(c.Name), from, to, value)
	if err := q.Query(ctx, block, func([][]byte) error { return nil }); err != nil {
		return err
	}
	return q.Query(ctx, "SELECT @binlogcache_labels", func(values [][]byte) error {
		rest := values[0]
		for len(rest) > 0 {
			var entry []byte
			entry, rest, _ = bytes.Cut(rest, []byte{','})
			raw, text, _ := bytes.Cut(entry, []byte{' '})
			if err := take(raw, text); err != nil {
				return err
			}
		}
		return nil
	})
}
