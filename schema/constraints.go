package schema

import (
	"fmt"
	"strings"
)

// foreignKey is one FOREIGN KEY clause of a table.
type foreignKey struct {
	name string
	// actions are the clauses that let the engine change this table's rows: "ON DELETE CASCADE" and the like.
	actions []string
}

// token is one word, quoted name or punctuation mark of a CREATE TABLE statement.
type token struct {
	text string
	// quoted is true for names in backticks or double quotes and for strings.
	quoted bool
	depth  int
	// at and end are where it stands in the text.
	at, end int
}

// foreignKeys reads the clauses out of the text of SHOW CREATE TABLE. information_schema would be easier, but MariaDB
// shows its REFERENTIAL_CONSTRAINTS only to users with more than the SELECT right, as if there were none.
func foreignKeys(createTable string) ([]foreignKey, error) {
	tokens, _, err := tokenize(createTable)
	if err != nil {
		return nil, fmt.Errorf("SHOW CREATE TABLE: %w", err)
	}
	var keys []foreignKey
	for i := 0; i+1 < len(tokens); i++ {
		if tokens[i].depth != 1 || !tokens[i].is("FOREIGN") || !tokens[i+1].is("KEY") {
			continue
		}
		var key foreignKey
		if i >= 2 && tokens[i-2].is("CONSTRAINT") {
			key.name = tokens[i-1].text
		}
		for i += 2; i < len(tokens); i++ {
			if t := tokens[i]; t.depth < 1 || t.depth == 1 && t.is(",") {
				break
			}
			if i+2 < len(tokens) && tokens[i].depth == 1 && tokens[i].is("ON") && !tokens[i+1].quoted {
				action := strings.ToUpper(tokens[i+2].text)
				if action == "SET" && i+3 < len(tokens) {
					action += " " + strings.ToUpper(tokens[i+3].text)
				}
				if action == "CASCADE" || strings.HasPrefix(action, "SET") {
					key.actions = append(key.actions, "ON "+strings.ToUpper(tokens[i+1].text)+" "+action)
				}
			}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func (t token) is(word string) bool { return !t.quoted && strings.EqualFold(t.text, word) }

// tokenize splits a CREATE TABLE statement as far as the closing parenthesis of its definitions. Comments of versions
// (/*!80016 INVISIBLE */) count as their content, others as nothing. rest is what stands behind.
func tokenize(s string) (tokens []token, rest string, err error) {
	depth, versioned := 0, false
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case strings.HasPrefix(s[i:], "/*"):
			if len(s) > i+2 && (s[i+2] == '!' || strings.HasPrefix(s[i+2:], "M!")) {
				i += strings.IndexByte(s[i:], '!') + 1
				for i < len(s) && s[i] >= '0' && s[i] <= '9' {
					i++
				}
				versioned = true
				continue
			}
			end := strings.Index(s[i+2:], "*/")
			if end < 0 {
				return nil, "", fmt.Errorf("comment at byte %d is not closed", i)
			}
			i += end + 4
		case versioned && strings.HasPrefix(s[i:], "*/"):
			versioned = false
			i += 2
		case c == '`' || c == '"' || c == '\'':
			text, next, err := unquote(s, i)
			if err != nil {
				return nil, "", fmt.Errorf("byte %d: %w", i, err)
			}
			tokens = append(tokens, token{string(text), true, depth, i, next})
			i = next
		case c == '(':
			tokens = append(tokens, token{"(", false, depth, i, i + 1})
			depth++
			i++
		case c == ')':
			depth--
			tokens = append(tokens, token{")", false, depth, i, i + 1})
			i++
			if depth == 0 {
				return tokens, s[i:], nil
			}
		case !isWord(c):
			tokens = append(tokens, token{s[i : i+1], false, depth, i, i + 1})
			i++
		default:
			start := i
			for i < len(s) && isWord(s[i]) {
				i++
			}
			tokens = append(tokens, token{s[start:i], false, depth, start, i})
		}
	}
	return nil, "", fmt.Errorf("definitions are not closed")
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
