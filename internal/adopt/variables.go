package adopt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// Variables are the plugins' system variables, by their names in small letters with underscores.
type Variables map[string]string

// pluginPrefixes begin the names of all variables that matter.
var pluginPrefixes = []string{"daemon_memcached_", "innodb_api_", "handlersocket_"}

func (vars Variables) keep(name, value string) {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	name = strings.TrimPrefix(name, "loose_")
	for _, p := range pluginPrefixes {
		if strings.HasPrefix(name, p) {
			vars[name] = value
		}
	}
}

func (vars Variables) has(prefix string) bool {
	for name := range vars {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// on tells that a switch is on, as SHOW VARIABLES and option files spell it.
func (vars Variables) on(name string) bool {
	switch strings.ToLower(vars[name]) {
	case "on", "1", "true", "yes":
		return true
	}
	return false
}

func (vars Variables) load(ctx context.Context, q schema.Querier) error {
	for _, p := range pluginPrefixes {
		err := q.Query(ctx, "SHOW GLOBAL VARIABLES LIKE '"+strings.ReplaceAll(p, "_", `\_`)+"%'", func(v [][]byte) error {
			vars.keep(string(v[0]), string(v[1]))
			return nil
		})
		if err != nil {
			return fmt.Errorf("read the plugins' variables: %w", err)
		}
	}
	return nil
}

const (
	// maxVariableLine bounds a line of a file of variables: those of SHOW VARIABLES have up to some KiB.
	maxVariableLine = 1 << 20
	// serverGroups are the groups of an option file that servers read; those with a version behind them count, too.
	serverGroups = "mysqld server mariadb mariadbd"
)

// Read adds the variables of a file: lines of name TAB value, as mysql -e "SHOW GLOBAL VARIABLES" prints them, or an
// option file, my.cnf, of which the servers' groups count. Files that it includes are not read.
func (vars Variables) Read(r io.Reader, file string) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 4096), maxVariableLine)
	skip := false
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || line[0] == '#' || line[0] == ';' || line[0] == '!':
			continue
		case line[0] == '[':
			group, _, ok := strings.Cut(line[1:], "]")
			if !ok {
				return fmt.Errorf("%s:%d: group without its closing bracket", file, n)
			}
			group, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(group)), "-")
			skip = group == "" || !strings.Contains(" "+serverGroups+" ", " "+group+" ")
			continue
		case skip:
			continue
		}
		at := strings.IndexAny(line, "=\t")
		if at < 0 {
			vars.keep(strings.TrimSpace(line), "ON") // a switch of an option file
			continue
		}
		vars.keep(strings.TrimSpace(line[:at]), unquoteOption(strings.TrimSpace(line[at+1:])))
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return fmt.Errorf("%s:%d: line longer than %d bytes", file, n+1, maxVariableLine)
		}
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// unquoteOption takes the quotes off a value of an option file.
func unquoteOption(v string) string {
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		return v[1 : len(v)-1]
	}
	return v
}

// daemonOptions is what daemon_memcached_option says: memcached's own command line.
type daemonOptions struct {
	hosts   []string // -l
	port    string   // -p
	socket  string   // -s
	udp     string   // -U
	memory  int64    // -m, in bytes
	item    int64    // -I, in bytes
	conns   string   // -c
	sasl    bool     // -S
	noEvict bool     // -M
	noCAS   bool     // -C
	prefix  string   // -D
	others  []string // what means nothing here, or is not known
}

// takesValue are memcached's options that take one.
const takesValue = "apsUmcluPfntDRbIBeEX"

// parseDaemonOptions reads the text as memcached's getopt does. What it can't make sense of is among others.
func parseDaemonOptions(text string) daemonOptions {
	var o daemonOptions
	words := strings.Fields(text)
	for i := 0; i < len(words); i++ {
		w := words[i]
		if len(w) < 2 || w[0] != '-' || w[1] == '-' {
			o.others = append(o.others, w)
			continue
		}
		for j := 1; j < len(w); j++ {
			letter, value := w[j], ""
			if strings.IndexByte(takesValue, letter) >= 0 {
				if value = w[j+1:]; value == "" && i+1 < len(words) {
					i++
					value = words[i]
				}
				o.set(letter, value)
				break
			}
			o.set(letter, "")
		}
	}
	return o
}

func (o *daemonOptions) set(letter byte, value string) {
	ok := true
	switch letter {
	case 'p':
		_, err := strconv.ParseUint(value, 10, 16)
		if ok = err == nil; ok {
			o.port = value
		}
	case 's':
		o.socket = value
	case 'l':
		for host := range strings.SplitSeq(value, ",") {
			if host != "" {
				o.hosts = append(o.hosts, host)
			}
		}
	case 'U':
		o.udp = value
	case 'm':
		n, err := strconv.ParseInt(value, 10, 32)
		if ok = err == nil && n > 0; ok {
			o.memory = n << 20
		}
	case 'I':
		o.item = parseItemSize(value)
		ok = o.item > 0
	case 'c':
		o.conns = value
	case 'S':
		o.sasl = true
	case 'M':
		o.noEvict = true
	case 'C':
		o.noCAS = true
	case 'D':
		o.prefix = value
	case 'v', 'd', 'k', 'L', 'r', 't', 'u', 'P', 'f', 'n', 'b', 'R', 'h', 'i', 'a', 'B', 'e', 'E', 'X', 'q':
		// How the daemon works inside, what it logs, and how it is started.
	default:
		ok = false
	}
	if !ok {
		o.others = append(o.others, "-"+string(letter)+value)
	}
}

// parseItemSize reads memcached's -I: bytes, or a number with k or m. 0 is what can't be read.
func parseItemSize(text string) int64 {
	unit := int64(1)
	if text != "" {
		switch text[len(text)-1] {
		case 'k', 'K':
			unit = 1 << 10
		case 'm', 'M':
			unit = 1 << 20
		}
	}
	if unit > 1 {
		text = text[:len(text)-1]
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n <= 0 {
		return 0
	}
	return n * unit
}

// address is where the new daemon should listen, and whether that is only a cautious guess: the old one listened on every
// address.
func (o *daemonOptions) address() (address string, guess bool) {
	if o.socket != "" {
		return "unix:" + o.socket, false
	}
	port := o.port
	if port == "" {
		port = "11211"
	}
	if len(o.hosts) == 0 {
		return net.JoinHostPort("127.0.0.1", port), true
	}
	host := o.hosts[0]
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	}
	if host == "INADDR_ANY" || host == "0.0.0.0" {
		host = ""
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port), false
}

// handlerSocketAddress is where a port of HandlerSocket is.
func (vars Variables) handlerSocketAddress(name, port string) (address string, guess bool) {
	if v := vars[name]; v != "" {
		port = v
	}
	if strings.HasPrefix(port, "/") {
		return "unix:" + port, false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "off", false
	}
	switch host := vars["handlersocket_address"]; host {
	case "":
		return net.JoinHostPort("127.0.0.1", port), true
	case "0.0.0.0", "::":
		return net.JoinHostPort("", port), false
	default:
		return net.JoinHostPort(strings.Trim(host, "[]"), port), false
	}
}
