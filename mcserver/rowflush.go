package mcserver

import (
	"context"
	"slices"

	"github.com/binlogcache/binlogcache/internal/item"
	"github.com/binlogcache/binlogcache/schema"
)

// flushAllowed tells that flush_all may empty the table of a container.
func (s *Server) flushAllowed(c *container) bool {
	return s.compat == CompatStrict || slices.Contains(s.flush, c.Name)
}

// flushRows empties the table of the session's container.
func (s *session) flushRows(w *writeRequest) {
	cmd := s.cmd
	s.park(func(ctx context.Context) {
		s.cmd = cmd
		s.searched = false
		s.follow(s.server.containers.Load())
		switch {
		case s.at == nil:
			s.refuseWrite(w.noreply, errNoWriting)
		case !s.server.flushAllowed(s.at):
			s.refuseWrite(w.noreply, errFlushTable)
		case w.exptime != 0 && !s.asPlugin(): // the plugin passes over it
			s.refuseWrite(w.noreply, errFlushDelay)
		default:
			if err := s.empty(ctx); err != nil {
				s.answerRowError(w, err)
				return
			}
			s.answerWrite(w, &item.Result{})
		}
	})
}

// empty deletes all rows of the container's table.
func (s *session) empty(ctx context.Context) error {
	return s.withBinding(ctx, func(b *binding) error {
		if b.noWriting != nil {
			return &RefusedError{Err: b.noWriting, own: true}
		}
		return s.server.writer.Transact(ctx, b.def, schema.ChangeDelete, func(tx Tx) error { return tx.Empty() })
	})
}
