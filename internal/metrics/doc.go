// Package metrics counts what the gateway does, keeps a record of its latest
// calls, and prints both for scrapers and people.
//
// There are two paths.
//
// Counts are exact. They are atomics that belong to the living state: those of
// an instance travel with it from table to table, those of a service type live
// in the Recorder. A request adds to them once, when it has ended, without a
// lock, a lookup or an allocation. The only switch on this path is Enabled; what
// was counted before it was turned off is still there afterwards. Prefix, custom
// tags and categories are applied on the way out, so they never cost a count.
//
// Records are samples. A Call is one request with its timeline. At the end of a
// request the sampling rate, multiplied by the share of the degradation level,
// decides whether its Call enters the pipeline:
//
//	request -> buffer (bounded, lock-free) -> batches -> ring of latest calls
//	                                                  -> exemplars of histograms
//	                                                  -> live subscribers
//	                                                  -> outbox -> exporter (traces)
//
// The request only puts its Call into the buffer; where that is full the Call is
// dropped and the drop is counted. A single goroutine moves batches on. What
// happens in memory cannot fail; the exporter can, and is spared by a circuit
// breaker, retried with growing pauses from a bounded outbox, and reported as an
// error component. Components that fail often become degraded, and in automatic
// mode each degraded component lowers the degradation level by one, until they
// have recovered. An operator who forces the breaker open stops all delivery.
// Nothing of this is ever seen by a request.
package metrics
