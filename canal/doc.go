// Package canal follows the binlog of one MySQL or MariaDB server and keeps tables up to date in a Sink: a snapshot of
// each followed table beside the stream, then every committed transaction, whole and in order.
//
// What it promises to the Sink: a table that is live holds exactly the rows that the server had at the applied position.
// Whatever in the log is not proven to leave a table alone suspends the table and loads it again.
//
// Goroutines, all ended when Follower.Run returns: Run itself keeps one connection's life after the other, reads the
// stream (logreader.go), decodes and applies it (stream.go); a watcher asks the source now and then whether the stream still shows its log; the loader of loads.go starts one
// goroutine for each table that is being loaded, and each of those a second one while it copies rows; one settles the reads
// of single rows (reads.go).
//
// Of hot tables (hot.go) the Sink wants changes and no snapshot; what it keeps of them it has from reads that BeginRead and
// EndRead bracket.
//
// Neighbours: internal/sqltext for everything that is asked in SQL, rowcodec for row images, schema for definitions. The
// Sink is declared here and implemented by the cache.
package canal
