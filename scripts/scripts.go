// Package scripts carries the shell scripts that start and stop private database servers, so that the demo runs from
// the binary alone, without a checkout.
package scripts

import _ "embed"

// ServerUp is server-up.sh: it starts a private server and prints its DSN. See the head of the script.
//
//go:embed server-up.sh
var ServerUp []byte

// ServerDown is server-down.sh: it stops such a server.
//
//go:embed server-down.sh
var ServerDown []byte
