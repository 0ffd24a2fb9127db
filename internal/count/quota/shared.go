package quota

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Shared is the counter that gateways share; *tally.Pool is it.
type Shared interface {
	// Meet makes the first contact with the store.
	Meet(ctx context.Context)
	// Tell stores totals and returns the totals of all writers. It waits no longer than
	// its context, and not at all while the store is away.
	Tell(ctx context.Context, sheets []tally.Sheet, isNews bool) ([]map[string]string, error)
	// Err returns why the store is away; nil means that it is there.
	Err() error
	// Life returns another text when the store may have lost totals. IsSpread reports
	// whether parts of it may lose them without that.
	Life() string
	IsSpread() bool
	// Stats has the failures of the store.
	Stats() tally.Stats
}

// shared is this gateway's side of the counter that gateways share. Requests do not wait
// for it: it tells their counts a few times a second.
type shared struct {
	session      *session
	store        Shared
	timeout      time.Duration
	keepAfterEnd time.Duration // after the end of a window
	pushAllEvery time.Duration // between two times that everything is told
	pushes       atomic.Int64

	mu    sync.Mutex
	queue []*cell // to be told

	// ending ends when the session closes, and nobody waits any more.
	ending context.Context
	end    context.CancelFunc

	// storedPushesWanted counts how often the rows of the database had to be told,
	// because the counter was new or had lost data; storedPushesDone is the last of
	// these that was completed.
	storedPushesWanted, storedPushesDone atomic.Int64
	pushingStored                        atomic.Bool

	// Used by catchUp only.
	life                string
	pushedAllAt, markAt time.Time
}

const (
	// pushEvery is how long counts wait before they are told, and markEvery the time
	// between two looks whether a part of the counter has lost its data.
	pushEvery = 250 * time.Millisecond
	markEvery = 3 * time.Second
	// backgroundTime bounds calls that no request waits for.
	backgroundTime = 2 * time.Second
	pushBatch      = 1024
)

func newShared(s *session, store Shared) *shared {
	interval := time.Duration(s.settings.FlushIntervalSeconds) * time.Second
	h := &shared{
		session: s, store: store, timeout: s.settings.Distributed.Timeout.Std(),
		keepAfterEnd: max(time.Hour, 2*interval),
		pushAllEvery: min(max(interval, time.Minute), 5*time.Minute),
	}
	h.ending, h.end = context.WithCancel(context.Background())
	return h
}

func (h *shared) isAway() bool { return h.store.Err() != nil }

// begin tries to connect before the first request comes.
func (h *shared) begin() {
	ctx, cancel := context.WithTimeout(h.session.ledger.ending, max(h.timeout, time.Second/2))
	defer cancel()
	h.store.Meet(ctx)
	h.tell(ctx)
}

// pushLoop tells new counts until the context ends.
func (h *shared) pushLoop(ctx context.Context) {
	waiting.Every(ctx, pushEvery, func(time.Time) { h.tell(ctx) })
}

// tell tells the totals that the counter does not have.
func (h *shared) tell(ctx context.Context) {
	if h.isAway() || h.catchUp(ctx) != nil {
		return // everything is told when the counter answers again
	}
	h.drain(ctx)
}

// catchUp tells everything to a counter that may have lost totals: the cells of this
// gateway, and the rows that other gateways have written to the database.
func (h *shared) catchUp(ctx context.Context) error {
	life := h.store.Life()
	hasLost, err := h.hasLostPart(ctx)
	if life == "" || err != nil {
		return errors.Join(err, h.store.Err())
	}
	if life != h.life || hasLost || time.Since(h.pushedAllAt) > h.pushAllEvery {
		if err := h.pushAll(ctx); err != nil {
			return err
		}
		h.life, h.pushedAllAt = life, time.Now()
		h.storedPushesWanted.Add(1)
	}
	h.startPushStored(ctx)
	return nil
}

// hasLostPart reports whether a part of a counter that is spread has lost the mark that
// this gateway left there.
func (h *shared) hasLostPart(ctx context.Context) (bool, error) {
	if !h.store.IsSpread() || time.Since(h.markAt) < markEvery {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	told, err := h.store.Tell(ctx, h.marks(nil), false)
	if err != nil {
		return false, err
	}
	h.markAt = time.Now()
	for _, marks := range told {
		if marks[h.session.cells.writer] == "" {
			return true, nil
		}
	}
	return false, nil
}

// marks returns the places of marks, one in each part of the counter.
func (h *shared) marks(totals []tally.Total) (sheets []tally.Sheet) {
	for g := range groups {
		sheets = append(sheets, tally.Sheet{
			Name: placeName(h.prefix(), g, "marks"), Expire: time.Now().Add(markTime), IsRead: true, Totals: totals,
		})
	}
	return sheets
}

func (h *shared) prefix() string { return h.session.settings.Distributed.KeyPrefix }

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
	log := h.session.ledger.options.Log
	h.session.goroutines.start(func() { logs.Contain(log, "telling what the database has", push) })
}

