// Package sqltext runs SQL over MySQL's text protocol and gives the bytes of the values as the server sent them, in
// each column's own character set. Sessions are pinned so that the same row gives the same bytes everywhere: UTC, no
// SQL modes, character_set_results = NULL.
//
// go-mysql's client connects and logs in (all its authentication plugins, TCP, unix sockets, TLS); from then on the
// package reads and writes packets on the socket itself. It starts no goroutines of its own but the one that
// context.AfterFunc runs when a statement's context ends, which the statement waits for.
package sqltext
