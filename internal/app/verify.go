package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/binlogcache/binlogcache/admin"
	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/verify"
)

// comparer brings the source's rows, which the follower reads, and memory's together.
type comparer struct {
	store    *cache.Store
	follower *canal.Follower
}

var _ verify.Comparer = comparer{}

// Live implements verify.Comparer.
func (c comparer) Live() (live []verify.Table) {
	for _, t := range c.store.Tables() {
		if t.State() == cache.StateLive {
			live = append(live, verify.Table{Name: t.Ident(), Rows: t.Len()})
		}
	}
	return live
}

// Compare implements verify.Comparer.
func (c comparer) Compare(
	ctx context.Context, name schema.Name, key [][]byte, pieceRows int, mend bool, each func(rows int, found []verify.Difference) error,
) error {
	var audited *cache.Generation
	defer func() {
		if audited != nil {
			audited.EndAudit()
		}
	}()
	o := canal.AuditOptions{Key: key, Rows: pieceRows, Begin: func(t canal.Target) error {
		g := t.(target).Generation
		if err := g.BeginAudit(); err != nil {
			return err
		}
		audited = g
		return nil
	}}
	err := c.follower.Audit(ctx, name, o, func(t canal.Target, def *schema.Table, p *canal.Piece) error {
		differences, err := audited.Compare(cache.Span{Key: p.Key, After: p.After, Until: p.Until}, p.Rows, p.Seen)
		if err != nil {
			return err
		}
		if mend && len(differences) > 0 {
			err := c.follower.Between(ctx, name, t, func(version uint64) error {
				return audited.Mend(differences, p.Seen, version)
			})
			if err != nil {
				return err
			}
		}
		audited.PurgeMarks(p.Seen)
		found := make([]verify.Difference, len(differences))
		for i, d := range differences {
			found[i] = verify.Difference{Table: name.String(), Kind: d.Kind.String(), Key: keyText(def, d.Row()), Version: d.Version, Mended: d.Mended}
		}
		return each(len(p.Rows), found)
	})
	if errors.Is(err, canal.ErrNotLive) || errors.Is(err, cache.ErrStale) {
		return fmt.Errorf("%w: %w", verify.ErrUnavailable, err)
	}
	return err
}

// keyText is the row's key for people.
func keyText(def *schema.Table, row rowcodec.Row) string {
	var values []string
	for _, part := range def.Indexes[def.Key].Parts {
		v, _ := row.Value(part.Column)
		values = append(values, strings.ToValidUTF8(string(v), "\uFFFD"))
	}
	return strings.Join(values, ",")
}

var _ admin.Prover = (*daemon)(nil)

// Verify implements admin.Prover.
func (d *daemon) Verify(ctx context.Context, r admin.VerifyRequest, line func(admin.VerifyLine) error) error {
	request := verify.Request{Mend: r.Repair, Rate: r.Rate}
	for _, text := range r.Tables {
		name, err := exactName(text)
		if err != nil {
			return err
		}
		request.Tables = append(request.Tables, name)
	}
	for _, value := range r.Key {
		request.Key = append(request.Key, []byte(value))
	}
	if len(r.Key) > 0 && len(r.Tables) != 1 {
		return fmt.Errorf("%w: a key is one of a single table", admin.ErrBadRequest)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() {
		select {
		case <-d.stopped:
			cancel(errStopping)
		case <-ctx.Done():
		}
	})
	var shown time.Time
	result, err := d.verifier.Verify(ctx, request, func(p verify.Progress) {
		if time.Since(shown) < progressEvery {
			return
		}
		shown = time.Now()
		if err := line(admin.VerifyLine{Table: p.Table, Done: p.Done, Total: p.Total}); err != nil {
			cancel(err) // nobody reads it any more
		}
	})
	if errors.Is(err, canal.ErrKey) {
		return fmt.Errorf("%w: %w", admin.ErrBadRequest, err)
	}
	if err != nil {
		return err
	}
	found := make([]admin.VerifyDifference, len(result.Found))
	for i, f := range result.Found {
		found[i] = admin.VerifyDifference(f)
	}
	return line(admin.VerifyLine{Result: &admin.VerifyResult{
		Tables: result.Tables, Rows: result.Rows, Differences: result.Differences, Mended: result.Mended, Found: found, Skipped: result.Skipped,
	}})
}

// progressEvery is the time between two lines of progress.
const progressEvery = 200 * time.Millisecond

// errStopping ends a comparison because the daemon stops.
var errStopping = errors.New("the daemon is stopping")

func (d *daemon) verification() admin.VerificationStatus {
	s := d.verifier.Stats()
	v := admin.VerificationStatus{
		Rows: s.Rows, Differences: s.Differences, Mended: s.Mended, Passes: s.Passes, Table: s.Table, Done: s.Done, Total: s.Total,
	}
	if s.Passes > 0 {
		v.LastPass = &s.LastPass
	}
	return v
}
