package sqltext

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// DefaultDialTimeout bounds connecting and logging in when the DSN has no timeout of its own: long enough for a server
// that is busy starting, short enough that a dead address is noticed while a client still waits.
const DefaultDialTimeout = 10 * time.Second

// Config says how to reach one server. It is not changed after it was made and may be shared. It holds a password:
// String and the other ways of printing it leave the password out.
type Config struct {
	Network  string // tcp, tcp4, tcp6 or unix
	Address  string // host:port, or the path of the socket
	User     string
	Password string
	// TLS is nil for a connection without it.
	TLS *tls.Config
	// Timeout bounds connecting, including the login. ReadTimeout and WriteTimeout bound each wait for the network;
	// 0 means that only the caller's context ends them.
	Timeout, ReadTimeout, WriteTimeout time.Duration
	// Changes makes connections fit for ExecAll.
	Changes bool
	// Init, where it is not nil, runs on each new connection after the session has been set up; its error fails Dial.
	Init func(ctx context.Context, c *Conn) error
}

// Parameters of a go-sql-driver DSN that say how that driver converts or checks values. They mean nothing for
// connections that hand on the server's bytes, so they are passed over: a DSN may be shared with an application.
var ignoredParams = map[string]bool{
	"allowNativePasswords": true, "charset": true, "checkConnLiveness": true, "clientFoundRows": true, "collation": true,
	"columnsWithAlias": true, "connectionAttributes": true, "interpolateParams": true, "loc": true, "maxAllowedPacket": true,
	"multiStatements": true, "parseTime": true, "timeTruncate": true,
}

const dsnForm = "user[:password]@tcp(host:port)/ or user[:password]@unix(/path/of/socket)/"

// ParseDSN reads a DSN in go-sql-driver's form. It takes tcp and unix addresses and the parameters tls (true, false,
// skip-verify), timeout, readTimeout and writeTimeout; passes over parameters that only concern how the driver converts
// values, and the database name; and refuses all others, session variables among them. The text of an error is one line
// and holds no part of the DSN but the names of parameters.
func ParseDSN(dsn string) (*Config, error) {
	base, params := dsn, ""
	if slash := strings.LastIndexByte(dsn, '/'); slash >= 0 {
		if mark := strings.IndexByte(dsn[slash:], '?'); mark >= 0 {
			base, params = dsn[:slash+mark], dsn[slash+mark+1:]
		}
	}
	// The driver's own error texts quote what they could not read, which may be a misplaced password.
	parsed, err := driver.ParseDSN(base)
	if err != nil || base == "" {
		return nil, errors.New("the source address must have the form " + dsnForm)
	}
	switch parsed.Net {
	case "tcp", "tcp4", "tcp6", "unix":
	default:
		return nil, errors.New("the source address must name tcp(...) or unix(...), in the form " + dsnForm)
	}
	c := &Config{
		Network: parsed.Net, Address: parsed.Addr, User: parsed.User, Password: parsed.Passwd,
		Timeout: DefaultDialTimeout,
	}
	for pair := range strings.SplitSeq(params, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		if err := c.param(name, value); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Config) param(name, value string) error {
	value, err := url.QueryUnescape(value)
	if err != nil {
		return fmt.Errorf("source address: parameter %q is not URL-encoded", name)
	}
	switch name {
	case "tls":
		switch strings.ToLower(value) {
		case "true", "1":
			c.TLS = &tls.Config{}
			if host, _, err := net.SplitHostPort(c.Address); err == nil {
				c.TLS.ServerName = host
			}
		case "skip-verify":
			c.TLS = &tls.Config{InsecureSkipVerify: true}
		case "false", "0":
		default:
			return errors.New("source address: tls must be true, false or skip-verify")
		}
		return nil
	case "timeout":
		return durationParam(&c.Timeout, name, value)
	case "readTimeout":
		return durationParam(&c.ReadTimeout, name, value)
	case "writeTimeout":
		return durationParam(&c.WriteTimeout, name, value)
	}
	if ignoredParams[name] {
		return nil
	}
	return fmt.Errorf("source address: parameter %q is not supported; tls, timeout, readTimeout and writeTimeout are", name)
}

func durationParam(to *time.Duration, name, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return fmt.Errorf("source address: %s must be a duration such as 5s", name)
	}
	*to = d
	return nil
}

// String gives the address and user, for messages; the password shows as ***.
func (c Config) String() string {
	var b strings.Builder
	b.WriteString(c.User)
	if c.Password != "" {
		b.WriteString(":***")
	}
	if c.User != "" || c.Password != "" {
		b.WriteByte('@')
	}
	b.WriteString(c.Network + "(" + c.Address + ")/")
	switch {
	case c.TLS == nil:
	case c.TLS.InsecureSkipVerify:
		b.WriteString("?tls=skip-verify")
	default:
		b.WriteString("?tls=true")
	}
	return b.String()
}

// GoString is String, so that %#v does not show the password.
func (c Config) GoString() string { return c.String() }

// LogValue is String, for log/slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText is String, so that no encoder shows the password.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
