// Command gomemcache is a smoke test of github.com/bradfitz/gomemcache against the server of MC_HOST and MC_PORT.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

func check(ok bool, what string) {
	if !ok {
		log.Fatal("FAILED: ", what)
	}
}

func main() {
	c := memcache.New(net.JoinHostPort(os.Getenv("MC_HOST"), os.Getenv("MC_PORT")))
	c.Timeout = 5 * time.Second
	check(c.Ping() == nil, "ping")
	if rows := os.Getenv("MC_ROWS"); rows != "" {
		writeRows(c, rows+"t")
		writeRows(c, rows+"b")
		fmt.Println("OK gomemcache")
		return
	}
	check(c.Set(&memcache.Item{Key: "go:a", Value: []byte("one"), Flags: 77, Expiration: 60}) == nil, "set")
	a, err := c.Get("go:a")
	check(err == nil && string(a.Value) == "one" && a.Flags == 77, "get")
	_, err = c.Get("go:absent")
	check(errors.Is(err, memcache.ErrCacheMiss), "miss")
	check(errors.Is(c.Add(&memcache.Item{Key: "go:a", Value: []byte("x")}), memcache.ErrNotStored), "add of what is there")
	check(errors.Is(c.Replace(&memcache.Item{Key: "go:absent", Value: []byte("x")}), memcache.ErrNotStored), "replace of what is not there")
	check(c.Append(&memcache.Item{Key: "go:a", Value: []byte("!")}) == nil && c.Prepend(&memcache.Item{Key: "go:a", Value: []byte(">")}) == nil, "append and prepend")
	many := map[string]string{}
	var keys []string
	for i := range 300 {
		k := fmt.Sprintf("go:m%d", i)
		many[k] = fmt.Sprintf("value %d", i)
		keys = append(keys, k)
		check(c.Set(&memcache.Item{Key: k, Value: []byte(many[k])}) == nil, "set")
	}
	got, err := c.GetMulti(append(keys, "go:absent"))
	check(err == nil && len(got) == len(many), "several keys")
	for k, it := range got {
		check(string(it.Value) == many[k], "value of "+k)
	}
	a, err = c.Get("go:a")
	check(err == nil && string(a.Value) == ">one!", "what was appended and prepended")
	a.Value = []byte("swapped")
	check(c.CompareAndSwap(a) == nil, "cas")
	check(errors.Is(c.CompareAndSwap(a), memcache.ErrCASConflict), "cas of what was changed")
	check(c.Set(&memcache.Item{Key: "go:n", Value: []byte("10")}) == nil, "set")
	n, err := c.Increment("go:n", 5)
	check(err == nil && n == 15, "incr")
	n, err = c.Decrement("go:n", 50)
	check(err == nil && n == 0, "decr")
	check(c.Touch("go:a", 100) == nil && errors.Is(c.Touch("go:absent", 1), memcache.ErrCacheMiss), "touch")
	big := bytes.Repeat([]byte("x"), 900_000)
	check(c.Set(&memcache.Item{Key: "go:big", Value: big}) == nil, "a large value")
	it, err := c.Get("go:big")
	check(err == nil && bytes.Equal(it.Value, big), "a large value")
	check(c.Set(&memcache.Item{Key: "go:e", Value: []byte("x"), Expiration: 1}) == nil, "set with a time")
	time.Sleep(2100 * time.Millisecond)
	_, err = c.Get("go:e")
	check(errors.Is(err, memcache.ErrCacheMiss), "expired")
	check(c.Delete("go:a") == nil && errors.Is(c.Delete("go:a"), memcache.ErrCacheMiss), "delete")
	check(c.FlushAll() == nil, "flush_all")
	fmt.Println("OK gomemcache")
}

// writeRows writes to keys of rows of a table, whose content the caller checks.
func writeRows(c *memcache.Client, p string) {
	store := func(f func(*memcache.Item) error, key, value string) error {
		return f(&memcache.Item{Key: p + key, Value: []byte(value)})
	}
	check(store(c.Set, "set", "hello") == nil && errors.Is(store(c.Add, "set", "x"), memcache.ErrNotStored), "rows: set and add")
	got, err := c.Get(p + "set")
	check(err == nil && string(got.Value) == "hello", "rows: get")
	check(store(c.Add, "add", "a1") == nil && store(c.Set, "n", "10") == nil, "rows: add")
	n, err := c.Increment(p+"n", 5)
	check(err == nil && n == 15, "rows: increment")
	check(store(c.Set, "gone", "x") == nil && c.Delete(p+"gone") == nil, "rows: delete")
	_, err = c.Get(p + "gone")
	check(errors.Is(err, memcache.ErrCacheMiss), "rows: deleted")
}
