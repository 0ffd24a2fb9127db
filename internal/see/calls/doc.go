// Package calls keeps the record of each request and takes it to its readers: the counts of
// package metrics, the list of the latest calls, feeds, the archive on disk and the exporter
// of traces.
//
// Every request is counted. Records are samples: at the end of a request the
// sampling rate, multiplied by the share of the degradation level, decides
// whether its Record enters the pipeline:
//
//	request -> memory of calls (bounded) -> problems, groups, histories, exemplars
//	                                     -> list of the latest calls
//	                                     -> cursors (bounded): feeds, archive
//	                                     -> outbox (bounded) -> exporter (traces)
//
// There is one memory of calls, the tail. The request only copies its Record to the end of it.
// If too many wait there the Record is dropped and the drop is counted. A single goroutine moves
// them on in batches: it notes each in the counts that people see by cause or by tenant, and lets
// readers see it. Readers copy a Record out of the tail; a cursor that falls too far behind misses
// some or ends. Only the outbox has copies, because it keeps few of many records for longer.
// Steps in memory cannot fail. The exporter can: a circuit breaker spares it, the outbox retries with
// growing pauses, and an error component reports it. Components that fail often become
// degraded, and in automatic mode each degraded component lowers the degradation level by
// one, until they have recovered. An operator who forces the breaker open stops all
// delivery. None of this delays or fails a request.
package calls
