package canal

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// certificate writes a self-signed certificate for a server at 127.0.0.1 and its key, and returns the pool that trusts it.
func certificate(t *testing.T, dir, name string) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(file, kind string, der []byte) string {
		path := filepath.Join(dir, name+file)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trust = x509.NewCertPool()
	trust.AddCert(parsed)
	return write(".pem", "CERTIFICATE", der), write("-key.pem", "PRIVATE KEY", keyDER), trust
}

// The log comes over TLS, to an account that is let in with TLS alone, from a server whose certificate is verified: rows of
// any size, and again after the connection was lost. A server with another certificate is refused before the password is
// sent.
func TestLogOverTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key, trust := certificate(t, dir, "server")
	_, _, distrust := certificate(t, dir, "other")
	private(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s, tableW, "CREATE TABLE big (id INT PRIMARY KEY, v LONGBLOB)", "INSERT INTO w VALUES (1, 1, 'x')",
			"CREATE USER 'tls'@'%' IDENTIFIED BY 'secret' REQUIRE SSL", "GRANT ALL ON *.* TO 'tls'@'%'")
		source := func(pool *x509.CertPool) *sqltext.Config {
			cfg, err := sqltext.ParseDSN(s.DSN)
			if err != nil {
				t.Fatal(err)
			}
			cfg.User, cfg.Password = "tls", "secret"
			if pool != nil {
				cfg.TLS = &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
			}
			return cfg
		}
		for name, pool := range map[string]*x509.CertPool{"no TLS": nil, "another certificate": distrust} {
			if problems, err := Check(t.Context(), source(pool), nil); err == nil && len(problems) == 0 {
				t.Errorf("with %s: all is well", name)
			}
		}
		r.start(func(cfg *Config) { cfg.Source = source(trust) }, nil)
		r.same("w", "big")
		r.exec("INSERT INTO w VALUES (2, 2, REPEAT('y', 200))")
		r.exec("INSERT INTO big VALUES (1, REPEAT('z', 3000000)), (2, REPEAT('z', 18000000))")
		r.same("w", "big")
		r.killStreams()
		r.eventually("another connection", func() bool { st := r.f.Status(); return st.Connected && len(st.Reconnects) > 0 })
		r.exec("UPDATE big SET v = CONCAT(v, 'end')")
		r.exec("DELETE FROM w WHERE id = 1")
		r.same("w", "big")
		r.noGap()
	}, "--ssl-ca="+cert, "--ssl-cert="+cert, "--ssl-key="+key, "--max-allowed-packet=64M")
}
