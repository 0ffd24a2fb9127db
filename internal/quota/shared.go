package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// shared is this gateway's side of the counter that gateways share. Requests wait
// for the counter no longer than its timeout, and not at all while it is unavailable,
// that is: known not to answer.
type shared struct {
	session      *session
	timeout      time.Duration
	keepAfterEnd time.Duration // after the end of a window
	pushAllEvery time.Duration // between two times that everything is pushed
	state        *component
	counter      atomic.Pointer[Counter]
	failures     atomic.Int32
	// available is a channel that is closed when the counter stops answering, so that
	// requests stop waiting for it. Nil means that the counter is unavailable: no request
	// uses it until it has answered a probe.
	available atomic.Pointer[chan struct{}]
	lost      atomic.Bool // the counter has less than it acknowledged
	pushes    atomic.Int64

	mu    sync.Mutex
	queue []*cell // to be pushed

	// calls are calls of the counter whose callers may stop waiting for the answer.
	// All callers stop waiting when closing is closed.
	calls   group
	closing chan struct{}

	// storedPushesWanted counts how often the rows of the database had to be pushed,
	// because the counter was new or had lost data; storedPushesDone is the last of
	// these that was completed.
	storedPushesWanted, storedPushesDone atomic.Int64
	pushingStored                        atomic.Bool

	// Used by probe only.
	mark        string
	pushedAllAt time.Time
}

const (
	// maxTimeouts is how many timeouts in a row make the counter count as unavailable. Any
	// other error does so at once.
	maxTimeouts = 3
	// pushEvery is how long tokens wait before they are pushed, probeEvery the time between
	// two probes of the counter, and retryEvery that while it is unavailable.
	pushEvery  = 250 * time.Millisecond
	probeEvery = 3 * time.Second
	retryEvery = time.Second
	// backgroundTime bounds calls for which no request waits.
	backgroundTime = 2 * time.Second
	pushBatch      = 1024
)

var errUnavailable = errors.New("the shared counter is unavailable")

func newShared(s *session) *shared {
	interval := time.Duration(s.settings.FlushIntervalSeconds) * time.Second
	return &shared{
		session: s, timeout: s.settings.Distributed.Timeout.Std(), keepAfterEnd: max(time.Hour, 2*interval),
		pushAllEvery: min(max(interval, 10*time.Second), 5*time.Minute),
		state:        &component{log: s.ledger.options.Log, name: "the shared counter", code: redisUnavailable},
		closing:      make(chan struct{}),
	}
}

func (h *shared) isUnavailable() bool { return h.available.Load() == nil }

// begin tries to connect before the first request comes.
func (h *shared) begin() {
	ctx, cancel := context.WithTimeout(h.session.ledger.ending, max(h.timeout, time.Second/2))
	defer cancel()
	h.probe(ctx)
}

// pushLoop pushes queued cells and probes the counter until the context ends.
func (h *shared) pushLoop(ctx context.Context) {
	tick := time.NewTicker(pushEvery)
	defer tick.Stop()
	var probed time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		wait := probeEvery
		if h.isUnavailable() {
			wait = retryEvery
		}
		if time.Since(probed) >= jitter(wait) {
			h.probe(ctx)
			probed = time.Now()
		}
		h.drain(ctx)
	}
}

// probe connects to the counter if necessary, and checks that it answers and has
// not lost its data.
func (h *shared) probe(ctx context.Context) {
	err := h.connect(ctx)
	if err == nil {
		err = h.checkMark(ctx)
	}
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) { // the session ended; the counter did not fail
			h.fail(err)
		}
		return
	}
	closedWhenUnavailable := make(chan struct{})
	h.available.CompareAndSwap(nil, &closedWhenUnavailable)
	h.failures.Store(0)
	h.state.setError(nil)
}

func (h *shared) connect(ctx context.Context) error {
	if h.counter.Load() != nil {
		return nil
	}
	opened, err := h.session.ledger.options.OpenCounter(ctx)
	if err != nil {
		return err
	}
	h.counter.Store(&opened)
	return nil
}

// checkMark reads the counter's mark. If it differs from the last one, or if the
// counter was unavailable, everything is pushed again: the cells of this gateway, and the
// rows that other gateways have written to the database.
func (h *shared) checkMark(ctx context.Context) error {
	mark, err := h.readMark(ctx)
	if err != nil {
		return err
	}
	if mark != h.mark || h.lost.Load() || h.isUnavailable() || time.Since(h.pushedAllAt) > h.pushAllEvery {
		h.lost.Store(false)
		if err := h.pushAll(ctx); err != nil {
			h.lost.Store(true)
			return err
		}
		h.mark, h.pushedAllAt = mark, time.Now()
		h.storedPushesWanted.Add(1)
	}
	h.startPushStored(ctx)
	return nil
}

