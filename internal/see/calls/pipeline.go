package calls

import (
	"context"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

const (
	// bufferSize is how many records may wait to be moved on.
	bufferSize = 2048
	// outboxSize is how many records may wait for the exporter.
	outboxSize = 8192
	// liveInterval is how often records are moved on while there are subscribers.
	liveInterval = 100 * time.Millisecond
	// tick is the longest time between two runs of the pipeline.
	tick = time.Second
	// maxRetries is how often a batch is tried again, after pauses of retryPause,
	// twice that, and so on.
	maxRetries = 3
	retryPause = time.Second
)

// Exporter sends records somewhere else. Its errors are shown to operators, so
// they hold no secret and no address.
type Exporter func(ctx context.Context, batch []Record) error

// Observer reads every record that is kept. It must neither wait nor retain the batch.
type Observer func(batch []Record)

// Archive keeps records for longer than the list of the latest calls does.
type Archive interface {
	// Days returns for how many days it keeps records.
	Days() int
	// Offer gives it records with their captured parts. It must neither wait nor retain the
	// batch.
	Offer(batch []Record)
	// Forget removes captured parts beyond a level, because the settings keep no more.
	Forget(most metrics.Capture)
	// Search passes on calls, the newest first, until yield returns false or there are no more.
	// It returns the number before which a further search goes on, 0 where there is nothing.
	Search(ctx context.Context, q Query, yield func(*Record) bool) (next uint64, err error)
	// Captured returns the captured parts of the call with a number, or nil if there are
	// none.
	Captured(number uint64) *Captured
}

// Query says which calls a search looks at.
type Query struct {
	// Before and After bound the numbers of the calls; neither is included.
	Before, After uint64
	// From and To are when the calls began, From included; zero for any time. They only save
	// reading: calls of other times are passed on, too.
	From, To time.Time
	// Most bounds the calls of an archive that are looked at.
	Most int
}

// pipeline has the records on their way from the requests to their readers.
type pipeline struct {
	buffer      buffer
	dropped     atomic.Int64
	faults      faults
	breaker     breaker
	level       degradation
	ring        *ring
	problems    problems
	captures    captures
	subscribers subscribers
	exporter    atomic.Pointer[Exporter]
	archive     atomic.Pointer[Archive]

	batchSize     atomic.Int64
	flushInterval atomic.Int64
	wakes         chan struct{}
	awake         atomic.Bool

	moving      sync.Mutex // held while batches are moved on
	sequence    uint64     // of the latest record
	observers   []Observer
	outbox      []exportBatch
	waiting     int   // records in the outbox and in the export that runs
	sending     int   // exports that run and are retries
	seenDropped int64 // drops that were reported as a fault
}

// exportBatch is a batch that waits for the exporter.
type exportBatch struct {
	calls []Record
	tries int
	due   time.Time
}

// offer copies a record into the buffer, or counts it as dropped and returns false
// where there is no room. It never waits.
func (r *Recorder) offer(c *Record) bool {
	waiting := r.buffer.push(c)
	if waiting == 0 {
		r.dropped.Add(1)
		return false
	}
	if int64(waiting) >= r.batchSize.Load() {
		r.wake()
	}
	return true
}

// wake makes run drain the buffer soon. It is cheap while a wake-up is pending.
func (r *Recorder) wake() {
	if r.awake.Load() || !r.awake.CompareAndSwap(false, true) {
		return
	}
	select {
	case r.wakes <- struct{}{}:
	default:
	}
}

// Run moves records on until ctx ends, and then the remaining ones.
func (r *Recorder) Run(ctx context.Context) {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	lastFlush := time.Now()
	for {
		select {
		case <-ctx.Done():
			r.drain(time.Now())
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			r.export(last, time.Now())
			cancel()
			return
		case <-r.wakes:
			r.awake.Store(false)
			lastFlush = time.Time{}
		case <-timer.C:
		}
		now := time.Now()
		if r.subscribers.len() > 0 || now.Sub(lastFlush) >= time.Duration(r.flushInterval.Load()) {
			r.drain(now)
			lastFlush = now
		}
		r.export(ctx, now)
		r.maintain(time.Now())
		pause := min(tick, time.Duration(r.flushInterval.Load()))
		if r.subscribers.len() > 0 {
			pause = min(pause, liveInterval)
		}
		timer.Reset(pause)
	}
}

// drain moves the records in the buffer on, in batches. It does no input or
// output.
func (r *Recorder) drain(now time.Time) {
	r.moving.Lock()
	defer r.moving.Unlock()
	if r.breaker.isForcedOpen() {
		return
	}
	for records := r.buffer.take(); len(records) > 0; records = r.buffer.take() {
		for batch := range slices.Chunk(records, int(r.batchSize.Load())) {
			r.keep(batch, now)
		}
	}
}

// keep passes a batch to everything that reads records.
func (r *Recorder) keep(batch []Record, now time.Time) {
	for n := range batch {
		r.sequence++
		batch[n].Sequence = r.sequence
	}
	if archive := r.archive.Load(); archive != nil {
		(*archive).Offer(batch) // before the ring: every record is in one of them
	}
	for n := range batch {
		if captured := batch[n].Captured; captured != nil {
			batch[n].Captured = nil
			r.captures.keep(batch[n].Sequence, captured)
		}
	}
	if size := uint64(len(r.ring.calls)); r.sequence > size {
		r.captures.dropBefore(r.sequence - size + 1)
	}
	r.ring.add(batch)
	r.problems.note(batch)
	for _, observe := range r.observers {
		observe(batch)
	}
	if slow := r.subscribers.publish(batch); slow > 0 {
		r.faults.note("stream", "send", "a subscriber was too slow and was dropped", int64(slow), now)
	}
	var traced []Record
	for n := range batch {
		c := &batch[n]
		if !c.Traced() {
			continue
		}
		traced = append(traced, *c)
		if i := c.Series; i != nil {
			i.KeepExemplar(hex.EncodeToString(c.Trace.ID[:]), c.Ended, c.Started.Add(c.Ended))
		}
	}
	if r.exporter.Load() == nil {
		r.breaker.done(true, now)
		return
	}
	if len(traced) == 0 {
		return
	}
	if r.waiting+len(traced) > outboxSize {
		r.faults.note("outbox", "store", "the outbox of the exporter is full", int64(len(traced)), now)
		return
	}
	r.outbox = append(r.outbox, exportBatch{calls: traced, due: now})
	r.waiting += len(traced)
}

// export sends the batches that are due. Only run calls it: no reader waits for the
// network.
func (r *Recorder) export(ctx context.Context, now time.Time) {
	for {
		batch, export, ok := r.takeDue(now)
		if !ok {
			return
		}
		err := (*export)(ctx, batch.calls)
		now = time.Now()
		r.breaker.done(err == nil, now)
		r.giveBack(batch, err, now)
	}
}

func (r *Recorder) takeDue(now time.Time) (exportBatch, *Exporter, bool) {
	r.moving.Lock()
	defer r.moving.Unlock()
	export := r.exporter.Load()
	for i, batch := range r.outbox {
		if batch.due.After(now) {
			continue
		}
		if export == nil || !r.breaker.allow(now) {
			break
		}
		r.outbox = append(r.outbox[:i], r.outbox[i+1:]...)
		if batch.tries > 0 {
			r.sending++
		}
		return batch, export, true
	}
	return exportBatch{}, nil, false
}

func (r *Recorder) giveBack(batch exportBatch, err error, now time.Time) {
	r.moving.Lock()
	defer r.moving.Unlock()
	if batch.tries > 0 {
		r.sending--
	}
	if err == nil {
		r.waiting -= len(batch.calls)
		return
	}
	r.faults.note("exporter", "export", err.Error(), 1, now)
	if batch.tries++; batch.tries > maxRetries {
		r.waiting -= len(batch.calls)
		r.faults.note("exporter", "give-up", "a batch was dropped after its last retry", 1, now)
		return
	}
	batch.due = now.Add(retryPause << (batch.tries - 1))
	r.outbox = append(r.outbox, batch)
}

// maintain reports dropped records as a fault and adapts the degradation level
// to the faults.
func (r *Recorder) maintain(now time.Time) {
	r.moving.Lock()
	if dropped := r.dropped.Load(); dropped > r.seenDropped {
		r.faults.note("buffer", "push", "the buffer of records was full", dropped-r.seenDropped, now)
		r.seenDropped = dropped
	}
	r.moving.Unlock()
	r.level.follow(r.faults.stats(now).Degraded, now)
	r.levelChanged()
}

// CacheStats describe the records that wait in the buffer and in the outbox.
type CacheStats struct {
	Current, Max                 int
	ActiveRetries, QueuedRetries int
}

// Usage returns how full the cache is, from 0 to 1.
func (s CacheStats) Usage() float64 { return float64(s.Current) / float64(s.Max) }

// Cache returns how many records wait.
func (r *Recorder) Cache() CacheStats {
	r.moving.Lock()
	defer r.moving.Unlock()
	s := CacheStats{Current: r.buffer.len() + r.waiting, Max: bufferSize + outboxSize, ActiveRetries: r.sending}
	for _, batch := range r.outbox {
		if batch.tries > 0 {
			s.QueuedRetries++
		}
	}
	return s
}

// ClearCache drops the records that wait.
func (r *Recorder) ClearCache() {
	r.moving.Lock()
	defer r.moving.Unlock()
	for _, batch := range r.outbox {
		r.waiting -= len(batch.calls)
	}
	r.outbox = nil
	for _, c := range r.buffer.take() {
		if c.Captured != nil {
			r.captures.release(c.Captured)
		}
	}
	r.buffer.take() // which forgets them
}

// buffer holds the records that were not moved on yet. Its writers only wait for each
// other's copying.
type buffer struct {
	mu      sync.Mutex
	records []Record
	spare   []Record // the memory of the last records that take returned
}

// push copies a record into the buffer and returns how many it holds, 0 where there is no
// room.
func (b *buffer) push(c *Record) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.records) == bufferSize {
		return 0
	}
	b.records = append(b.records, *c)
	b.records[len(b.records)-1].Running = nil // it ends with the request
	return len(b.records)
}

// take takes all records out, the oldest first. They are valid until the next call.
func (b *buffer) take() []Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.spare) // an idle buffer must not keep strings in memory
	taken := b.records
	b.records, b.spare = b.spare[:0], taken
	return taken
}

// len returns how many records wait.
func (b *buffer) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.records)
}

// ring keeps the latest calls.
type ring struct {
	mu    sync.RWMutex
	calls []Record // has its full length from the start; the first count calls before next are valid
	next  int      // where the next call goes
	count int
}

func newRing(size int) *ring { return &ring{calls: make([]Record, size)} }

func (r *ring) add(batch []Record) {
	if len(r.calls) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range batch {
		r.calls[r.next] = batch[i]
		r.next = (r.next + 1) % len(r.calls)
		r.count = min(r.count+1, len(r.calls))
	}
}

// latest passes on the calls, the newest first, until yield returns false.
func (r *ring) latest(yield func(*Record) bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for n := range r.count {
		c := &r.calls[(r.next-1-n+2*len(r.calls))%len(r.calls)]
		if !yield(c) {
			return
		}
	}
}
