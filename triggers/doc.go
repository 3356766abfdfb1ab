// Package triggers generates the SQL that keeps a cache table right inside the database: triggers on the source tables,
// events, and the procedures that fill and refresh the table. Memcached clients then read the cache table from memory.
//
// The package is pure: a Spec (what a DBA writes) and a Catalog (what the server says about its tables) make a Design,
// and a Design is a list of statements. Nothing here talks to a server; triggers/install does.
//
// One text of SQL is made for MySQL and MariaDB: what only one of them understands is not used, and what one of them
// warns about is avoided where the other has no other way.
//
// What keeps the cache table right when several sessions write at once:
//   - A cache row that mirrors one source row is written from NEW, in the writer's transaction and under its lock on the
//     source row.
//   - Where a trigger must read (joined tables, cascades), it reads with LOCK IN SHARE MODE. A plain read would miss what
//     other transactions have not committed yet, and each would overwrite the other's work with an old value. Two writers
//     on both sides of a join may so deadlock, and one gets error 1213; they never leave a wrong row.
//   - Totals are changed by differences, in place.
//   - What is computed anew from a group locks its cache row first and reads then, without locks: whoever has changed a
//     source row without that being seen is still waiting for the cache row, or has left a mark that is handled later.
package triggers
