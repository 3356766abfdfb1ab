package hsserver

// failure is an answer that says why a request was not carried out: "<code> 1 <text>".
type failure string

// Error lets a failure pass through functions that return errors.
func (f failure) Error() string { return string(f) }

// The failures. The codes are the plugin's: 1 for the database's side, 2 for the request, 3 for authentication.
const (
	failCommand     failure = "2\t1\tcmd\n"         // unknown command, empty line
	failLine        failure = "2\t1\tline\n"        // line too long; the connection is closed
	failID          failure = "2\t1\tstmtnum\n"     // id not open, or too large, or its table has lost what was opened
	failOperator    failure = "2\t1\top\n"          // unknown operator
	failNoValues    failure = "2\t1\tklen\n"        // no key values, fewer values of an insert than it says
	failKeyParts    failure = "2\t1\tkpnum\n"       // more key values than index columns
	failManyValues  failure = "2\t1\tfldnum\n"      // more values than maxKeyValues
	failIndex       failure = "2\t1\tidxnum\n"      // unknown index, or one that can't be walked
	failColumn      failure = "2\t1\tfld\n"         // unknown column, or too much of them
	failInValues    failure = "2\t1\tinvalueslen\n" // empty IN list, or too long
	failFilterType  failure = "2\t1\tfiltertype\n"  // F or W followed by more, or too many filters
	failFilterField failure = "2\t1\tfilterfld\n"   // column number too large, or a column or value that can't be compared here
	failFilterBlob  failure = "2\t1\tfilterblob\n"  // a column whose values can't be filtered
	failModify      failure = "2\t1\tmodop\n"       // unknown modification
	failReadOnly    failure = "2\t1\treadonly\n"    // write on the read port
	failNotThere    failure = "2\t1\tnotimpl\n"     // operator S; writes without a Writer
	failTooLarge    failure = "2\t1\ttoolarge\n"    // the answer would pass maxAnswerBytes or maxAnswerRows
	failTable       failure = "1\t1\topen_table\n"  // the table can't be opened
	failDatabase    failure = "1\t1\tunavailable\n" // the database could not answer
	failSecret      failure = "3\t1\tunauth\n"
	failSecretType  failure = "3\t1\tauthtype\n"

	// done is what a command without results answers.
	done = "0\t1\n"
)
