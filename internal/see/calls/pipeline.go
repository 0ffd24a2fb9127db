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
	// Offer gives it records, with what was captured of them. It must neither wait nor
	// retain the batch.
	Offer(batch []Record)
	// Forget removes what was captured beyond a level, because no more is to be kept.
	Forget(most metrics.Capture)
	// Search passes on calls, the newest first, until yield returns false or there are no more.
	// It returns the number before which a further search goes on, 0 where there is nothing.
	Search(ctx context.Context, q Query, yield func(*Record) bool) (next uint64, err error)
	// Captured returns what was captured of the call with a number, nil for nothing.
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

// pipeline moves records from the requests to where they are read.
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
	// levelChanged is called when the level may have changed.
	levelChanged func()

	batchSize     atomic.Int64
	flushInterval atomic.Int64
	wakes         chan struct{}
	awake         atomic.Bool

	mu          sync.Mutex // held while batches are moved on
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

func newPipeline(calls int, levelChanged func()) *pipeline {
	p := &pipeline{buffer: buffer{most: bufferSize}, ring: newRing(calls), wakes: make(chan struct{}, 1), levelChanged: levelChanged}
	p.problems.recorded = p.ring.latest
	p.level.auto = true
	return p
}

// offer copies a record into the buffer, or counts it as dropped and returns false
// where there is no room. It never waits.
func (p *pipeline) offer(c *Record) bool {
	waiting := p.buffer.push(c)
	if waiting == 0 {
		p.dropped.Add(1)
		return false
	}
	if int64(waiting) >= p.batchSize.Load() {
		p.wake()
	}
	return true
}

// wake makes run drain the buffer soon. It is cheap while a wake-up is pending.
func (p *pipeline) wake() {
	if p.awake.Load() || !p.awake.CompareAndSwap(false, true) {
		return
	}
	select {
	case p.wakes <- struct{}{}:
	default:
	}
}

// run moves batches on until the context ends, and then once more.
func (p *pipeline) run(ctx context.Context) {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	lastFlush := time.Now()
	for {
		select {
		case <-ctx.Done():
			p.drain(time.Now())
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			p.export(last, time.Now())
			cancel()
			return
		case <-p.wakes:
			p.awake.Store(false)
			lastFlush = time.Time{}
		case <-timer.C:
		}
		now := time.Now()
		if p.subscribers.len() > 0 || now.Sub(lastFlush) >= time.Duration(p.flushInterval.Load()) {
			p.drain(now)
			lastFlush = now
		}
		p.export(ctx, now)
		p.maintain(time.Now())
		pause := min(tick, time.Duration(p.flushInterval.Load()))
		if p.subscribers.len() > 0 {
			pause = min(pause, liveInterval)
		}
		timer.Reset(pause)
	}
}

// drain moves the records in the buffer on, in batches. It does no input or
// output.
func (p *pipeline) drain(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.breaker.isForcedOpen() {
		return
	}
	for records := p.buffer.take(); len(records) > 0; records = p.buffer.take() {
		for batch := range slices.Chunk(records, int(p.batchSize.Load())) {
			p.keep(batch, now)
		}
	}
}

