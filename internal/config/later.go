package config

// laterCommands are the commands that come with a later version.
var laterCommands = []*command{
	{
		name:    "adopt",
		summary: "print the configuration of an InnoDB memcached plugin as ours (later)",
		example: "binlogcache adopt --source 'cache:secret@tcp(127.0.0.1:3306)/' > binlogcache.yaml",
		later:   "serve reads innodb_memcache.containers of its source by itself",
	},
}
