//go:build pins

package cache

// The libraries that hot rows and the shared tier are designed for, pinned beside the rest so that they are known to
// build together. No build uses this file.
import (
	_ "github.com/allegro/bigcache/v3"
	_ "github.com/redis/go-redis/v9"
)
