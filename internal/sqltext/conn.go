package sqltext

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// Conn is one connection. It is used by one goroutine at a time; Close and Broken may be called by others.
type Conn struct {
	wire
	// Server is free for Config.Init to say which server the connection leads to; nothing here reads it.
	Server  string
	raw     net.Conn // the socket, below TLS
	cfg     *Config
	id      uint32
	version string
	flavor  string
	broken  atomic.Bool
	values  [][]byte  // of Query's rows, reused
	idle    time.Time // since when it has been in its pool
}

// session is what every connection sets before anything else.
//   - character_set_results = NULL: values come in the column's own character set;
//   - sql_mode = empty: zero dates compare, CHAR is not padded, backslashes escape, double quotes are strings;
//   - the rest undoes server-wide settings that would cut results or connections short. Results may be taken slowly
//     (a snapshot waits for the cache), hence the long write timeout.
const session = "SET NAMES utf8mb4, character_set_results = NULL, time_zone = '+00:00', sql_mode = '', autocommit = 1, " +
	"sql_select_limit = 18446744073709551615, sql_big_selects = 1, net_write_timeout = 3600, wait_timeout = 28800"

// Dial connects, logs in and sets the session up. Its errors name the address and never the password;
// IsConnectionError tells a server that can't be reached from one that refuses the login (ServerCode 1045).
// The Config must not change while the Conn lives.
func Dial(ctx context.Context, cfg *Config) (*Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.dialTimeout(),
		fmt.Errorf("no connection within %v", cfg.dialTimeout()))
	defer cancel()
	c, err := login(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s(%s): %w", cfg.Network, cfg.Address, err)
	}
	if err := c.setUp(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("set up the session on %s(%s): %w", cfg.Network, cfg.Address, err)
	}
	return c, nil
}

func (c *Config) dialTimeout() time.Duration {
	if c.Timeout <= 0 {
		return DefaultDialTimeout
	}
	return c.Timeout
}

func login(ctx context.Context, cfg *Config) (c *Conn, err error) {
	c = &Conn{cfg: cfg}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		nc, err := d.DialContext(ctx, network, address)
		c.raw = nc
		return nc, err
	}
	// Closing the socket is the only way to end go-mysql's login early.
	released := make(chan struct{})
	stop := func() bool { return true }
	options := func(gc *client.Conn) error {
		// A plain COM_QUERY and EOF packets: one form on all servers.
		gc.UnsetCapability(mysql.CLIENT_QUERY_ATTRIBUTES)
		gc.UnsetCapability(mysql.CLIENT_DEPRECATE_EOF)
		gc.SetAttributes(map[string]string{"program_name": "binlogcache"})
		if cfg.Changes {
			for _, capability := range changing {
				if err := gc.SetCapability(capability); err != nil {
					return err
				}
			}
		}
		if cfg.TLS != nil {
			gc.SetTLSConfig(cfg.TLS.Clone())
		}
		stop = context.AfterFunc(ctx, func() {
			defer close(released)
			_ = c.raw.Close()
		})
		return nil
	}
	gc, err := connect(ctx, cfg, dial, options)
	if !stop() {
		<-released
		if err == nil {
			_ = gc.Close()
		}
		return nil, &connError{"log in", context.Cause(ctx)}
	}
	if err != nil {
		if c.raw != nil {
			_ = c.raw.Close()
		}
		if ctx.Err() != nil {
			return nil, &connError{"dial", context.Cause(ctx)}
		}
		return nil, dialError(err)
	}
	c.id = gc.GetConnectionID()
	c.init(gc.Conn.Conn, cfg.ReadTimeout, cfg.WriteTimeout)
	// go-mysql may have left deadlines of the login behind.
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		_ = gc.Close()
		return nil, &connError{"log in", err}
	}
	return c, nil
}

// connect calls go-mysql. Its login panics on some answers that it does not expect (a server without an RSA key sends an
// error where a key should be), which must not end this process.
func connect(ctx context.Context, cfg *Config, dial client.Dialer, options client.Option) (gc *client.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("log in: the server's answer can't be read (%v)", p)
		}
	}()
	return client.ConnectWithDialer(ctx, cfg.Network, cfg.Address, cfg.User, cfg.Password, "", dial, options)
}

// dialError sorts go-mysql's errors and drops its wrapping, which carries stacks.
func dialError(err error) error {
	if e := (*mysql.MyError)(nil); errors.As(err, &e) {
		return e
	}
	if e := net.Error(nil); errors.As(err, &e) {
		return &connError{"dial", e}
	}
	if errors.Is(err, mysql.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &connError{"log in", errors.New("the server closed the connection")}
	}
	return errors.New(err.Error())
}