// pushAll tells every cell of a window that the counter keeps.
func (h *shared) pushAll(ctx context.Context) error {
	var cells []*cell
	h.session.cells.each(func(c *cell) { cells = append(cells, c) })
	for some := range slices.Chunk(cells, pushBatch) {
		if err := h.sendCells(ctx, some); err != nil {
			return err
		}
	}
	if !h.store.IsSpread() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	_, err := h.store.Tell(ctx, h.marks([]tally.Total{{Writer: h.session.cells.writer, Numbers: "1"}}), false)
	return err
}

// pushStored tells the database's rows of the open windows, including rows of gateways
// that do not run any more.
func (h *shared) pushStored(ctx context.Context) error {
	rows, err := h.storedRows(ctx)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(rows, pushBatch) {
		if err := h.send(ctx, some); err != nil {
			return err
		}
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
	return store.Read(ctx, Filter{Ranges: RangesOf(OpenWindows(h.session.now(), Windows())...)})
}

// OpenWindows returns the windows of some kinds that are open at a moment.
func OpenWindows(now time.Time, windows []Window) []CalendarWindow {
	open := make([]CalendarWindow, 0, len(windows))
	for _, w := range windows {
		open = append(open, CalendarWindow{w, w.Start(now)})
	}
	return open
}

// sendCells tells the totals of cells, except for windows that the counter does not keep
// any more.
func (h *shared) sendCells(ctx context.Context, cells []*cell) error {
	now := h.session.now().Unix()
	rows := make([]Row, 0, len(cells))
	for _, c := range cells {
		if h.keeps(c, now) {
			rows = append(rows, c.row())
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return h.send(ctx, rows)
}

// keeps reports whether the counter keeps the window of a cell.
func (h *shared) keeps(c *cell, now int64) bool {
	return c.window.endOf(c.start)+int64(h.keepAfterEnd/time.Second) > now
}

// send tells rows with the timeout for calls that no request waits for.
func (h *shared) send(ctx context.Context, rows []Row) error {
	ctx, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	h.pushes.Add(1)
	_, err := h.store.Tell(ctx, sheetsOf(h.prefix(), rows, h.keepAfterEnd), false)
	return err
}

// confirm asks the counter whether it is there for a request, and waits no longer than the
// timeout.
func (h *shared) confirm() error {
	ctx, cancel := context.WithTimeout(h.ending, h.timeout)
	defer cancel()
	return h.ask(ctx)
}

// ask makes a round trip to the counter, which tells nothing.
func (h *shared) ask(ctx context.Context) error {
	_, err := h.store.Tell(ctx, []tally.Sheet{{Name: placeName(h.prefix(), 0, "marks")}}, false)
	return err
}

// note counts a request that the counter was not there for.
func (h *shared) note() {
	if h.isAway() {
		h.session.ledger.stats.degradations.Add(1)
	}
}

// reason returns why the counter is away; it says nothing if the counter is not.
func (h *shared) reason() say.Sentence {
	err := h.store.Err()
	switch {
	case err == nil:
		return say.Sentence{}
	case errors.Is(err, context.DeadlineExceeded):
		return say.New("quota.redis_timeout")
	}
	return say.New("quota.redis", "why", err.Error())
}

// enqueue queues cells to be told.
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

// drain tells the cells that were queued when it was called. Cells that cannot be told
// stay in the queue for the next time.
func (h *shared) drain(ctx context.Context) {
	h.mu.Lock()
	queue := h.queue
	h.queue = nil
	h.mu.Unlock()
	for _, c := range queue {
		c.queued.Store(false) // a cell that changes after this is queued again
	}
	for some := range slices.Chunk(queue, pushBatch) {
		if h.sendCells(ctx, some) != nil {
			h.enqueue(queue)
			return
		}
		queue = queue[len(some):]
	}
}

// read returns the counter's rows of windows.
func (h *shared) read(ctx context.Context, windows []CalendarWindow) ([]Row, error) {
	ctx, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	told, err := h.store.Tell(ctx, places(h.prefix(), windows), false)
	if err != nil {
		return nil, err
	}
	return readPlaces(windows, told), nil
}

// idle reports whether nothing is queued, or the counter is away.
func (h *shared) idle() bool {
	if h == nil || h.isAway() {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.queue) == 0
}

// needs reports whether a cell must be kept because the counter lacks its totals, and would
// not get them from the database.
func (h *shared) needs(c *cell, now int64) bool {
	return h != nil && h.keeps(c, now) && c.queued.Load()
}

// close tells the queued cells. Whoever waits for the counter goes on.
func (h *shared) close(ctx context.Context) {
	h.end()
	ctx, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	if !h.isAway() {
		h.drain(ctx)
	}
}
