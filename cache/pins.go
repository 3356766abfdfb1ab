//go:build pins

package cache

// The library that the shared tier is designed for, pinned beside the rest so that they are known to build together. No
// build uses this file.
import _ "github.com/redis/go-redis/v9"
