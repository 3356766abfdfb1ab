package config

import "fmt"

// What the interface promises and this version does not do yet is refused here, in one place, with a text that says so.
// Nothing is taken and then ignored.

// refuseLater looks for options of serve whose feature comes later.
func refuseLater(s *Serve, given origins) error {
	for _, l := range []struct {
		asked bool
		name  string
		text  string
	}{
		{len(s.Sources) > 1, "source", "several sources for a fail-over come with a later version; give one"},
		{s.Hot, "hot", "keeping hot rows comes with a later version; leave it off: tables that are not listed are answered by the database"},
		{s.MemcachedCompat != CompatSafe, "memcached-compat", "strict comes with a later version; leave it safe"},
		{s.MaxStaleness != 0, "max-staleness", "a limit comes with a later version; leave it off and watch the lag in /api/v1/status"},
		{s.StateDir != "", "state-dir", "warm restart comes with a later version; leave it out: tables are loaded again at each start"},
	} {
		if l.asked {
			return fmt.Errorf("%s: %s", given.of(l.name), l.text)
		}
	}
	return nil
}

// laterCommands are the commands that come with a later version.
var laterCommands = []*command{
	{
		name:    "adopt",
		summary: "print the configuration of an InnoDB memcached plugin as ours (later)",
		example: "binlogcache adopt --source 'cache:secret@tcp(127.0.0.1:3306)/' > binlogcache.yaml",
		later:   "serve reads innodb_memcache.containers of its source by itself",
	},
	{
		name:    "triggers",
		summary: "generate, install, verify or uninstall triggers that keep a cache table (later)",
		example: "binlogcache triggers generate --spec counters.yaml",
		later:   "write the triggers by hand until then: the tables they fill are cached like any other",
	},
}
