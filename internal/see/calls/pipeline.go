package calls

import (
	"context"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

const (
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

// Archive keeps records for longer than the memory of calls does. It reads them with the cursor
// that ArchiveTo returns.
type Archive interface {
	// Days returns for how many days it keeps records.
	Days() int
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
	tail     *tail
	dropped  atomic.Int64
	faults   faults
	breaker  breaker
	level    degradation
	captures captures
	exporter atomic.Pointer[Exporter]
	archive  atomic.Pointer[Archive]

	batchSize     atomic.Int64
	flushInterval atomic.Int64
	wakes         chan struct{}
	awake         atomic.Bool

	moving      sync.Mutex // held while batches are moved on
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

// offer copies a record into the memory of calls, or counts it as dropped and returns false if
// too many wait there. It never waits.
func (r *Recorder) offer(c *Record) bool {
	waiting := r.tail.push(c)
	if waiting == 0 {
		r.dropped.Add(1)
		return false
	}
	if int64(waiting) >= r.batchSize.Load() {
		r.wake()
	}
	return true
}

// wake makes run drain the records soon. It is cheap while a wake-up is pending.
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
		if r.tail.isWatched() || now.Sub(lastFlush) >= time.Duration(r.flushInterval.Load()) {
			r.drain(now)
			lastFlush = now
		}
		r.export(ctx, now)
		r.maintain(time.Now())
		pause := min(tick, time.Duration(r.flushInterval.Load()))
		if r.tail.isWatched() {
			pause = min(pause, liveInterval)
		}
		timer.Reset(pause)
	}
}

// drain moves the waiting records on, in batches. It does no input or output.
func (r *Recorder) drain(now time.Time) {
	r.moving.Lock()
	defer r.moving.Unlock()
	if r.breaker.isForcedOpen() {
		return
	}
	r.release(now) // cursors may have read on
	for waiting := r.tail.waiting(); waiting > 0; waiting = r.tail.waiting() {
		r.keep(min(waiting, int(r.batchSize.Load())), now)
	}
}

// keep notes a batch of so many waiting records, lets readers see them, and puts the traced ones
// into the outbox.
func (r *Recorder) keep(size int, now time.Time) {
	var traced []Record
	for size > 0 {
		run := r.tail.run(size)
		size -= len(run)
		for n := range run {
			if captured := run[n].Captured; captured != nil {
				run[n].Captured = nil
				r.captures.keep(run[n].Sequence, captured)
			}
		}
		r.tail.move(len(run))
		for _, observe := range r.observers {
			observe(run)
		}
		traced = appendTraced(traced, run)
	}
	r.release(now)
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

// release tells readers about the records that were moved on, and forgets those that nobody
// reads any more.
func (r *Recorder) release(now time.Time) {
	oldest, slow := r.tail.release()
	r.captures.dropBefore(oldest)
	if slow > 0 {
		r.faults.note("stream", "send", "a subscriber was too slow and was dropped", int64(slow), now)
	}
}

// appendTraced appends the traced calls, which become the exemplars of their instances.
func appendTraced(to, batch []Record) []Record {
	for n := range batch {
		c := &batch[n]
		if !c.Traced() {
			continue
		}
		to = append(to, *c)
		if i := c.Series; i != nil {
			i.KeepExemplar(hex.EncodeToString(c.Trace.ID[:]), c.Ended, c.Started.Add(c.Ended))
		}
	}
	return to
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

// CacheStats describe the records that wait to be moved on and in the outbox.
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
	s := CacheStats{Current: r.tail.waiting() + r.waiting, Max: bufferSize + outboxSize, ActiveRetries: r.sending}
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
	r.tail.drop(func(c *Record) {
		if c.Captured != nil {
			r.captures.release(c.Captured)
		}
	})
}
