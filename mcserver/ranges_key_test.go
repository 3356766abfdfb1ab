package mcserver

import (
	"strings"
	"testing"
)

func TestSendable(t *testing.T) {
	for key, want := range map[string]bool{
		"a": true, "schlüssel": true, strings.Repeat("k", maxKeyBytes): true,
		"": false, "a b": false, "b\r\nEND": false, "\x7f": true, "a\x00": true, strings.Repeat("k", maxKeyBytes+1): false,
	} {
		if got := sendable([]byte(key)); got != want {
			t.Errorf("sendable(%.20q) = %v", key, got)
		}
	}
}
