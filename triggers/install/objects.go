package install

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/binlogcache/binlogcache/triggers"
)

// Condition is what has become of the objects of a design.
type Condition struct {
	// Lost are those that are not there, or not as the design has them, each with its kind. Tools that change tables by
	// copying them lose triggers.
	Lost []string
	// Asleep says why events do not run. On a replica that is as it should be.
	Asleep []string
	// Blind is true for an account that may see no trigger, procedure or event of the design: Lost is empty then.
	Blind bool
}

// Examine looks at the objects of a design.
func (s *Session) Examine(ctx context.Context, d *triggers.Design) (*Condition, error) {
	c := &Condition{Blind: true}
	hasEvents := false
	for _, o := range d.Objects {
		if o.Kind == triggers.KindSchema || o.Kind == triggers.KindTable {
			continue
		}
		text, err := s.stored(ctx, &o)
		switch {
		case errors.Is(err, sql.ErrNoRows), err == nil && !o.Current(text):
			c.Lost = append(c.Lost, strings.ToLower(o.Kind.String())+" "+o.Quoted())
		case err != nil && !errors.Is(err, errHidden):
			return nil, err
		}
		c.Blind = c.Blind && errors.Is(err, sql.ErrNoRows)
		if o.Kind != triggers.KindEvent || err != nil {
			continue
		}
		hasEvents = true
		var status string
		err = s.one(ctx, "SELECT STATUS FROM information_schema.EVENTS WHERE EVENT_SCHEMA = ? AND EVENT_NAME = ?", []any{o.Name.Schema, o.Name.Table}, &status)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if err == nil && status != "ENABLED" {
			c.Asleep = append(c.Asleep, fmt.Sprintf("event %s is %s: ALTER EVENT %[1]s ENABLE, unless this server is a replica", o.Quoted(), status))
		}
	}
	if c.Blind {
		c.Lost = nil
	}
	if hasEvents {
		var state string
		if err := s.one(ctx, "SELECT @@GLOBAL.event_scheduler", nil, &state); err != nil {
			return nil, err
		}
		if state != "ON" && state != "1" {
			c.Asleep = append(c.Asleep, "event_scheduler is "+state+": SET GLOBAL event_scheduler = ON, unless this server is a replica")
		}
	}
	return c, nil
}
