// Package calls keeps the record of each request and takes it to its readers: the counts of
// package metrics, the list of the latest calls, live subscribers and the exporter of
// traces.
//
// Every request is counted. Records are samples: at the end of a request the
// sampling rate, multiplied by the share of the degradation level, decides
// whether its Record enters the pipeline:
//
//	request -> buffer (bounded) -> batches -> ring of latest calls
//	                                       -> exemplars of histograms
//	                                       -> live subscribers
//	                                       -> outbox -> exporter (traces)
//
// The request only copies its Record into the buffer. If the buffer is full the Record is
// dropped and the drop is counted. A single goroutine moves batches on. Steps in memory
// cannot fail. The exporter can: a circuit breaker spares it, a bounded outbox retries with
// growing pauses, and an error component reports it. Components that fail often become
// degraded, and in automatic mode each degraded component lowers the degradation level by
// one, until they have recovered. An operator who forces the breaker open stops all
// delivery. None of this delays or fails a request.
package calls