// readMark waits as long as a request would: a counter that is slower must not be
// offered to requests.
func (h *shared) readMark(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	return (*h.counter.Load()).Mark(ctx, rand.Text())
}

// startPushStored pushes the rows of the database in the background, if that is
// wanted and not under way.
func (h *shared) startPushStored(ctx context.Context) {
	wanted := h.storedPushesWanted.Load()
	if h.storedPushesDone.Load() == wanted || !h.pushingStored.CompareAndSwap(false, true) {
		return
	}
	push := func() {
		defer h.pushingStored.Store(false)
		if h.pushStored(ctx) == nil {
			h.storedPushesDone.Store(wanted)
		}
	}
	if h.session.ledger.options.manual {
		push()
		return
	}
	h.session.goroutines.start(push)
}

// pushAll pushes every cell whose window the counter keeps.
func (h *shared) pushAll(ctx context.Context) error {
	var cells []*cell
	h.session.cells.each(func(c *cell) { cells = append(cells, c) })
	for len(cells) > 0 {
		n := min(len(cells), pushBatch)
		if err := h.sendInBackground(ctx, h.rows(cells[:n], false)); err != nil {
			return err
		}
		cells = cells[n:]
	}
	return nil
}

// pushStored pushes the database's rows of the open windows, which include those of
// gateways that do not run any more.
func (h *shared) pushStored(ctx context.Context) error {
	rows, err := h.storedRows(ctx)
	if err != nil {
		return err
	}
	for len(rows) > 0 {
		n := min(len(rows), pushBatch)
		pushes := make([]Push, n)
		for i := range pushes {
			pushes[i] = Push{Row: rows[i], Expire: rows[i].Window.End(rows[i].Start).Add(h.keepAfterEnd)}
		}
		if err := h.sendInBackground(ctx, pushes); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// storedRows reads the database's rows of the open windows.
func (h *shared) storedRows(ctx context.Context) ([]Row, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	store, err := h.session.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	return store.Read(ctx, Filter{Windows: openWindows(h.session.now(), Windows())})
}

func openWindows(now time.Time, windows []Window) []CalendarWindow {
	open := make([]CalendarWindow, 0, len(windows))
	for _, w := range windows {
		open = append(open, CalendarWindow{w, w.Start(now)})
	}
	return open
}

// rows returns what to push for cells. If changed is true, it omits cells whose
// totals the counter has acknowledged.
func (h *shared) rows(cells []*cell, changed bool) []Push {
	now := h.session.now()
	pushes := make([]Push, 0, len(cells))
	for _, c := range cells {
		if c == nil {
			continue
		}
		push := Push{Row: c.row(), cell: c, SeenRequests: c.seenRequests.Load(), SeenTokens: c.seenTokens.Load(), SeenDetail: c.seenDetail.load()}
		push.Expire = c.window.End(push.Start).Add(h.keepAfterEnd)
		if !push.Expire.After(now) || changed && push.Requests == push.SeenRequests && push.Tokens == push.SeenTokens && push.Detail == push.SeenDetail {
			continue
		}
		pushes = append(pushes, push)
	}
	return pushes
}

// send pushes rows, and stores in their cells what the counter acknowledged.
func (h *shared) send(ctx context.Context, rows []Push) error {
	if len(rows) == 0 {
		return nil
	}
	counter := h.counter.Load()
	if counter == nil {
		return errUnavailable
	}
	h.pushes.Add(1)
	lost, err := (*counter).Push(ctx, rows)
	if err != nil {
		return err
	}
	if lost {
		h.lost.Store(true)
	}
	for i := range rows {
		if c := rows[i].cell; c != nil {
			storeMax(&c.seenRequests, rows[i].Requests)
			storeMax(&c.seenTokens, rows[i].Tokens)
			c.seenDetail.raise(rows[i].Detail)
		}
	}
	return nil
}

// sendInBackground is send with the timeout for calls that no request waits for.
func (h *shared) sendInBackground(ctx context.Context, rows []Push) error {
	ctx, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	return h.send(ctx, rows)
}

// storeMax sets n to a value unless n is greater already.
func storeMax(n *atomic.Int64, to int64) {
	for {
		known := n.Load()
		if known >= to || n.CompareAndSwap(known, to) {
			return
		}
	}
}

// push pushes the cells of a request, and waits no longer than the timeout. After
// an error the cells are queued.
func (h *shared) push(cells []*cell) error {
	here := h.available.Load()
	if here == nil {
		h.session.ledger.stats.degradations.Add(1)
		h.enqueue(cells)
		return errUnavailable
	}
	rows := h.rows(cells, false)
	err := h.call(context.Background(), *here, func(ctx context.Context) error { return h.send(ctx, rows) })
	if err == nil {
		h.failures.Store(0)
		return nil
	}
	h.session.ledger.stats.degradations.Add(1)
	h.enqueue(cells)
	if !errors.Is(err, errUnavailable) {
		h.fail(err)
	}
	return err
}

// call calls the counter and waits for the answer until the timeout, until the
// counter becomes unavailable, or until the session closes. The client library may
// return later; close waits for it.
func (h *shared) call(ctx context.Context, unavailable <-chan struct{}, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	answered := make(chan error, 1)
	if !h.calls.start(func() { answered <- ask(ctx) }) {
		return errUnavailable
	}
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-unavailable:
		return errUnavailable
	case <-h.closing:
		return errUnavailable
	}
}

// fail handles an error of the counter, which is unavailable from then on unless the error
// is one of the first few timeouts.
func (h *shared) fail(err error) {
	code := redisUnavailable
	if errors.Is(err, context.DeadlineExceeded) {
		if h.failures.Add(1) < maxTimeouts && !h.isUnavailable() {
			return
		}
		code, err = redisTimeout, errTimeout
	}
	h.state.setErrorCode(code, err)
	if here := h.available.Swap(nil); here != nil {
		close(*here)
	}
}

var errTimeout = errors.New("no answer within distributed.timeout")

// The codes of the reasons for which a shared counter is unavailable.
const (
	redisUnavailable = "quota-counter-redis-unavailable"
	redisTimeout     = "quota-counter-redis-timeout"
)

// enqueue queues cells to be pushed.
func (h *shared) enqueue(cells []*cell) {
	for _, c := range cells {
		if c == nil || c.queued.Swap(true) {
			continue
		}
		h.mu.Lock()
		h.queue = append(h.queue, c)
		h.mu.Unlock()
	}
}

// drain pushes what was queued when it was called. What cannot be pushed stays
// in the queue for the next time.
func (h *shared) drain(ctx context.Context) {
	if h.isUnavailable() {
		return // everything is pushed when the counter answers again
	}
	for left := h.queued(); left > 0; {
		batch := h.dequeue(min(left, pushBatch))
		if len(batch) == 0 {
			return
		}
		left -= len(batch)
		if err := h.sendInBackground(ctx, h.rows(batch, true)); err != nil {
			h.enqueue(batch)
			if !errors.Is(ctx.Err(), context.Canceled) { // see probe
				h.fail(err)
			}
			return
		}
	}
}

// queued returns how many cells wait to be pushed.
func (h *shared) queued() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.queue)
}

