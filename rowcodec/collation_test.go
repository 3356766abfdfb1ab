package rowcodec

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// mostUsed are the collations that must be supported, where a server has them.
var mostUsed = []string{
	"utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_0900_as_ci", "utf8mb4_0900_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci",
	"utf8mb4_unicode_520_ci", "utf8mb4_bin", "utf8mb4_nopad_bin", "utf8mb4_general_nopad_ci", "utf8mb4_unicode_nopad_ci",
	"utf8mb3_general_ci", "utf8mb3_unicode_ci", "utf8mb3_bin", "utf8mb3_nopad_bin", "latin1_swedish_ci", "latin1_general_ci",
	"latin1_bin", "latin1_german1_ci", "latin1_nopad_bin", "ascii_general_ci", "ascii_bin", "cp1251_general_ci", "latin2_general_ci",
	"utf8mb4_de_pb_0900_ai_ci", "utf8mb4_ja_0900_as_cs", "utf8mb4_zh_0900_as_cs", "utf8mb4_swedish_ci", "utf8mb4_spanish2_ci",
}

var (
	everyCodePoint = flag.Bool("every-code-point", false, "compare the order of all code points, for each collation of Unicode (minutes)")
	orderSeed      = flag.Uint64("order-seed", 1, "start of the random values whose order is compared with the servers'")
)

// sampleTexts makes texts of a character set that a collation may take as equal or order in ways of its own.
func sampleTexts(cs *charset, mariaDB bool, r *rand.Rand, n int) [][]byte {
	if cs.length == nil || cs == asciiCharset {
		top := 256
		if cs == asciiCharset && !mariaDB { // MariaDB stores more
			top = 128
		}
		all := [][]byte{{}}
		for c := range top { // each character alone, and beside a blank
			all = append(all, []byte{byte(c)}, []byte{'a', byte(c)}, []byte{' ', byte(c)})
		}
		for len(all) < n {
			v := make([]byte, r.IntN(7))
			for i := range v {
				switch r.IntN(4) {
				case 0:
					v[i] = byte(r.IntN(top))
				case 1:
					v[i] = ' '
				default:
					v[i] = "aAbBzZ\t\n!~\x7f\x00"[r.IntN(12)]
				}
			}
			all = append(all, v)
		}
		return all
	}
	pieces := strings.Split("a|A|b|B|c|C|d|e|i|I|k|l|n|o|s|t|y|z|Z|0|1|.|-|'| | |  |   |\t|\n|\x01|\x1f|~|\x7f|\u00a0|\u3000|"+
		"ä|Ä|å|à|é|È|ß|ẞ|ss|SS|ae|æ|Æ|œ|oe|ø|ö|ü|ñ|ç|Ç|ı|İ|ł|đ|ð|þ|š|Š|ž|č|dz|dž|lj|nj|ǆ|Ǆ|ch|CH|Ch|ll|LL|rr|cs|gy|ny|sz|ty|zs|dzs|ccs|ij|IJ|ĳ|"+
		"α|Α|ά|σ|ς|Σ|и|й|И|Й|ё|Ё|ґ|Ґ|є|і|ї|ѝ|a\u0301|e\u0300|\u0301|\u0308|o\u0308|u\u0308|ʼ|ff|ﬀ|ﬁ|fi|①|²|½|™|tm|"+
		"あ|ア|ぁ|ァ|が|か\u3099|カ|ｶ|ヽ|ー|ゝ|ゞ|日|本|一|丁|語|㐀|가|각|ᄀ|ᆨ|힣|ก|เก|แ|ไ|ກ|ເກ|ا|أ|ب|א|बा|क|්|ක|"+
		"\u200b|\u200d|\ufffe|\ufeff|\ufffd|\uffff|\u00ad|", "|")
	if cs == utf8mb4Charset {
		pieces = append(pieces, "😀", "😁", "𠀀", "𠀁", "𝐀", "𐐀", "𐐨", "\U0010ffff", "\U000e0001")
	}
	top := rune(0x10000)
	if cs == utf8mb4Charset {
		top = 0x110000
	}
	all := [][]byte{{}}
	if *everyCodePoint {
		for c := rune(0); c < top; c++ {
			if c >= 0x20000 {
				c += 50
			}
			if utf8.ValidRune(c) {
				all = append(all, []byte(string(c)))
			} else if mariaDB {
				all = append(all, appendUTF8(nil, uint16(c)))
			}
		}
		return all
	}
	for _, p := range pieces {
		all = append(all, []byte(p), []byte("a"+p), []byte(" "+p))
	}
	for len(all) < n {
		var v []byte
		switch r.IntN(6) {
		case 0: // like another one
			v = slices.Clone(all[r.IntN(len(all))])
			switch r.IntN(3) {
			case 0:
				v = append(v, ' ')
			case 1:
				v = append(v, pieces[r.IntN(len(pieces))]...)
			default:
				v = []byte(strings.ToUpper(string(v)))
			}
		case 1: // any characters
			for range 1 + r.IntN(3) {
				limit := top
				if r.IntN(3) > 0 {
					limit = 0x3100
				}
				if c := r.Int32N(limit); utf8.ValidRune(c) {
					v = utf8.AppendRune(v, c)
				}
			}
		default:
			for range r.IntN(6) {
				v = append(v, pieces[r.IntN(len(pieces))]...)
			}
		}
		if cs.wellFormed(v) && utf8.RuneCount(v) <= 40 {
			all = append(all, v)
		}
	}
	return all
}

