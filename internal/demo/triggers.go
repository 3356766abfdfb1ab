package demo

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// spentSpec makes one row of all orders of a user.
const spentSpec = `name: spent
cache: ` + Schema + `.spent
source: ` + Schema + `.orders
group: [user_id]
key: user:{user_id}
totals:
  orders: count
  cents: sum cents
`

// totals shows a value that no row holds: triggers keep it in a table of its own, which is followed like any other.
func (t *tour) totals(ctx context.Context) error {
	t.say("10. A value that no row holds: how many orders a user has and what they come to. Triggers keep it in %s.spent:", Schema)
	for line := range strings.Lines(spentSpec) {
		t.say("      %s", strings.TrimRight(line, "\n"))
	}
	for _, q := range []string{
		"CREATE TABLE " + Schema + ".orders (id INT PRIMARY KEY AUTO_INCREMENT, user_id INT NOT NULL, cents INT NOT NULL, KEY user_id (user_id)) ENGINE=InnoDB",
		"INSERT INTO " + Schema + ".orders (user_id, cents) VALUES (1, 990), (42, 1250), (42, 300), (7, 4000)",
	} {
		if _, err := t.db.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	if err := t.InstallTriggers(ctx, t.addresses.Source, []byte(spentSpec)); err != nil {
		return fmt.Errorf("triggers: %w", err)
	}
	if err := t.await(ctx, "2|1550", nil); err != nil {
		return err
	}
	const order = "INSERT INTO " + Schema + ".orders (user_id, cents) VALUES (42, 50)"
	if _, err := t.db.ExecContext(ctx, order); err != nil {
		return err
	}
	var took time.Duration
	if err := t.await(ctx, "3|1600", &took); err != nil {
		return err
	}
	t.say("   installed; the SQL is shown by: binlogcache triggers generate. After %s", order)
	t.say("      > get @@spent.user:42\n      VALUE @@spent.user:42 0 6\n      3|1600\n   came %.1f ms after the client's OK: source table, trigger, cache table, binlog, memory.", took.Seconds()*1000)
	return nil
}

// await asks until the user's totals are these, and tells how long it took.
func (t *tour) await(ctx context.Context, want string, took *time.Duration) error {
	begun := time.Now()
	for {
		if s, ok := t.daemon.Snapshot(Schema + ".spent"); ok && s.Live {
			lines, err := ask(t.addresses.Memcached, "get @@spent.user:42\r\nmn\r\n", 2)
			if err != nil {
				return err
			}
			if strings.HasPrefix(lines[0], "VALUE ") && lines[1] == want {
				if took != nil {
					*took = time.Since(begun)
				}
				return nil
			}
		}
		if time.Since(begun) > actTimeout {
			return fmt.Errorf("get @@spent.user:42 did not become %s within %s", want, actTimeout)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}