// keep passes a batch to everything that reads records.
func (p *pipeline) keep(batch []Record, now time.Time) {
	for n := range batch {
		p.sequence++
		batch[n].Sequence = p.sequence
	}
	if archive := p.archive.Load(); archive != nil {
		(*archive).Offer(batch) // before the ring, so that no record is in neither of them
	}
	for n := range batch {
		if captured := batch[n].Captured; captured != nil {
			batch[n].Captured = nil
			p.captures.keep(batch[n].Sequence, captured)
		}
	}
	if size := uint64(len(p.ring.calls)); p.sequence > size {
		p.captures.dropBefore(p.sequence - size + 1)
	}
	p.ring.add(batch)
	p.problems.note(batch)
	for _, observe := range p.observers {
		observe(batch)
	}
	if slow := p.subscribers.publish(batch); slow > 0 {
		p.faults.note("stream", "send", "a subscriber was too slow and was dropped", int64(slow), now)
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
	if p.exporter.Load() == nil {
		p.breaker.done(true, now)
		return
	}
	if len(traced) == 0 {
		return
	}
	if p.waiting+len(traced) > outboxSize {
		p.faults.note("outbox", "store", "the outbox of the exporter is full", int64(len(traced)), now)
		return
	}
	p.outbox = append(p.outbox, exportBatch{calls: traced, due: now})
	p.waiting += len(traced)
}

// export sends the batches that are due. Only run calls it, so that no reader
// waits for the network.
func (p *pipeline) export(ctx context.Context, now time.Time) {
	for {
		batch, export, ok := p.takeDue(now)
		if !ok {
			return
		}
		err := (*export)(ctx, batch.calls)
		now = time.Now()
		p.breaker.done(err == nil, now)
		p.giveBack(batch, err, now)
	}
}

func (p *pipeline) takeDue(now time.Time) (exportBatch, *Exporter, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	export := p.exporter.Load()
	for i, batch := range p.outbox {
		if batch.due.After(now) {
			continue
		}
		if export == nil || !p.breaker.allow(now) {
			break
		}
		p.outbox = append(p.outbox[:i], p.outbox[i+1:]...)
		if batch.tries > 0 {
			p.sending++
		}
		return batch, export, true
	}
	return exportBatch{}, nil, false
}

func (p *pipeline) giveBack(batch exportBatch, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if batch.tries > 0 {
		p.sending--
	}
	if err == nil {
		p.waiting -= len(batch.calls)
		return
	}
	p.faults.note("exporter", "export", err.Error(), 1, now)
	if batch.tries++; batch.tries > maxRetries {
		p.waiting -= len(batch.calls)
		p.faults.note("exporter", "give-up", "a batch was dropped after its last retry", 1, now)
		return
	}
	batch.due = now.Add(retryPause << (batch.tries - 1))
	p.outbox = append(p.outbox, batch)
}

// maintain reports dropped records as a fault and adapts the degradation level
// to the faults.
func (p *pipeline) maintain(now time.Time) {
	p.mu.Lock()
	if dropped := p.dropped.Load(); dropped > p.seenDropped {
		p.faults.note("buffer", "push", "the buffer of records was full", dropped-p.seenDropped, now)
		p.seenDropped = dropped
	}
	p.mu.Unlock()
	p.level.follow(p.faults.stats(now).Degraded, now)
	p.levelChanged()
}

// CacheStats describe the records that wait in the buffer and in the outbox.
type CacheStats struct {
	Current, Max                 int
	ActiveRetries, QueuedRetries int
}

// Usage returns how full the cache is, from 0 to 1.
func (s CacheStats) Usage() float64 { return float64(s.Current) / float64(s.Max) }

func (p *pipeline) cache() CacheStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := CacheStats{Current: p.buffer.len() + p.waiting, Max: bufferSize + outboxSize, ActiveRetries: p.sending}
	for _, batch := range p.outbox {
		if batch.tries > 0 {
			s.QueuedRetries++
		}
	}
	return s
}

// clear drops the records that wait.
func (p *pipeline) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, batch := range p.outbox {
		p.waiting -= len(batch.calls)
	}
	p.outbox = nil
	for _, c := range p.buffer.take() {
		if c.Captured != nil {
			p.captures.release(c.Captured)
		}
	}
	p.buffer.take() // which forgets them
}

// buffer holds the records that were not moved on yet. Its writers only wait for each
// other's copying.
type buffer struct {
	most int

	mu      sync.Mutex
	records []Record
	spare   []Record // the memory of those that take returned last
}

// push copies a record into the buffer and returns how many it holds, 0 where there is no
// room.
func (b *buffer) push(c *Record) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.records) == b.most {
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
