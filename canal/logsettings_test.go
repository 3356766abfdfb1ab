package canal

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// certificates makes a certificate authority and a server's certificate for 127.0.0.1 that it has signed, and gives the
// server's options and the authority.
func certificates(t *testing.T) (options []string, roots *x509.CertPool) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		}
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	authority := template(1, "test authority")
	authority.IsCA, authority.KeyUsage = true, x509.KeyUsageCertSign
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	must(err)
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	server := template(2, "test server")
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	server.KeyUsage, server.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, serverKey.Public(), authorityKey)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	must(err)
	parsed, err := x509.ParseCertificate(authorityDER)
	must(err)
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return []string{
		"--ssl-ca=" + write("ca.pem", "CERTIFICATE", authorityDER),
		"--ssl-cert=" + write("server.pem", "CERTIFICATE", serverDER),
		"--ssl-key=" + write("server.key", "PRIVATE KEY", keyDER),
		"--require-secure-transport=ON",
	}, roots
}

// The log of a server that takes encrypted connections only, with its certificate verified or not; also rows that take
// several packets, and after the connection was lost.
func TestLogOverTLS(t *testing.T) {
	options, roots := certificates(t)
	private(t, func(t *testing.T, s testmysql.Server) {
		s.DSN += "?tls=skip-verify" // the test's own connections
		for _, verify := range []bool{true, false} {
			t.Run(fmt.Sprintf("verify=%v", verify), func(t *testing.T) {
				r := newRig(t, s, "CREATE TABLE w (id INT PRIMARY KEY, v LONGBLOB, n INT)", "INSERT INTO w VALUES (1, 'a', 1)")
				r.start(func(cfg *Config) {
					if verify {
						cfg.Source.TLS = &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
					}
				}, nil)
				r.same("w")
				write := func() {
					for _, sql := range []string{
						"REPLACE INTO w VALUES (2, REPEAT('b', 17000000), 2), (3, '', 3)", "UPDATE w SET v = REPEAT('c', 2000000), n = n + 1 WHERE id = 2",
					} {
						r.exec(sql)
					}
				}
				write()
				r.same("w")
				r.killStream()
				r.eventually("another stream", func() bool { st := r.f.Status(); return st.Connected && len(st.Reconnects) > 0 })
				write()
				r.same("w")
				if n := r.sink.loadsOf(r.schema + ".w"); n != 1 {
					t.Errorf("%d loads", n)
				}
			})
		}
		t.Run("unknown authority", func(t *testing.T) {
			r := newRig(t, s, "CREATE TABLE w (id INT PRIMARY KEY)")
			r.start(func(cfg *Config) {
				cfg.Source.TLS = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
			}, nil)
			r.eventually("the refusal", func() bool { return strings.Contains(r.f.Status().Trouble, "certificate") })
		})
	}, options...)
}

// killStream has the server end the connection over which it sends its log.
func (r *rig) killStream() {
	r.t.Helper()
	r.killStreams("KILL")
}

func (r *rig) killStreams(kill string) {
	r.t.Helper()
	var ids []string
	err := r.conn.Query(r.t.Context(), "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'", func(v [][]byte) error {
		ids = append(ids, string(v[0]))
		return nil
	})
	if err != nil || len(ids) == 0 {
		r.t.Fatalf("streams %q, %v", ids, err)
	}
	for _, id := range ids {
		r.exec(kill + " " + id)
	}
}
