package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// redacted stands for a secret wherever a value is shown.
const redacted = "(hidden)"

// Secret is a text that is never shown: every way of printing it gives "(hidden)", or "" where it is empty.
type Secret struct{ text string }

// NewSecret returns a Secret of that text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text itself.
func (s Secret) Reveal() string { return s.text }

// String hides the text.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return redacted
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalJSON hides the text.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (s *Secret) set(text string) error {
	s.text = text
	return nil
}

// DSN names a server in the form of go-sql-driver: user:password@tcp(host:port)/ or user@unix(/path)/. Every way of
// printing it leaves the password out.
type DSN struct{ text string }

// ParseDSN checks a DSN. Its errors do not repeat what may be a password.
func ParseDSN(text string) (DSN, error) {
	const want = "want user:password@tcp(host:port)/ or user@unix(/path/to/socket)/"
	cfg, err := mysql.ParseDSN(text)
	if err != nil {
		base, _, hasParams := strings.Cut(text, "?")
		if reason, ok := strings.CutPrefix(err.Error(), "invalid DSN: "); ok {
			return DSN{}, fmt.Errorf("not a DSN: %s; %s", reason, want)
		}
		if hasParams {
			if _, baseErr := mysql.ParseDSN(base); baseErr == nil {
				return DSN{}, fmt.Errorf("parameters of the DSN: %w", err)
			}
		}
		return DSN{}, errors.New("not a DSN: " + want)
	}
	switch {
	case cfg.Net != "tcp" && cfg.Net != "unix":
		return DSN{}, fmt.Errorf("the DSN's network is neither tcp nor unix; %s", want)
	case cfg.User == "":
		return DSN{}, fmt.Errorf("the DSN has no user; %s", want)
	}
	return DSN{text}, nil
}

// Reveal returns the whole DSN with its password.
func (d DSN) Reveal() string { return d.text }

// String is the DSN with its password hidden.
func (d DSN) String() string {
	if d.text == "" {
		return ""
	}
	at := strings.LastIndexByte(d.text, '@')
	if at < 0 {
		return d.text
	}
	user, _, has := strings.Cut(d.text[:at], ":")
	if !has {
		return d.text
	}
	return user + ":" + redacted + d.text[at:]
}

// GoString hides the password from %#v.
func (d DSN) GoString() string { return strconv.Quote(d.String()) }

// MarshalJSON hides the password.
func (d DSN) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// LogValue hides the password from slog.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }

// Address is where a listener listens. The zero value is a listener that is switched off.
type Address struct {
	// Network is "tcp", "unix", or empty where the listener is off.
	Network string
	// Address is host:port (the host may be empty: all interfaces) or the socket's path.
	Address string
}

// Off tells whether the listener is switched off.
func (a Address) Off() bool { return a.Network == "" }

// String is the form that ParseAddress reads.
func (a Address) String() string {
	switch a.Network {
	case "":
		return "off"
	case "unix":
		return "unix:" + a.Address
	}
	return a.Address
}

// maxSocketPath is what fits into a socket address of Linux, with its closing zero.
const maxSocketPath = 107

// ParseAddress reads "off" or "", host:port, :port, or unix:/path.
func ParseAddress(text string) (Address, error) {
	if text == "" || text == "off" {
		return Address{}, nil
	}
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		switch {
		case path == "":
			return Address{}, errors.New("unix: needs the path of a socket, as in unix:/run/binlogcache.sock")
		case len(path) > maxSocketPath:
			return Address{}, fmt.Errorf("the socket's path has %d bytes, the system allows %d", len(path), maxSocketPath)
		}
		return Address{"unix", path}, nil
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return Address{}, fmt.Errorf("%q is no address: want host:port, unix:/path or off", text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return Address{}, fmt.Errorf("%q is no port: want a number from 0 to 65535", port)
	}
	return Address{"tcp", text}, nil
}

func (a *Address) set(text string) error {
	v, err := ParseAddress(text)
	if err != nil {
		return err
	}
	*a = v
	return nil
}

// Size is a number of bytes.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"tib", 1 << 40},
	{"gib", 1 << 30},
	{"mib", 1 << 20},
	{"kib", 1 << 10},
	{"tb", 1e12},
	{"gb", 1e9},
	{"mb", 1e6},
	{"kb", 1e3},
	{"t", 1 << 40},
	{"g", 1 << 30},
	{"m", 1 << 20},
	{"k", 1 << 10},
	{"b", 1},
}