func (c *Conn) setUp(ctx context.Context) error {
	if err := c.Exec(ctx, session); err != nil {
		return err
	}
	err := c.Query(ctx, "SELECT @@version", func(v [][]byte) error {
		c.version = string(v[0])
		return nil
	})
	if err != nil {
		return err
	}
	// A server-wide limit for statements would end snapshots; who wants one sets it in Init.
	limit := "SET max_execution_time = 0"
	c.flavor = "mysql"
	if strings.Contains(strings.ToLower(c.version), "mariadb") {
		c.flavor = "mariadb"
		limit = "SET max_statement_time = 0"
	}
	// The query cache, which MySQL had before 8.0, may answer with the rows of an earlier moment.
	if c.flavor == "mariadb" || strings.HasPrefix(c.version, "5.") {
		err = c.Exec(ctx, limit+", query_cache_type = OFF")
		if code := ServerCode(err); code != mysql.ER_UNKNOWN_SYSTEM_VARIABLE && code != mysql.ER_QUERY_CACHE_DISABLED {
			limit = ""
		}
	}
	if limit != "" {
		err = c.Exec(ctx, limit)
	}
	if err != nil {
		return err
	}
	if c.cfg.Init != nil {
		return c.cfg.Init(ctx, c)
	}
	return nil
}

// ServerVersion is the server's @@version, such as 10.11.19-MariaDB-log.
func (c *Conn) ServerVersion() string { return c.version }

// Flavor is mysql or mariadb.
func (c *Conn) Flavor() string { return c.flavor }

// ID is the server's number of the connection, for KILL.
func (c *Conn) ID() uint32 { return c.id }

// Broken reports that the connection can't be used any more.
func (c *Conn) Broken() bool { return c.broken.Load() }

// Close ends the connection; a statement that is running elsewhere fails. It may be called more than once.
func (c *Conn) Close() {
	if !c.broken.Swap(true) && c.nc != nil {
		// A goodbye keeps the server from counting an aborted client. It must not wait for a server that does not read.
		_ = c.raw.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = c.nc.Write([]byte{1, 0, 0, 0, mysql.COM_QUIT})
	}
	_ = c.raw.Close()
}

// abort ends the connection at once.
func (c *Conn) abort() {
	c.broken.Store(true)
	_ = c.raw.Close()
}

// Query runs a statement and calls row for each row of its result; values[i] is nil for NULL. The values are valid
// during the call only. An error of row ends the query and is returned; Broken then tells whether the rest of the
// result could be read cheaply. A server's error is a *mysql.MyError. When ctx ends, the connection is closed, which
// makes it Broken, and the error wraps the context's cause.
func (c *Conn) Query(ctx context.Context, sql string, row func(values [][]byte) error) error {
	return c.run(ctx, sql, nil, func(p []byte, columns int) error {
		f := Fields{rest: p, left: columns}
		c.values = c.values[:0]
		for range columns {
			v, null, ok := f.Next()
			if !ok {
				return ErrMalformed
			}
			if null {
				v = nil
			} else if v == nil {
				v = []byte{}
			}
			c.values = append(c.values, v)
		}
		return row(c.values)
	})
}

// Stream is Query without taking the row apart first.
func (c *Conn) Stream(ctx context.Context, sql string, row func(f Fields) error) error {
	return c.StreamNamed(ctx, sql, nil, row)
}

// StreamMost is Stream for rows of no more than so many bytes, and at least 64 KiB: a larger one gives ErrTooLarge, before it is received. 0 is
// no limit.
func (c *Conn) StreamMost(ctx context.Context, sql string, most int, row func(f Fields) error) error {
	c.most = most
	defer func() { c.most = 0 }()
	return c.Stream(ctx, sql, row)
}

// StreamNamed is Stream, and calls column for each column of the result first, with its name or alias in UTF-8, which
// is valid during the call only. An error of column ends the query as one of row does.
func (c *Conn) StreamNamed(ctx context.Context, sql string, column func(i int, name []byte) error, row func(f Fields) error) error {
	return c.run(ctx, sql, column, func(p []byte, columns int) error { return row(Fields{rest: p, left: columns}) })
}

// Exec runs a statement and drops its rows, if it has any. Errors are those of Query.
func (c *Conn) Exec(ctx context.Context, sql string) error {
	return c.run(ctx, sql, nil, func([]byte, int) error { return nil })
}

