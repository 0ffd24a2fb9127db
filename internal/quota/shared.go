package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// shared is the counter that gateways share, seen from one of them. Requests
// wait for it no longer than its timeout, and not at all while it is away.
type shared struct {
	session  *session
	timeout  time.Duration
	keepFor  time.Duration // after the end of a window
	reassert time.Duration // between two times that everything is pushed
	state    *part
	counter  atomic.Pointer[Counter]
	failures atomic.Int32
	// here is a channel that is closed when the counter goes away, for those who
	// wait for it; nil means that it is away, and that nobody asks it until it has
	// answered a probe.
	here   atomic.Pointer[chan struct{}]
	lost   atomic.Bool // the counter has less than it had
	pushes atomic.Int64

	mu    sync.Mutex
	queue []*cell // to be pushed

	// calls has what was asked of the counter for somebody who may stop waiting for
	// the answer. Nobody waits any more once leaving is closed.
	calls   group
	leaving chan struct{}

	// wanted counts the times that what others have counted had to be pushed,
	// seeded is the last of them that was done.
	wanted, seeded atomic.Int64
	seeding        atomic.Bool

	// The keeper's own.
	mark       string
	reasserted time.Time
}

const (
	// A request that cannot reach the counter is one failure too many; of those
	// that only wait, tolerated many in a row are let pass.
	tolerated = 3
	// pushEvery is how long tokens wait before they are pushed, and probeEvery
	// the time between two looks at the counter.
	pushEvery  = 250 * time.Millisecond
	probeEvery = time.Second
	// backgroundTime bounds what no request waits for.
	backgroundTime = 2 * time.Second
	pushBatch      = 1024
)

var errAway = errors.New("the shared counter is away")

func newShared(s *session) *shared {
	interval := time.Duration(s.settings.FlushIntervalSeconds) * time.Second
	return &shared{
		session: s, timeout: s.settings.Distributed.Timeout.Std(), keepFor: max(time.Hour, 2*interval),
		reassert: min(max(interval, 10*time.Second), 5*time.Minute),
		state:    &part{log: s.ledger.options.Log, name: "the shared counter", code: redisUnavailable},
		leaving:  make(chan struct{}),
	}
}

func (h *shared) away() bool { return h.here.Load() == nil }

// begin tries to be connected before the first request comes.
func (h *shared) begin() {
	ctx, cancel := context.WithTimeout(h.session.ledger.ending, max(h.timeout, time.Second/2))
	defer cancel()
	h.probe(ctx)
}

// keep keeps the counter up to date and finds out when it is away, back, or has
// lost its data.
func (h *shared) keep(ctx context.Context) {
	tick := time.NewTicker(pushEvery)
	defer tick.Stop()
	var probed time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(probed) >= jitter(probeEvery) {
			h.probe(ctx)
			probed = time.Now()
		}
		h.drain(ctx)
	}
}

// probe looks at the counter: whether it is there, and still has what it had.
func (h *shared) probe(ctx context.Context) {
	err := h.connect(ctx)
	if err == nil {
		err = h.look(ctx)
	}
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) { // the end of the session says nothing about the counter
			h.fail(err)
		}
		return
	}
	leaves := make(chan struct{})
	h.here.CompareAndSwap(nil, &leaves)
	h.failures.Store(0)
	h.state.note(nil)
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

// look reads the counter's mark. Where it is not the one that was there, or
// where the counter was away, everything is pushed again: what this gateway
// holds, and what others have put into the database.
func (h *shared) look(ctx context.Context) error {
	mark, err := h.readMark(ctx)
	if err != nil {
		return err
	}
	if mark != h.mark || h.lost.Load() || h.away() || time.Since(h.reasserted) > h.reassert {
		h.lost.Store(false)
		if err := h.pushAll(ctx); err != nil {
			h.lost.Store(true)
			return err
		}
		h.mark, h.reasserted = mark, time.Now()
		h.wanted.Add(1)
	}
	h.seed(ctx)
	return nil
}

// readMark is as patient as a request, or the counter would be back for those who
// cannot wait for it.
func (h *shared) readMark(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	return (*h.counter.Load()).Mark(ctx, rand.Text())
}

// seed sees to it that everything is pushed that only the database has. That
// may take as long as the database does, so nothing waits for it.
func (h *shared) seed(ctx context.Context) {
	wanted := h.wanted.Load()
	if h.seeded.Load() == wanted || !h.seeding.CompareAndSwap(false, true) {
		return
	}
	reseed := func() {
		defer h.seeding.Store(false)
		if h.reseed(ctx) == nil {
			h.seeded.Store(wanted)
		}
	}
	if h.session.ledger.options.manual {
		reseed()
		return
	}
	h.session.keepers.start(reseed)
}

// pushAll pushes every cell whose window the counter keeps.
func (h *shared) pushAll(ctx context.Context) error {
	var cells []*cell
	h.session.book.each(func(c *cell) { cells = append(cells, c) })
	for len(cells) > 0 {
		n := min(len(cells), pushBatch)
		if err := h.sendPatiently(ctx, h.rows(cells[:n], false)); err != nil {
			return err
		}
		cells = cells[n:]
	}
	return nil
}

