// Package live shows the running gateway to people who watch it: the history of the counts,
// the changes of state, and who reads them. Nobody on the way of a request waits for it.
package live
