//go:build race

package hsserver

const raceEnabled = true
