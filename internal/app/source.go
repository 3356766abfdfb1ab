package app

import (
	"context"
	"errors"
	"time"

	"github.com/binlogcache/binlogcache/canal"
	"github.com/binlogcache/binlogcache/internal/sqltext"
)

// useSource makes everything that asks the database ask the server that is followed from now on.
func (d *daemon) useSource(source *sqltext.Config) {
	d.database.Use(labelled(source))
	d.writer.Use(source)
	d.pool.Swap(sqltext.NewPool(source, 1, d.logger)).Close()
	d.readContainersAgain()
}

// labelled makes connections carry the name of the server that they lead to, so that rows of another server than the
// followed one are not kept.
func labelled(source *sqltext.Config) *sqltext.Config {
	own := *source
	own.Init = func(ctx context.Context, c *sqltext.Conn) (err error) {
		if source.Init != nil {
			if err := source.Init(ctx, c); err != nil {
				return err
			}
		}
		c.Server, err = canal.Identify(ctx, c)
		return err
	}
	return &own
}

// checkSource tries, once a source can be reached, what the follower and the tables need. A table that was named in full
// and can't be kept is a reason not to start: its user asked for it. Of several sources the one that is followed is
// checked so; what is wrong with the others is a warning, given early enough to mend it.
func (d *daemon) checkSource(ctx context.Context) error {
	unchecked := d.sources
	silent := map[*sqltext.Config]bool{}
	for {
		followed := d.sources[0].Address
		if len(d.sources) > 1 {
			followed = ""
			if st := d.follower.Status(); st.Flavor != "" {
				followed = st.Address
			}
		}
		var later []*sqltext.Config
		for _, source := range unchecked {
			if followed == "" {
				later = unchecked
				break
			}
			problems, err := canal.Check(ctx, source, d.patterns)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				if later = append(later, source); !silent[source] && source.Address != followed {
					silent[source] = true
					d.logger.Warn("a source that may be needed cannot be checked", "source", source.Address, "err", err)
				}
				continue
			}
			var fatal []error
			for _, p := range problems {
				if p.Serious() && source.Address == followed {
					fatal = append(fatal, p)
				} else {
					d.logger.Warn("source", "source", source.Address, "problem", p.Error())
				}
			}
			if len(fatal) > 0 {
				return errors.Join(fatal...)
			}
		}
		if unchecked = later; len(unchecked) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryInterval):
		}
	}
}
