package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"
)

// Prover shows that the cache is right, and why.
type Prover interface {
	// Explain tells what the cache knows of a table, schema.table, and of the row of a whole row-identity key; without a key, of
	// the table alone. It must not wait for anything slow. An error wraps ErrNotFound or ErrBadRequest.
	Explain(table string, key []string) (*Explanation, error)
	// Verify carries out a request and calls line with each piece of news, the result last. An error that wraps
	// ErrBadRequest is the asker's fault.
	Verify(ctx context.Context, r VerifyRequest, line func(VerifyLine) error) error
}

// ErrBadRequest is for a Prover to wrap: the request can't be carried out as it is.
var ErrBadRequest = errors.New("bad request")

// VerifyRequest is the body of POST /api/v1/verify.
type VerifyRequest struct {
	// Tables are names, schema.table; none for all that are live.
	Tables []string `json:"tables,omitempty"`
	// Key are the values of the row-identity key of one row of one table; none for whole tables.
	Key []string `json:"key,omitempty"`
	// Repair has the cache take the database's rows where they differ.
	Repair bool `json:"repair,omitempty"`
	// Rate bounds the rows compared in a second; 0 for no bound.
	Rate int `json:"rate,omitempty"`
}

// VerifyLine is one line of the answer: progress, or the result, or the error that ended it.
type VerifyLine struct {
	// Table has been compared up to Done of about Total rows.
	Table string `json:"table,omitempty"`
	Done  uint64 `json:"done,omitempty"`
	Total uint64 `json:"total,omitempty"`
	// Result is set in the last line.
	Result *VerifyResult `json:"result,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// VerifyResult is what came of a comparison.
type VerifyResult struct {
	Tables      int    `json:"tables"`
	Rows        uint64 `json:"rows"`
	Differences uint64 `json:"differences"`
	Mended      uint64 `json:"mended"`
	// Found are the first of the differences.
	Found []VerifyDifference `json:"found"`
	// Skipped are the tables that could not be compared, with the reason.
	Skipped map[string]string `json:"skipped"`
}

// VerifyDifference is a row that the cache had otherwise than the database: missing, extra or altered.
type VerifyDifference struct {
	Table   string `json:"table"`
	Kind    string `json:"kind"`
	Key     string `json:"key"`
	Version uint64 `json:"version"`
	Mended  bool   `json:"mended"`
}

// VerificationStatus is what the comparing has come to since the start.
type VerificationStatus struct {
	Rows        uint64            `json:"rows"`
	Differences map[string]uint64 `json:"differences"`
	Mended      uint64            `json:"mended"`
	// Passes over all live tables have ended in the background, the last one at LastPass.
	Passes   uint64     `json:"passes"`
	LastPass *time.Time `json:"last_pass"`
	// Table is being compared, Done of about Total rows.
	Table string `json:"table,omitempty"`
	Done  uint64 `json:"done,omitempty"`
	Total uint64 `json:"total,omitempty"`
}

// mostRequestBytes bounds the body of a request.
const mostRequestBytes = 64 << 10

// verify answers POST /api/v1/verify with a line of JSON for each piece of news. It lasts as long as the comparison, and
// ends it when the client goes away.
func (s *Server) verify(w http.ResponseWriter, r *http.Request) {
	// Pages of other sites can't send this type without asking first, which is not granted.
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		http.Error(w, "want Content-Type: application/json", http.StatusUnsupportedMediaType)
		return
	}
	var request VerifyRequest
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostRequestBytes))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil && !errors.Is(err, io.EOF) {
		http.Error(w, "the body is no request: "+err.Error(), http.StatusBadRequest)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the body is read; the server's limit would end the request
	begun := false
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	line := func(l VerifyLine) error {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
		}
		// A client that does not read must not hold the comparison for ever.
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err := encoder.Encode(l); err != nil {
			return err
		}
		return control.Flush()
	}
	err := s.prover.Verify(r.Context(), request, line)
	switch {
	case err == nil:
	case begun:
		_ = line(VerifyLine{Error: err.Error()})
	case errors.Is(err, ErrBadRequest):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