// dequeue removes cells from the front of the queue. They are queued again when
// they change after this.
func (h *shared) dequeue(most int) []*cell {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(most, len(h.queue))
	batch := h.queue[:n:n]
	if h.queue = h.queue[n:]; len(h.queue) == 0 {
		h.queue = nil
	}
	for _, c := range batch {
		c.queued.Store(false)
	}
	return batch
}

// read returns the counter's rows of windows.
func (h *shared) read(ctx context.Context, windows []CalendarWindow) ([]Row, error) {
	counter := h.counter.Load()
	if counter == nil || h.isUnavailable() {
		return nil, errUnavailable
	}
	ctx, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	return (*counter).Read(ctx, windows)
}

// idle reports whether nothing is queued, or the counter is unavailable.
func (h *shared) idle() bool {
	if h == nil || h.isUnavailable() {
		return true
	}
	return h.queued() == 0
}

// needs reports whether a cell must be kept because the counter lacks its totals.
func (h *shared) needs(c *cell, now int64) bool {
	if h == nil || c.window.endOf(c.start)+int64(h.keepAfterEnd/time.Second) <= now {
		return false
	}
	return c.requests.Load() != c.seenRequests.Load() || c.tokens.Load() != c.seenTokens.Load() || c.detail.load() != c.seenDetail.load()
}

// close pushes what is queued, closes the counter, and waits for the calls that
// are still running.
func (h *shared) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*backgroundTime)
	defer cancel()
	last, cancelLast := context.WithTimeout(ctx, backgroundTime)
	defer cancelLast()
	h.calls.start(func() { h.drain(last) })
	h.calls.close()
	close(h.closing)
	_ = h.calls.wait(last) // a call that is stuck ends with the connection
	if counter := h.counter.Swap(nil); counter != nil {
		(*counter).Close()
	}
	return h.calls.wait(ctx)
}
