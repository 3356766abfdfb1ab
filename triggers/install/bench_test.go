package install

import (
	"path/filepath"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// BenchmarkWrites measures what the triggers of each spec add to single-row inserts and deletes, each a transaction of
// its own: medians, in microseconds. b.N is the number of pairs.
func BenchmarkWrites(b *testing.B) {
	for _, server := range testmysql.Servers(b) {
		f := newFixture(b, server)
		f.exec(b, "INSERT INTO app.plans VALUES (1, 'free'), (2, 'gold')",
			"INSERT INTO app.users (uname, email, plan_id) SELECT CONCAT('user', n), CONCAT('user', n, '@example.com'), 1 + n % 2 FROM (WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM q WHERE n < 100) SELECT n FROM q) AS q",
			"INSERT INTO app.sessions SELECT LEFT(SHA2(id, 256), 32), id, REPEAT('x', 200), FROM_UNIXTIME(2000000000) FROM app.users",
			"INSERT INTO app.items (shop, no, title, qty, price) SELECT id % 10, id, uname, 1, id FROM app.users",
			"INSERT INTO app.payments (shop, day, amount, units) SELECT id % 10, '2024-01-01', id, 1 FROM app.users")
		for _, path := range []string{
			"../examples/user_card.yaml", "../examples/user_profile.yaml", "../examples/session.yaml", "../testdata/revenue.yaml", "../testdata/best_item.yaml",
		} {
			d := f.design(b, path)
			b.Run(server.Flavor+"/"+filepath.Base(path), func(b *testing.B) {
				c, err := f.session.Measure(b.Context(), d, max(b.N, 20))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(c.Without.Microseconds()), "µs-without")
				b.ReportMetric(float64(c.With.Microseconds()), "µs-with")
			})
		}
	}
}
