package simulator

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Request is the journal's entry for one request.
type Request struct {
	Arrived time.Time
	Method  string
	Path    string // with the query
	Header  http.Header
	// Body is kept with Options.Record only, up to Options.BodyCap bytes;
	// BodyLength is its whole length.
	Body       []byte
	BodyLength int
	// Ended is when the backend finished the request; zero before that.
	Ended time.Time
	// Cancelled is when the backend noticed that the client had left before
	// the answer was complete; zero if it did not. A connection that the
	// backend itself ended is not cancelled.
	Cancelled time.Time
}

// Stats are counts of requests since the start.
type Stats struct {
	Arrived      int // the head was read
	Received     int // the body was read too, or broke off
	Ended        int
	Cancelled    int
	InFlight     int // arrived and not ended
	PeakInFlight int
}

// Requests returns the latest requests, oldest first, without probes. The
// headers and bodies are shared and must not be changed.
func (b *Backend) Requests() []Request { return b.requests.list() }

// Probes returns the latest GET and HEAD requests, oldest first.
func (b *Backend) Probes() []Request { return b.probes.list() }

// Stats returns the counts of requests, without probes.
func (b *Backend) Stats() Stats { return b.requests.snapshot() }

// Wait returns when the counts satisfy the condition, or with an error that
// shows them when ctx ends first. The condition must not call the backend.
func (b *Backend) Wait(ctx context.Context, condition func(Stats) bool) error {
	return b.requests.wait(ctx, condition)
}

// WaitRequests waits until n requests were received in all.
func (b *Backend) WaitRequests(ctx context.Context, n int) error {
	return b.requests.wait(ctx, func(s Stats) bool { return s.Received >= n })
}

// WaitCancelled waits until n requests in all were cancelled by their clients.
func (b *Backend) WaitCancelled(ctx context.Context, n int) error {
	return b.requests.wait(ctx, func(s Stats) bool { return s.Cancelled >= n })
}

// WaitIdle waits until no request is in flight.
func (b *Backend) WaitIdle(ctx context.Context) error {
	return b.requests.wait(ctx, func(s Stats) bool { return s.InFlight == 0 })
}

// WaitProbes waits until n probes were received in all.
func (b *Backend) WaitProbes(ctx context.Context, n int) error {
	return b.probes.wait(ctx, func(s Stats) bool { return s.Received >= n })
}

// journal keeps the latest requests and counts all of them.
type journal struct {
	size    int
	bodyCap int // 0 keeps no bodies

	mu      sync.Mutex
	entries []*Request // a ring buffer once it is full
	oldest  int
	stats   Stats
	changed chan struct{} // closed at the next change; nil while no test waits
}

func newJournal(options Options) *journal {
	j := &journal{size: options.JournalSize}
	if options.Record {
		j.bodyCap = options.BodyCap
	}
	return j
}

func (j *journal) arrive(r *http.Request) *Request {
	entry := &Request{Arrived: time.Now(), Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.entries) < j.size {
		j.entries = append(j.entries, entry)
	} else {
		j.entries[j.oldest] = entry
		j.oldest = (j.oldest + 1) % j.size
	}
	j.stats.Arrived++
	j.stats.InFlight++
	j.stats.PeakInFlight = max(j.stats.PeakInFlight, j.stats.InFlight)
	j.notify()
	return entry
}

func (j *journal) receive(entry *Request, body received) {
	var kept []byte
	if j.bodyCap > 0 {
		kept = append(kept, body.first[:min(len(body.first), j.bodyCap)]...)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	entry.Body, entry.BodyLength = kept, body.length
	j.stats.Received++
	j.notify()
}

// end completes an entry; cancelled is zero unless the client left.
func (j *journal) end(entry *Request, cancelled time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry.Ended, entry.Cancelled = time.Now(), cancelled
	j.stats.Ended++
	j.stats.InFlight--
	if !cancelled.IsZero() {
		j.stats.Cancelled++
	}
	j.notify()
}

// notify wakes the waiting goroutines. The caller holds the lock.
func (j *journal) notify() {
	if j.changed == nil {
		return
	}
	close(j.changed)
	j.changed = nil
}

func (j *journal) list() []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := make([]Request, 0, len(j.entries))
	for i := range j.entries {
		list = append(list, *j.entries[(j.oldest+i)%len(j.entries)])
	}
	return list
}

func (j *journal) snapshot() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stats
}

func (j *journal) wait(ctx context.Context, condition func(Stats) bool) error {
	for {
		j.mu.Lock()
		stats := j.stats
		if condition(stats) {
			j.mu.Unlock()
			return nil
		}
		if j.changed == nil {
			j.changed = make(chan struct{})
		}
		changed := j.changed
		j.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("simulator: still waiting at %+v: %w", stats, ctx.Err())
		}
	}
}
