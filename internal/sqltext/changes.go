package sqltext

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// changing are what connections of Config.Changes ask the server for beside the rest: rows are counted that were found,
// not only those that became others; one text may hold several statements; OK packets tell of the transaction's GTID.
var changing = []uint32{mysql.CLIENT_FOUND_ROWS, mysql.CLIENT_MULTI_STATEMENTS, mysql.CLIENT_SESSION_TRACK}

// Changed is the server's answer to one statement that has no rows.
type Changed struct {
	// Rows is the number of rows that the statement found, or inserted.
	Rows uint64
	// InsertID is the AUTO_INCREMENT value of the row; 0 where there is none.
	InsertID uint64
	// GTID names the transaction that the statement committed, in the server's own form; empty where it committed none, or
	// wrote nothing to the log. It is told where the session tracks it: session_track_gtids = OWN_GTID on MySQL,
	// session_track_system_variables = 'last_gtid' on MariaDB.
	GTID string
}

// ExecAll runs the statements of a text, which are separated by semicolons, in one round trip on a connection of
// Config.Changes. It calls each for the answer of every statement in order; none of them may have rows. The server leaves
// out all statements after one that fails, whose error is returned.
//
// The error wraps ErrUnsent when the server can't have executed any of it. After other connection errors (also those that
// wrap the cause of ctx) it may have executed all of it, beyond the answers that were given to each.
func (c *Conn) ExecAll(ctx context.Context, sql string, each func(i int, r Changed)) error {
	if c.Broken() {
		return errors.Join(ErrUnsent, ErrBroken)
	}
	if ctx.Err() != nil {
		return errors.Join(ErrUnsent, context.Cause(ctx))
	}
	return c.abortable(ctx, func() error { return c.exchangeAll(sql, each) })
}

func (c *Conn) exchangeAll(sql string, each func(i int, r Changed)) error {
	defer c.shrink()
	if err := c.command(mysql.COM_QUERY, sql); err != nil {
		c.judge(err)
		// A packet that was not sent whole is never executed.
		return errors.Join(ErrUnsent, err)
	}
	for i := 0; ; i++ {
		r, more, err := c.changed()
		if err != nil {
			c.judge(err)
			return err
		}
		each(i, r)
		if !more {
			return nil
		}
	}
}

// changed reads the answer of one statement.
func (c *Conn) changed() (r Changed, more bool, err error) {
	p, err := c.packet()
	if err != nil {
		return r, false, err
	}
	if len(p) == 0 {
		return r, false, ErrMalformed
	}
	switch p[0] {
	case headError:
		return r, false, serverError(p)
	case headOK:
	default:
		return r, false, ErrMalformed
	}
	r, status, ok := parseChanged(p[1:])
	if !ok {
		return r, false, ErrMalformed
	}
	return r, status&statusMoreResults != 0, nil
}

// parseChanged takes an OK packet of a session that tracks its state apart, without its first byte.
func parseChanged(p []byte) (r Changed, status uint16, ok bool) {
	for _, to := range []*uint64{&r.Rows, &r.InsertID} {
		v, null, n := lenenc(p)
		if n == 0 || null {
			return r, 0, false
		}
		*to = v
		p = p[n:]
	}
	if len(p) < 4 {
		return r, 0, false
	}
	status = binary.LittleEndian.Uint16(p)
	p = p[4:] // and the number of warnings
	if status&mysql.SERVER_SESSION_STATE_CHANGED == 0 {
		return r, status, true
	}
	// The message for people, and the changes of state: a list of kinds, each with its data.
	f := Fields{rest: p, left: 2}
	if !f.Skip(1) {
		return r, status, false
	}
	changes, _, ok := f.Next()
	if !ok {
		return r, status, false
	}
	for len(changes) > 0 {
		kind := changes[0]
		f := Fields{rest: changes[1:], left: 1}
		data, _, ok := f.Next()
		if !ok {
			return r, status, false
		}
		changes = f.rest
		if gtid, ok := trackedGTID(kind, data); ok {
			r.GTID = gtid
		}
	}
	return r, status, true
}

// trackedGTID looks for a GTID in one change of the session's state.
func trackedGTID(kind byte, data []byte) (string, bool) {
	switch kind {
	case mysql.SESSION_TRACK_GTIDS:
		if len(data) < 2 {
			return "", false
		}
		f := Fields{rest: data[1:], left: 1} // after the form of the encoding, of which there is one
		v, _, ok := f.Next()
		return string(v), ok
	case mysql.SESSION_TRACK_SYSTEM_VARIABLES:
		for f := (Fields{rest: data, left: 1 << 16}); ; {
			name, _, ok := f.Next()
			if !ok {
				return "", false
			}
			value, _, ok := f.Next()
			if !ok {
				return "", false
			}
			if string(name) == "last_gtid" {
				return string(value), true
			}
		}
	}
	return "", false
}
