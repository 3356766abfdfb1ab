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
		{s.MemcachedCompat != CompatSafe, "memcached-compat", "strict comes with a later version; leave it safe"},
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
}