// reseed pushes what the database has of the windows that are open: the shares
// of gateways that are gone. Without the database it has to be done later.
func (h *shared) reseed(ctx context.Context) error {
	rows, err := h.storedRows(ctx)
	if err != nil {
		return err
	}
	for len(rows) > 0 {
		n := min(len(rows), pushBatch)
		pushes := make([]Push, n)
		for i := range pushes {
			pushes[i] = Push{Row: rows[i], Expire: rows[i].Window.End(rows[i].Start).Add(h.keepFor)}
		}
		if err := h.sendPatiently(ctx, pushes); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// storedRows reads what the database has of the windows that are open.
func (h *shared) storedRows(ctx context.Context) ([]Row, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	store, err := h.session.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	return store.Read(ctx, Filter{Windows: openWindows(h.session.now(), Windows())})
}

func openWindows(now time.Time, windows []Window) []Instance {
	open := make([]Instance, 0, len(windows))
	for _, w := range windows {
		open = append(open, Instance{w, w.Start(now)})
	}
	return open
}

// rows returns what there is to push of cells. With only changed, cells that
// the counter knows are left out.
func (h *shared) rows(cells []*cell, changed bool) []Push {
	now := h.session.now()
	pushes := make([]Push, 0, len(cells))
	for _, c := range cells {
		if c == nil {
			continue
		}
		push := Push{Row: c.row(), of: c, SeenRequests: c.seenRequests.Load(), SeenTokens: c.seenTokens.Load()}
		push.Expire = c.window.End(push.Start).Add(h.keepFor)
		if !push.Expire.After(now) || changed && push.Requests == push.SeenRequests && push.Tokens == push.SeenTokens {
			continue
		}
		pushes = append(pushes, push)
	}
	return pushes
}

// send pushes rows, and notes in their cells what the counter has.
func (h *shared) send(ctx context.Context, rows []Push) error {
	if len(rows) == 0 {
		return nil
	}
	counter := h.counter.Load()
	if counter == nil {
		return errAway
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
		if c := rows[i].of; c != nil {
			raise(&c.seenRequests, rows[i].Requests)
			raise(&c.seenTokens, rows[i].Tokens)
		}
	}
	return nil
}

// sendPatiently is send for what no request waits for.
func (h *shared) sendPatiently(ctx context.Context, rows []Push) error {
	ctx, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	return h.send(ctx, rows)
}

// raise sets a number that only grows.
func raise(n *atomic.Int64, to int64) {
	for {
		known := n.Load()
		if known >= to || n.CompareAndSwap(known, to) {
			return
		}
	}
}

// push tells the counter about the cells of a request, and waits no longer than
// the timeout. After an error they are pushed when the counter is back.
func (h *shared) push(cells []*cell) error {
	here := h.here.Load()
	if here == nil {
		h.session.ledger.stats.degradations.Add(1)
		h.enqueue(cells)
		return errAway
	}
	rows := h.rows(cells, false)
	err := h.call(context.Background(), *here, func(ctx context.Context) error { return h.send(ctx, rows) })
	if err == nil {
		h.failures.Store(0)
		return nil
	}
	h.session.ledger.stats.degradations.Add(1)
	h.enqueue(cells)
	if !errors.Is(err, errAway) {
		h.fail(err)
	}
	return err
}

// call asks the counter something and waits for the answer until the timeout, until
// the counter goes away, or until the session ends, whatever the client library is
// doing then. It is the session that waits for what is left of the call.
func (h *shared) call(ctx context.Context, goesAway <-chan struct{}, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	answered := make(chan error, 1)
	if !h.calls.start(func() { answered <- ask(ctx) }) {
		return errAway
	}
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-goesAway:
		return errAway
	case <-h.leaving:
		return errAway
	}
}

// fail notes that the counter did not answer.
func (h *shared) fail(err error) {
	code := redisUnavailable
	if errors.Is(err, context.DeadlineExceeded) {
		if h.failures.Add(1) < tolerated && !h.away() {
			return
		}
		code, err = redisTimeout, errTimeout
	}
	h.state.noteAs(code, err)
	if here := h.here.Swap(nil); here != nil {
		close(*here)
	}
}

var errTimeout = errors.New("no answer within distributed.timeout")

// The reasons for which a shared counter is away.
const (
	redisUnavailable = "quota-counter-redis-unavailable"
	redisTimeout     = "quota-counter-redis-timeout"
)

// enqueue notes cells that have something to push.
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
	if h.away() {
		return // all is pushed when it is back
	}
	for left := h.queued(); left > 0; {
		batch := h.take(min(left, pushBatch))
		if len(batch) == 0 {
			return
		}
		left -= len(batch)
		if err := h.sendPatiently(ctx, h.rows(batch, true)); err != nil {
			h.enqueue(batch)
			if !errors.Is(ctx.Err(), context.Canceled) { // as above
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

// take removes cells from the front of the queue. A change of one of them from
// then on puts it into the queue again.
func (h *shared) take(most int) []*cell {
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

// read returns what the counter has of windows.
func (h *shared) read(ctx context.Context, windows []Instance) ([]Row, error) {
	counter := h.counter.Load()
	if counter == nil || h.away() {
		return nil, errAway
	}
	ctx, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	return (*counter).Read(ctx, windows)
}

// idle tells whether there is nothing left to push, or nobody to push it to.
func (h *shared) idle() bool {
	if h == nil || h.away() {
		return true
	}
	return h.queued() == 0
}

// needs tells whether a cell has to stay because the counter lacks it.
func (h *shared) needs(c *cell, now int64) bool {
	if h == nil || c.window.endOf(c.start)+int64(h.keepFor/time.Second) <= now {
		return false
	}
	return c.requests.Load() != c.seenRequests.Load() || c.tokens.Load() != c.seenTokens.Load()
}

// close pushes what is left, lets go of the counter, and waits for the calls that
// nobody else waits for any more.
func (h *shared) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*backgroundTime)
	defer cancel()
	last, cancelLast := context.WithTimeout(ctx, backgroundTime)
	defer cancelLast()
	h.calls.start(func() { h.drain(last) })
	h.calls.close()
	close(h.leaving)
	_ = h.calls.wait(last) // a call that is stuck ends with the connection
	if counter := h.counter.Swap(nil); counter != nil {
		(*counter).Close()
	}
	return h.calls.wait(ctx)
}