// ParseSize reads a number of bytes: plain, or with a unit. KiB, MiB, GiB and TiB, also written K, M, G and T, are
// powers of 1024; kB, MB, GB and TB are powers of 1000. Case does not matter.
func ParseSize(text string) (Size, error) {
	number, unit := strings.ToLower(strings.TrimSpace(text)), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	wrong := fmt.Errorf("%q is no size: want bytes, or a number with a unit as in 64MiB or 1.5GiB", text)
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64/unit {
			return 0, wrong
		}
		return Size(n * unit), nil
	}
	if strings.Trim(number, "0123456789.") != "" {
		return 0, wrong // what ParseFloat takes beyond plain numbers: 1e3, 0x1p3, inf, 1_0
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f*float64(unit) >= math.MaxInt64 {
		return 0, wrong
	}
	return Size(f * float64(unit)), nil
}

// String is the size with the largest binary unit that divides it.
func (s Size) String() string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if bytes := Size(1) << (40 - 10*i); s != 0 && s%bytes == 0 {
			return strconv.FormatInt(int64(s/bytes), 10) + unit
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

func (s *Size) set(text string) error {
	v, err := ParseSize(text)
	if err != nil {
		return err
	}
	*s = v
	return nil
}

// The following types bind plain fields to options.

type textValue struct{ p *string }

func (v textValue) set(text string) error { *v.p = text; return nil }
func (v textValue) String() string        { return *v.p }

// oneOf is a text from a fixed list.
type oneOf struct {
	p    *string
	list []string
}

func (v oneOf) set(text string) error {
	for _, l := range v.list {
		if text == l {
			*v.p = text
			return nil
		}
	}
	return fmt.Errorf("%q is unknown: want %s", text, strings.Join(v.list, " or "))
}
func (v oneOf) String() string { return *v.p }

type intValue struct {
	p        *int
	min, max int
}

func (v intValue) set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < v.min || n > v.max {
		return fmt.Errorf("%q: want a whole number from %d to %d", text, v.min, v.max)
	}
	*v.p = n
	return nil
}
func (v intValue) String() string { return strconv.Itoa(*v.p) }

// switchValue is on or off.
type switchValue struct{ p *bool }

func (v switchValue) set(text string) error {
	switch text {
	case "on", "true", "yes", "1":
		*v.p = true
	case "off", "false", "no", "0":
		*v.p = false
	default:
		return fmt.Errorf("%q: want on or off", text)
	}
	return nil
}

func (v switchValue) String() string {
	if *v.p {
		return "on"
	}
	return "off"
}

// durationValue reads 300ms, 5s, 1m30s; where off is allowed, that is zero.
type durationValue struct {
	p        *time.Duration
	allowOff bool
}

func (v durationValue) set(text string) error {
	if v.allowOff && (text == "off" || text == "") {
		*v.p = 0
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		want := "want a time as in 500ms, 5s or 2m"
		if v.allowOff {
			want += ", or off"
		}
		return fmt.Errorf("%q is no duration: %s", text, want)
	}
	*v.p = d
	return nil
}

func (v durationValue) String() string {
	if v.allowOff && *v.p == 0 {
		return "off"
	}
	return v.p.String()
}

type levelValue struct{ p *slog.Level }

var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (v levelValue) set(text string) error {
	l, ok := levels[text]
	if !ok {
		return fmt.Errorf("%q is unknown: want debug, info, warn or error", text)
	}
	*v.p = l
	return nil
}
func (v levelValue) String() string { return strings.ToLower(v.p.String()) }

// listValue collects comma-separated texts. The option's first value replaces the default.
type listValue struct{ p *[]string }

func (v listValue) set(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			return fmt.Errorf("%q has an empty entry: want names with commas between", text)
		}
		*v.p = append(*v.p, item)
	}
	return nil
}
func (v listValue) String() string { return strings.Join(*v.p, ",") }
func (v listValue) reset()         { *v.p = nil }

type dsnValue struct{ p *[]DSN }

func (v dsnValue) set(text string) error {
	d, err := ParseDSN(text)
	if err != nil {
		return err
	}
	*v.p = append(*v.p, d)
	return nil
}

func (v dsnValue) String() string {
	var all []string
	for _, d := range *v.p {
		all = append(all, d.String())
	}
	return strings.Join(all, " ")
}
func (v dsnValue) reset() { *v.p = nil }
