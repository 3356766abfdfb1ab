// Package cache keeps whole tables in memory and answers ordered searches over them: rows in a log-structured store,
// the row-identity key and any other index that is asked for in B+trees, the state of each table, and the count of the
// memory that all of this takes.
// Of tables in hot mode it keeps single rows that were asked for, in one bigcache: see HotGeneration and HotRead.
//
// # Memory
//
// Rows and indexes lie in blocks without pointers, those of large tables outside of Go's heap (see blockPool): the
// collector has next to nothing to scan, and Store.Used is not part of what the Go runtime counts. A row that is handed
// out is that memory itself and must not be looked at after the call. Hot rows lie in bigcache's arrays on the heap, which
// hold no pointers either.
//
// # Items
//
// Items keeps what memcached clients store that is in no table. It shares nothing with the tables but the blocks' code:
// it has a limit of its own, and each of its shards has a lock under which no other one of this package is taken but that
// of its pool.
//
// # Roles
//
// The follower of the binlog writes: Table.Load begins a Generation of a table, into which it installs snapshot rows and
// applies transactions, and which it declares live. A later Load, Suspend or Refuse makes that Generation stale: its
// methods then return ErrStale and change nothing, so a follower that is late can do no harm. Protocol servers read:
// Table.Search and View answer from memory or say that the database has to. What is answered is one state between
// two transactions, since a transaction is applied under one lock; a row that is not found in a live table does not
// exist.
//
// # Goroutines
//
// The package starts goroutines for one purpose: building an index of a table of more than 20,000 rows. The Store owns
// them, at most one works at a time, and Store.Close ends and awaits them. All methods may be called from any goroutine,
// except that one Generation is written by one goroutine at a time (its lock makes others wait, it does not put
// transactions in order).
//
// # Locks
//
// In this order, none of them held while waiting for I/O:
//
//	Store.mu          the set of tables, and whether the store is closed
//	Table.announceMu  keeps transitions in order while they are logged and handed to Config.OnTransition
//	Table.mu          everything of a table and of its current Generation or HotGeneration; of several tables at once
//	                  for reading alone, in the order in which they were added
//	bigcache's own    of a shard, within one call
//
// Readers hold Table.mu for reading while their rows are emitted. A builder holds it for reading for a batch of rows at
// a time: readers go on beside it, Apply waits for the end of the batch. The tree that it fills is read by nobody before
// it is complete, and is changed by Apply under the write lock only.
package cache