// onColumn and onRow take the parts of a result as they come; onColumn may be nil.
type (
	onColumn func(i int, name []byte) error
	onRow    func(p []byte, columns int) error
)

func (c *Conn) run(ctx context.Context, sql string, column onColumn, row onRow) error {
	if c.Broken() {
		return ErrBroken
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.abortable(ctx, func() error { return c.exchange(sql, column, row) })
}

// abortable runs what talks to the server, and closes the connection under it when ctx ends.
func (c *Conn) abortable(ctx context.Context, talk func() error) error {
	if ctx.Done() == nil {
		return talk()
	}
	aborted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.abort()
		close(aborted)
	})
	err := talk()
	if !stop() {
		<-aborted
		// The cause replaces what closing the socket looked like; an error of the callback or the server stays.
		if lost := (*connError)(nil); errors.As(err, &lost) {
			aborted := fmt.Errorf("statement aborted: %w", context.Cause(ctx))
			if errors.Is(err, ErrUnsent) {
				return errors.Join(ErrUnsent, aborted)
			}
			return aborted
		}
	}
	return err
}

// exchange sends a statement and reads its whole answer.
func (c *Conn) exchange(sql string, column onColumn, row onRow) error {
	defer c.shrink()
	err := c.command(mysql.COM_QUERY, sql)
	if err == nil {
		err = c.answer(column, row)
	}
	if err != nil {
		c.judge(err)
	}
	return err
}

// judge closes the connection after an error that leaves its state unknown.
func (c *Conn) judge(err error) {
	if lost := (*connError)(nil); errors.As(err, &lost) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrTooLarge) || lostCode(ServerCode(err)) {
		c.abort()
	}
}

func (c *Conn) answer(column onColumn, row onRow) error {
	p, err := c.packet()
	if err != nil {
		return err
	}
	if len(p) == 0 {
		return ErrMalformed
	}
	switch p[0] {
	case headOK:
		status, ok := okStatus(p)
		if !ok || status&statusMoreResults != 0 {
			return ErrMalformed
		}
		return nil
	case headError:
		return serverError(p)
	case headLocalInfile:
		// The server asks for a local file. The capability was not offered, so this is not an honest server.
		return ErrMalformed
	}
	columns, null, n := lenenc(p)
	if null || n != len(p) || columns == 0 || columns > 1<<16 {
		return ErrMalformed
	}
	for i := range int(columns) {
		if p, err = c.packet(); err != nil {
			return err
		}
		if len(p) > 0 && p[0] == headError {
			return serverError(p)
		}
		if column == nil {
			continue
		}
		name, ok := columnName(p)
		if !ok {
			return ErrMalformed
		}
		if err := column(i, name); err != nil {
			c.drain(2)
			return err
		}
	}
	if p, err = c.packet(); err != nil {
		return err
	}
	if !isEOF(p) {
		return ErrMalformed
	}
	for {
		if p, err = c.packet(); err != nil {
			return err
		}
		switch {
		case len(p) == 0:
			return ErrMalformed
		case p[0] == headError:
			return serverError(p)
		case isEOF(p):
			if eofStatus(p)&statusMoreResults != 0 {
				return ErrMalformed
			}
			return nil
		}
		if err := row(p, int(columns)); err != nil {
			if !errors.Is(err, ErrMalformed) {
				c.drain(1)
			}
			return err
		}
	}
}

// What drain reads at most: about what a new connection costs.
const (
	drainBytes = 256 << 10
	drainTime  = 20 * time.Millisecond
)

// drain reads the rest of a result that nobody wants; when it is long, or the server is still working on it, it closes
// the connection, which is cheaper than reading on and tells the server to stop.
// ends is how many EOF packets are to come: columns and rows end with one each.
func (c *Conn) drain(ends int) {
	timeout := c.readTimeout
	c.readTimeout = 0
	defer func() { c.readTimeout = timeout }()
	if c.nc.SetReadDeadline(time.Now().Add(drainTime)) != nil {
		c.abort()
		return
	}
	for read := 0; read < drainBytes; {
		p, err := c.packet()
		if err != nil || len(p) == 0 {
			break
		}
		if isEOF(p) {
			ends--
		}
		if ends == 0 || p[0] == headError {
			if c.nc.SetReadDeadline(time.Time{}) != nil {
				break
			}
			return
		}
		read += len(p) + 4
	}
	c.abort()
}
