// Package archtest has no code of its own: its tests keep the rules that hold for the whole repository.
package archtest
