//go:build !race

package hsserver

const raceEnabled = false
