package rowcodec

// Change is what one row event says about one row.
type Change struct {
	// Before is the row as it was: nil for an insert.
	Before Row
	// After is the row as it is: nil for a delete.
	After Row
}
