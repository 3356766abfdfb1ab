package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Explanation is the answer of GET /api/v1/explain: what the cache knows of a table and of the row of a key.
type Explanation struct {
	// Table is schema.table; Mode, State and Reason are as in TableStatus.
	Table  string `json:"table"`
	Mode   string `json:"mode"`
	State  string `json:"state"`
	Reason string `json:"reason"`
	// AnsweredBy is "memory" or "database"; of a hot table "memory" for a key whose row is kept.
	AnsweredBy string `json:"answered_by"`
	// KeyIndex is the index that tells rows apart.
	KeyIndex string `json:"key_index,omitempty"`
	// Columns are those of the definition with which rows are kept, with their types.
	Columns []ExplainedColumn `json:"columns,omitempty"`
	// Row is what memory has for the key; nil where that is nothing.
	Row *ExplainedRow `json:"row"`
	// Applied is how far the log had been applied.
	Applied Position `json:"applied"`
	// LagMS is how old the picture of the source was at most; nil where that is not known.
	LagMS *int64 `json:"lag_ms"`
}

// ExplainedColumn is a column and its type in SQL.
type ExplainedColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// ExplainedRow is a row in memory.
type ExplainedRow struct {
	// Values are by column; nil is NULL. Bytes that are no UTF-8 are replaced.
	Values map[string]*string `json:"values"`
	// Version is the row's; it is also the memcached CAS where the container has no column for that. Epoch and Seq are its parts.
	Version uint64 `json:"version"`
	Epoch   uint16 `json:"epoch"`
	Seq     uint64 `json:"seq"`
	// Origin is how the row came: stream, snapshot, saved state, repair, or hot (read for a client, or changed by the log since).
	Origin string `json:"origin"`
	// GTID, CommittedAt and AppliedAt are of the transaction that wrote the row, or up to which it was read; nil where that
	// was too long ago to be remembered, or before the start.
	GTID        string     `json:"gtid,omitempty"`
	CommittedAt *time.Time `json:"committed_at,omitempty"`
	AppliedAt   *time.Time `json:"applied_at,omitempty"`
	// AgeMS is the time since AppliedAt: how long the row has been as it is, here.
	AgeMS *int64 `json:"age_ms,omitempty"`
}

// ErrNotFound is for a Prover to wrap: there is no such table in the cache.
var ErrNotFound = errors.New("not found")

// explain answers GET /api/v1/explain?table=app.user&key=42.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	e, err := s.prover.Explain(query.Get("table"), query["key"])
	switch {
	case errors.Is(err, ErrNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case errors.Is(err, ErrBadRequest):
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		http.Error(w, "the answer can't be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n'))
}
