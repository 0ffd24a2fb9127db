// Package live decides what people who watch the gateway see of it as it runs:
// the history of the counts, the changes of state, and who reads them. Nobody on
// the way of a request waits for it.
package live
