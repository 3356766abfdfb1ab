// Package mcserver speaks the memcached protocols (text, meta and binary) to clients that read the rows of tables: it is
// the counterpart of the InnoDB memcached plugin outside the database.
//
// A Container maps keys to rows: a table, its key column with a unique index, the columns that make the value, and the
// columns for flags, cas and expiry. Containers come from innodb_memcache.containers on the source (LoadContainers) and
// from YAML (Settings); Server.SetContainers checks them against the tables and puts them to use.
//
// A Server is a netserver.Protocol. Sessions run on the network's event loops: a key that the Reader answers from memory
// is answered there, without allocation; everything else is parked and asked of the database by a worker. The package
// starts no goroutines of its own.
//
// What of the plugin's behaviour is kept, and what is not, is told by Compat and where the code deviates.
package mcserver
