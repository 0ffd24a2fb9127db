package calls

import (
	"context"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bufferSize is how many records may wait to be moved on; a power of two.
	bufferSize = 2048
	// outboxSize is how many records may wait for the exporter.
	outboxSize = 8192
	// liveInterval is how soon subscribers hear of a call.
	liveInterval = 100 * time.Millisecond
	// tick is how often the pipeline looks after itself.
	tick = time.Second
	// maxRetries is how often a batch is tried again, after pauses of retryPause,
	// twice that, and so on.
	maxRetries = 3
	retryPause = time.Second
)

// Exporter takes records to somewhere else. Its errors hold no secret and no
// address: they are shown.
type Exporter func(ctx context.Context, batch []Call) error

// pipeline moves records from the requests to where they are read.
type pipeline struct {
	buffer   *buffer
	dropped  atomic.Int64
	faults   faults
	guard    guard
	level    degradation
	ring     *ring
	hub      hub
	exporter atomic.Pointer[Exporter]
	// retune is called when the level may have changed.
	retune func()

	batchSize     atomic.Int64
	flushInterval atomic.Int64
	wakes         chan struct{}
	awake         atomic.Bool

	mu          sync.Mutex // one moves batches at a time
	scratch     []Call
	outbox      []parcel
	waiting     int   // records in the outbox
	sending     int   // of them, those that are being sent again
	seenDropped int64 // drops that were reported
}

// parcel is a batch for the exporter.
type parcel struct {
	calls []Call
	tries int
	due   time.Time
}

func newPipeline(calls int, retune func()) *pipeline {
	p := &pipeline{buffer: newBuffer(bufferSize), ring: newRing(calls), wakes: make(chan struct{}, 1), retune: retune}
	p.level.auto = true
	return p
}

// offer takes a record if there is room, without waiting.
func (p *pipeline) offer(c *Call) {
	if !p.buffer.push(c) {
		p.dropped.Add(1)
		return
	}
	if int64(p.buffer.len()) >= p.batchSize.Load() {
		p.wake()
	}
}

// wake has run look at the buffer soon. It is cheap while that is known already.
func (p *pipeline) wake() {
	if p.awake.Load() || !p.awake.CompareAndSwap(false, true) {
		return
	}
	select {
	case p.wakes <- struct{}{}:
	default:
	}
}

// run moves batches until the context ends, and then once more.
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
		if p.hub.len() > 0 || now.Sub(lastFlush) >= time.Duration(p.flushInterval.Load()) {
			p.drain(now)
			lastFlush = now
		}
		p.export(ctx, now)
		p.lookAfter(time.Now())
		pause := min(tick, time.Duration(p.flushInterval.Load()))
		if p.hub.len() > 0 {
			pause = min(pause, liveInterval)
		}
		timer.Reset(pause)
	}
}

// drain moves what waits in the buffer on, in batches. It touches memory only.
func (p *pipeline) drain(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.guard.held() {
		return
	}
	most := int(p.batchSize.Load())
	for {
		p.scratch = p.scratch[:0]
		for len(p.scratch) < most {
			p.scratch = append(p.scratch, Call{})
			if !p.buffer.pop(&p.scratch[len(p.scratch)-1]) {
				p.scratch = p.scratch[:len(p.scratch)-1]
				break
			}
		}
		if len(p.scratch) == 0 {
			return
		}
		p.keep(p.scratch, now)
	}
}

// keep hands a batch to everything that reads records.
func (p *pipeline) keep(batch []Call, now time.Time) {
	p.ring.add(batch)
	if slow := p.hub.publish(batch); slow > 0 {
		p.faults.note("stream", "send", "a subscriber was too slow and was dropped", int64(slow), now)
	}
	var traced []Call
	for n := range batch {
		c := &batch[n]
		if !c.Traced() {
			continue
		}
		traced = append(traced, *c)
		if i := c.series; i != nil {
			i.Illustrate(hex.EncodeToString(c.Trace.ID[:]), c.Ended, c.Started.Add(c.Ended))
		}
	}
	if p.exporter.Load() == nil {
		p.guard.done(true, now)
		return
	}
	if len(traced) == 0 {
		return
	}
	if p.waiting+len(traced) > outboxSize {
		p.faults.note("outbox", "store", "the outbox of the exporter is full", int64(len(traced)), now)
		return
	}
	p.outbox = append(p.outbox, parcel{calls: traced, due: now})
	p.waiting += len(traced)
}

// export sends what is due. Only run calls it, so that no reader waits for the
// network.
func (p *pipeline) export(ctx context.Context, now time.Time) {
	for {
		box, export, ok := p.takeDue(now)
		if !ok {
			return
		}
		err := (*export)(ctx, box.calls)
		now = time.Now()
		p.guard.done(err == nil, now)
		p.giveBack(box, err, now)
	}
}

func (p *pipeline) takeDue(now time.Time) (parcel, *Exporter, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	export := p.exporter.Load()
	for i, box := range p.outbox {
		if box.due.After(now) {
			continue
		}
		if export == nil || !p.guard.allow(now) {
			break
		}
		p.outbox = append(p.outbox[:i], p.outbox[i+1:]...)
		if box.tries > 0 {
			p.sending++
		}
		return box, export, true
	}
	return parcel{}, nil, false
}

func (p *pipeline) giveBack(box parcel, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if box.tries > 0 {
		p.sending--
	}
	if err == nil {
		p.waiting -= len(box.calls)
		return
	}
	p.faults.note("exporter", "export", err.Error(), 1, now)
	if box.tries++; box.tries > maxRetries {
		p.waiting -= len(box.calls)
		p.faults.note("exporter", "give-up", "a batch was dropped after its last retry", 1, now)
		return
	}
	box.due = now.Add(retryPause << (box.tries - 1))
	p.outbox = append(p.outbox, box)
}

// lookAfter reports drops and lets the level follow the components.
func (p *pipeline) lookAfter(now time.Time) {
	p.mu.Lock()
	if dropped := p.dropped.Load(); dropped > p.seenDropped {
		p.faults.note("buffer", "push", "the buffer of records was full", dropped-p.seenDropped, now)
		p.seenDropped = dropped
	}
	p.mu.Unlock()
	p.level.follow(p.faults.stats(now).Degraded, now)
	p.retune()
}

// CacheStats are the records that wait.
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
	for _, box := range p.outbox {
		if box.tries > 0 {
			s.QueuedRetries++
		}
	}
	return s
}

// clear drops the records that wait.
func (p *pipeline) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, box := range p.outbox {
		p.waiting -= len(box.calls)
	}
	p.outbox = nil
	var c Call
	for p.buffer.pop(&c) {
	}
}
