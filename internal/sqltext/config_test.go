package sqltext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestParseDSN(t *testing.T) {
	tests := []struct {
		dsn  string
		want string // network|address|user|password|timeout|readTimeout|writeTimeout|tls
	}{
		{"root:pw@tcp(127.0.0.1:3306)/", "tcp|127.0.0.1:3306|root|pw|10s|0s|0s|"},
		{"root@tcp(db)/", "tcp|db:3306|root||10s|0s|0s|"},
		{"root@unix(/run/mysqld/mysqld.sock)/", "unix|/run/mysqld/mysqld.sock|root||10s|0s|0s|"},
		{"u:p/w?x@y:z@tcp(h:1)/app?timeout=3s&readTimeout=4s&writeTimeout=500ms", "tcp|h:1|u|p/w?x@y:z|3s|4s|500ms|"},
		{"u@tcp([::1]:3307)/?tls=true", "tcp|[::1]:3307|u||10s|0s|0s|::1"},
		{"u@tcp(h:1)/?tls=skip-verify", "tcp|h:1|u||10s|0s|0s|insecure"},
		{"u@tcp(h:1)/?tls=false&parseTime=true&charset=utf8mb4&loc=Europe%2FBerlin", "tcp|h:1|u||10s|0s|0s|"},
		{"/", "tcp|127.0.0.1:3306|||10s|0s|0s|"},
	}
	for _, tt := range tests {
		c, err := ParseDSN(tt.dsn)
		if err != nil {
			t.Errorf("%q: %v", tt.dsn, err)
			continue
		}
		tlsText := ""
		if c.TLS != nil {
			tlsText = c.TLS.ServerName
			if c.TLS.InsecureSkipVerify {
				tlsText = "insecure"
			}
		}
		got := fmt.Sprintf("%s|%s|%s|%s|%v|%v|%v|%s", c.Network, c.Address, c.User, c.Password, c.Timeout, c.ReadTimeout, c.WriteTimeout, tlsText)
		if got != tt.want {
			t.Errorf("%q:\n got %s\nwant %s", tt.dsn, got, tt.want)
		}
	}
}

func TestParseDSNErrors(t *testing.T) {
	tests := []struct{ dsn, part string }{
		{"", "form"},
		{"root:s3cret", "form"},
		{"root:s3cret/", "form"},
		{"root:s3cret@tcp(127.0.0.1:1", "form"},
		{"root:s3cret@tcp(127.0.0.1:1)x/", "form"},
		{"root:s3cret@pipe(x)/", "tcp(...) or unix(...)"},
		{"root:s3cret@tcp(127.0.0.1:1)/?max_statement_time=5", `"max_statement_time" is not supported`},
		{"root:s3cret@tcp(127.0.0.1:1)/?strict=true", `"strict" is not supported`},
		{"root:s3cret@tcp(127.0.0.1:1)/?compress=true", `"compress" is not supported`},
		{"root:s3cret@tcp(127.0.0.1:1)/?tls=preferred", "tls must be"},
		{"root:s3cret@tcp(127.0.0.1:1)/?timeout=s3cret", "timeout must be a duration"},
		{"root:s3cret@tcp(127.0.0.1:1)/?timeout=-1s", "timeout must be a duration"},
		{"root:s3cret@tcp(127.0.0.1:1)/?timeout=%zz", "not URL-encoded"},
		{"root:a/s3cret?b=s3cret@tcp(h:1)", "form"},
	}
	for _, tt := range tests {
		_, err := ParseDSN(tt.dsn)
		if err == nil {
			t.Errorf("%q: no error", tt.dsn)
			continue
		}
		text := err.Error()
		if !strings.Contains(text, tt.part) || strings.Contains(text, "s3cret") || strings.Contains(text, "\n") {
			t.Errorf("%q: error %q", tt.dsn, text)
		}
	}
}

func TestConfigHidesPassword(t *testing.T) {
	c, err := ParseDSN("app:s3cret@tcp(db:3306)/?tls=true")
	if err != nil {
		t.Fatal(err)
	}
	const want = "app:***@tcp(db:3306)/?tls=true"
	if c.String() != want {
		t.Errorf("String: %s", c)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "source", c, "value", *c)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "source", c)
	encoded, err := json.Marshal(struct{ C *Config }{c})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s %v %+v %#v %v %+v %#v %q", c, c, c, c, *c, *c, *c, c) + log.String() + string(encoded)
	if strings.Contains(text, "s3cret") {
		t.Errorf("password shown: %s", text)
	}
	if !strings.Contains(log.String(), want) {
		t.Errorf("log: %s", log.String())
	}
}

func FuzzParseDSN(f *testing.F) {
	for _, s := range []string{"root:pw@tcp(h:1)/db?tls=true", "unix(/x)/", "a@b(c)/?timeout=1s&x=%", ":@tcp()/?strict=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		c, err := ParseDSN(dsn)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v and error %v", c, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\r\n") {
			t.Fatalf("error of several lines: %q", err)
		}
	})
}

func FuzzParseDSNKeepsPassword(f *testing.F) {
	const marker = "Zq7-marker"
	f.Add("root:", "@tcp(h:1)/?x=y")
	f.Add("root:", "")
	f.Add("", "/")
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before, "?") || strings.ContainsAny(after, "&?") {
			return // names of parameters are shown
		}
		_, err := ParseDSN(before + marker + after)
		if err != nil && strings.Contains(err.Error(), marker) {
			t.Fatalf("%q: %v", before+marker+after, err)
		}
	})
}

func TestDialTimeoutDefault(t *testing.T) {
	if d := (&Config{}).dialTimeout(); d != DefaultDialTimeout {
		t.Errorf("dial timeout of an empty config: %v", d)
	}
	if d := (&Config{Timeout: time.Second}).dialTimeout(); d != time.Second {
		t.Errorf("dial timeout: %v", d)
	}
}
