package rowcodec

// SetTexts starts a new row and adds the values of a result row, nil being NULL.
//
// This is how rows of a SELECT and rows of the log come to have equal bytes: the server's own text is the canonical form
// of every type, and Decoder makes that text (the tests compare the two for each type on both servers). So a result row
// needs no treatment, provided that it was selected
//   - by naming all columns of the schema.Table in its order (SELECT * leaves out the invisible ones),
//   - in the text protocol, with character_set_results=NULL, time_zone='+00:00' and a sql_mode without
//     PAD_CHAR_TO_FULL_LENGTH.
//
// The canonical text is not always the whole value: a FLOAT has six digits, as everywhere in the server's answers.
// Negative zero of FLOAT and DOUBLE is "-0" in both.
func (b *Builder) SetTexts(values [][]byte) {
	b.Reset()
	for _, v := range values {
		if v == nil {
			b.Null()
		} else {
			b.Add(v)
		}
	}
}
