package adopt

import (
	"fmt"
	"strings"

	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/schema"
)

// planMemcached reads the daemon's options and says what holds for all containers.
func (p *Plan) planMemcached() {
	vars := p.inv.Variables
	o := parseDaemonOptions(vars["daemon_memcached_option"])
	address, guess := o.address()
	comment := "While the plugin still has this port, serve --memcached 127.0.0.1:11311 takes another."
	switch {
	case !vars.has("daemon_memcached_"):
		p.note(Must, "the plugin's variables are not known (it is not loaded on this server, or this is a dump): its port, addresses, memory and settings are taken to be the defaults. --variables FILE reads them from an option file or from the output of SHOW GLOBAL VARIABLES")
	case guess:
		p.note(Must, "the plugin listened on every address; the file says %s. Set memcached to \":%s\" if clients of other machines are to reach it, behind a firewall or with memcached-auth-file", address, portOf(address))
	}
	p.add("memcached", comment, address)
	if o.item > 0 && o.item != defaultItemSize {
		item := min(max(o.item, minItemSize), maxItemSize)
		p.add("memcached-item-size", "The plugin's -I.", fmt.Sprint(item))
	}
	p.add("memcached-compat", "strict gives the plugin's answers where the notes below say so.", "safe")
	p.noteDaemon(o)
	p.noteTransactions()
	p.notePolicies()
	if p.writes() && len(p.adopted) > 0 {
		p.note(Differs, "writes are SQL of the account %s in strict mode: rights, triggers, defaults and CHECKs count, and the answer comes when the write is committed and readable here", p.options.Account.sql())
		p.note(Strict, "delete, incr and decr take @@name as all commands do; the plugin took the whole text as a key of the connection's container")
		p.note(Strict, "incr and decr count with 64 bits; text that is no number is an error and stays, where the plugin took it for 0")
		p.note(Strict, "what the database refuses is SERVER_ERROR with its reason; the plugin answered NOT_STORED")
	}
	if strings.HasPrefix(p.inv.Version, "5.") {
		p.note(Differs, "several keys in one get are answered; the plugin of %s sent a line that is no answer", p.inv.Version)
		p.note(Differs, "get of a key that begins with @>, @>=, @< or @<= is a range, as in the plugin of 8.0")
	}
	p.note(Differs, "reads show what is committed, within milliseconds of the commit")
	p.note(Strict, "touch, gat and the meta commands are known, as in memcached of today")
	p.note(Differs, "a data block that does not end in CR LF is an error, as in memcached itself")
	if s := p.set.Options; s.Separator != "|" || s.TableMapDelimiter != "." {
		for _, row := range p.inv.Tables.Options {
			if len(row[1]) > len(s.Separator) && string(row[0]) == "separator" && strings.HasPrefix(string(row[1]), s.Separator) {
				p.note(Differs, "separator is longer than 32 bytes: as with the plugin only its first 32 count")
			}
		}
	}
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// noteDaemon tells what becomes of the daemon's command line.
func (p *Plan) noteDaemon(o daemonOptions) {
	if p.inv.Variables.has("daemon_memcached_") && o.udp != "0" && o.socket == "" {
		p.note(Differs, "UDP is not served; the plugin had it on the same port unless -U 0 was given")
	}
	if len(o.hosts) > 1 {
		p.note(Must, "the plugin listened on %s; one address can be given: name it in the file, or listen on all with \":%s\"", strings.Join(o.hosts, ", "), portOf("x:"+o.portOr("11211")))
	}
	if o.sasl {
		p.note(Must, "the plugin asked for SASL: write the users to a file, a line name:password for each, and give it as memcached-auth-file; until then nobody is asked")
	}
	if o.conns != "" {
		p.note(Differs, "-c %s: connections are bound by the limit of open files", o.conns)
	}
	if o.noEvict {
		p.note(Differs, "-M: items are evicted when their memory is full, not refused")
	}
	if o.noCAS {
		p.note(Differs, "-C: cas is always there")
	}
	if o.item > maxItemSize {
		p.note(Differs, "-I: items can have 128 MiB at most")
	}
	if len(o.others) > 0 {
		p.note(Must, "daemon_memcached_option has what could not be read: %s", strings.Join(o.others, " "))
	}
}

func (o *daemonOptions) portOr(otherwise string) string {
	if o.port == "" {
		return otherwise
	}
	return o.port
}

// noteTransactions is about how the plugin used the engine.
func (p *Plan) noteTransactions() {
	vars := p.inv.Variables
	if !vars.has("daemon_memcached_") {
		return
	}
	if !vars.on("innodb_api_enable_binlog") && !vars.on("daemon_memcached_enable_binlog") {
		p.note(Must, "innodb_api_enable_binlog is OFF: what clients write through the plugin is not in the log, so the cache cannot see it. Set it to ON and restart the server, or move those who write before those who read: what they write here, the plugin reads")
	}
	if v := vars["innodb_api_trx_level"]; v == "0" {
		p.note(Differs, "innodb_api_trx_level is 0: the plugin showed rows before their commit; here nobody sees them, nor what is rolled back")
	}
	if v := vars["daemon_memcached_w_batch_size"]; v != "" && v != "1" {
		p.note(Differs, "daemon_memcached_w_batch_size is %s: here each answered write is committed, and concurrent ones share a commit", v)
	}
	if v := vars["daemon_memcached_r_batch_size"]; v != "" && v != "1" {
		p.note(Differs, "daemon_memcached_r_batch_size is %s: here each read is of the newest state", v)
	}
}

// writes tells that clients may change tables.
func (p *Plan) writes() bool {
	o := p.set.Policies
	inTable := func(p mcserver.Policy) bool { return p == mcserver.PolicyInnoDBOnly || p == mcserver.PolicyCaching }
	return len(p.set.Containers) > 0 && (inTable(o.Set) || inTable(o.Delete))
}

// notePolicies is about cache_policies.
func (p *Plan) notePolicies() {
	if len(p.adopted) == 0 {
		p.note(Must, "no container is adopted: the port is a plain memcached, whose items are in no table")
		return
	}
	o := p.set.Policies
	policies := []struct {
		name   string
		policy mcserver.Policy
	}{{"get", o.Get}, {"set", o.Set}, {"delete", o.Delete}, {"flush", o.Flush}}
	for _, x := range policies {
		switch x.policy {
		case mcserver.PolicyCaching:
			p.note(Differs, "%s_policy is caching: the table answers; the plugin's copy in memory, which could be stale, is not kept", x.name)
		case mcserver.PolicyCacheOnly:
			p.note(Differs, "%s_policy is cache_only: such items are in this daemon's memory, not in MySQL; those that the plugin has are not taken over", x.name)
		case mcserver.PolicyDisabled:
			if x.name == "set" {
				p.note(Differs, "set_policy is disabled: stores answer STORED and do nothing, as with the plugin; incr, decr and touch answer NOT_FOUND")
			}
		}
	}
	if o.Flush == mcserver.PolicyInnoDBOnly || o.Flush == mcserver.PolicyCaching {
		p.note(Strict, "flush_all is refused, unless memcached-flush names the container; the plugin emptied the table by it")
	}
}

// noteHandlerSocket is about HandlerSocket.
func (p *Plan) noteHandlerSocket() {
	p.note(Must, "what clients write through the plugin is not in the log, so the cache cannot see it: move those who write before those who read; what they write here, the plugin reads")
	p.note(Differs, "HandlerSocket writes are SQL: they are in the log, triggers and constraints count, values that do not fit are errors (docs/PROTOCOLS.md has the table)")
	p.note(Differs, "HandlerSocket connections that are idle are kept; the plugin closed them after handlersocket_timeout")
	p.note(Differs, "TIMESTAMP values are in UTC, not in the server's time zone")
	if len(p.options.Tables) == 0 {
		p.note(Must, "which tables HandlerSocket clients open is not written anywhere: name them with --tables, so that they are loaded whole and the account gets its rights on them")
	}
}

// noteContainer is about one container.
func (p *Plan) noteContainer(a *adopted) {
	say := func(kind Kind, format string, args ...any) {
		p.notes = append(p.notes, Note{Container: a.Name, Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	if a.def == nil {
		why := "is not known"
		if err := p.inv.Unread[schema.Name{Schema: a.Schema, Table: a.Table}]; err != nil {
			why = fmt.Sprintf("cannot be read (%v)", err)
		}
		say(Must, "the definition of %s.%s %s: whether the container fits it is seen when serve starts", a.Schema, a.Table, why)
		return
	}
	if !p.reads() && !p.writes() {
		return // it is only a name
	}
	e := &a.exam
	switch {
	case a.def.Refusal != "":
		say(Must, "%s cannot be kept in memory, so that the database answers every read: %s", a.def.FullName(), a.def.Refusal)
	case (e.Key.Kind == schema.KindChar || e.Key.Kind == schema.KindVarchar) && e.Key.Charset == "":
		say(Must, "the dump leaves out the character set of column %q: whether memory can keep its order is seen when serve starts", e.Key.Name)
	case e.PassedIndex != nil:
		say(Must, "the database answers every read: %v", e.PassedIndex)
	}
	p.noteKey(a, say)
	for _, v := range e.Values {
		switch v.Kind {
		case schema.KindChar:
			say(Strict, "value column %q is %s: it comes as SQL shows it; the plugin filled it up with blanks", v.Name, v.TypeText)
		case schema.KindInt, schema.KindVarchar, schema.KindText, schema.KindBlob, schema.KindBinary, schema.KindVarbinary:
		default:
			say(Differs, "value column %q is %s: it comes as the text that SQL gives; the plugin was not made for the type", v.Name, v.TypeText)
		}
	}
	if x := e.Expiry; x != nil {
		say(Strict, "expiry column %q: a row whose time is over is not there for any command but delete, and add and set use it again; the plugin hid it from get only. Times up to 30 days are from now, and negative ones are over at once, as in memcached", x.Name)
	}
	if e.CAS == nil {
		say(Strict, "gets shows the row's version as its cas, where the plugin showed 0; a cas with 0 is refused")
	}
	if p.writes() {
		p.noteWriting(a, say)
	}
}

func (p *Plan) noteKey(a *adopted, say func(Kind, string, ...any)) {
	k := a.exam.Key
	if k.Kind == schema.KindInt {
		say(Strict, "a key that is no whole number in the range of column %q (as 3abc) finds nothing; the plugin read what digits there were, and so does strict where the column can hold the number", k.Name)
		return
	}
	say(Strict, "a key longer than the %d characters of column %q finds nothing; the plugin cut it and answered another row", k.Length, k.Name)
}

func (p *Plan) noteWriting(a *adopted, say func(Kind, string, ...any)) {
	e := &a.exam
	if e.NoWriting != nil {
		say(Must, "it can be read only: %v", e.NoWriting)
		return
	}
	if f := e.Flags; f != nil && !f.Unsigned && f.Bytes <= 4 || f != nil && f.Bytes < 4 {
		say(Differs, "flags column %q is %s: flags beyond it (some clients use all 32 bits) are refused; the plugin stored another number. ALTER TABLE %s.%s MODIFY %s INT UNSIGNED takes all",
			f.Name, f.TypeText, schema.QuoteName(a.def.Schema), schema.QuoteName(a.def.Name), schema.QuoteName(f.Name))
	}
	var others []string
	for _, c := range e.Unmapped {
		if !c.Generated {
			others = append(others, c.Name)
		}
	}
	if len(others) > 0 {
		say(Strict, "%s: outside the mapping, kept by a write and filled with defaults in a new row; the plugin set them to NULL", strings.Join(others, ", "))
	}
	if len(e.Values) > 1 {
		say(Strict, "a value that is written needs %d fields, parted by %q; an empty one is the empty text, or NULL where the column is a number. The plugin passed over empty fields, so that later ones moved to the left", len(e.Values), p.set.Options.Separator)
		say(Strict, "incr, decr, append and prepend leave the other value columns alone; the plugin set them to NULL")
	} else {
		say(Strict, "a value that does not fit its column is refused; the plugin cut it")
	}
	if strings.HasSuffix(e.Key.Collation, "_ci") {
		say(Strict, "a key that is there keeps its spelling when it is written by another one (Aa for aa); the plugin changed it")
	}
	if n := p.inv.Triggers[schema.Name{Schema: a.Schema, Table: a.Table}]; n > 0 {
		say(Differs, "its triggers (%d) fire on writes through the cache; the plugin passed over them", n)
	}
}