// TestCollations asks both servers, for all their collations of the character sets that are known here, how they order
// texts in an index and which they take as equal. What can't be done right must be refused.
func TestCollations(t *testing.T) {
	for _, server := range testmysql.Servers(t) {
		t.Run(server.Flavor, func(t *testing.T) {
			s := newSession(t, server)
			supported, refused := 0, []string{}
			for _, row := range s.query("SELECT COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE CHARACTER_SET_NAME IS NOT NULL ORDER BY ID") {
				name, csName := string(row[0]), string(row[1])
				c, err := columnCollation(server.Flavor, schema.KindVarchar, name)
				if err != nil {
					refused = append(refused, name)
					if slices.Contains(mostUsed, name) && !strings.Contains(err.Error(), "another one on MariaDB") {
						t.Errorf("%v", err)
					}
					continue
				}
				if name == "binary" {
					continue // not one of texts
				}
				supported++
				size, kinds := 700, []string{"VARCHAR(60)"}
				if slices.Contains(mostUsed, name) {
					size, kinds = 2000, []string{"VARCHAR(60)", "CHAR(60)"}
				} else if testing.Short() {
					continue
				}
				t.Run(name, func(t *testing.T) {
					for _, kind := range kinds {
						compareCollation(t, s.in(t), c, kind, name, csName, size)
					}
				})
			}
			if supported < 60 {
				t.Errorf("only %d collations are supported", supported)
			}
			t.Logf("%d collations supported, refused: %s", supported, strings.Join(refused, " "))
		})
	}
}

func compareCollation(t *testing.T, s *session, c *collation, kind, name, csName string, size int) {
	if kind == "CHAR(60)" {
		var err error
		if c, err = columnCollation(s.flavor, schema.KindChar, name); err != nil {
			return
		}
	}
	texts := sampleTexts(c.charset, s.flavor == testmysql.MariaDB, rand.New(rand.NewPCG(*orderSeed, uint64(len(name)))), size)
	s.exec("DROP TABLE IF EXISTS t")
	s.exec(fmt.Sprintf("CREATE TABLE t (id INT PRIMARY KEY, v %s CHARACTER SET %s COLLATE %s NOT NULL, KEY k (v))", kind, csName, name))
	rows := make([]string, len(texts))
	for i, v := range texts {
		rows[i] = fmt.Sprintf("%d, x'%x'", i, v)
	}
	s.insert("t", rows)
	var order []int
	stored := make([][]byte, len(texts))
	for _, row := range s.query("SELECT id, v FROM t FORCE INDEX (k) ORDER BY v") {
		id, err := strconv.Atoi(string(row[0]))
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, id)
		stored[id] = row[1]
	}
	keys := make([][]byte, len(texts))
	for i, v := range stored {
		key, err := c.order.appendKey(nil, v)
		if err != nil {
			t.Fatalf("%q: %v", v, err)
		}
		keys[i] = key
	}
	checkOrder(t, keys, order, s.same("a.v = b.v"), func(i int) string { return fmt.Sprintf("%s %q", kind, stored[i]) })
}
