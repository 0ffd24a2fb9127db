package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Writer writes the records of one gateway, and signs heads.
type Writer struct {
	options Options

	mu     sync.Mutex
	signer *signer
	chains [2]*chain         // the second one is the one of IsLow
	marks  map[string]string // by chain, as the file has them
	folds  folds
	// failure is why the last write failed, nil if it did not.
	failure error
	// closed reports whether Close was called, and isFull whether records may have to be removed.
	closed, isFull bool
	couriers       []*courier
}

// chain is one chain of the gateway.
type chain struct {
	name string // the member gateway of its records
	// isOpen reports whether the end of the chain is known, and wasOpen whether it was before.
	isOpen, wasOpen bool
	number          int
	last            Record
	before          position // the end of the chain before, if this one has no record yet
	// began and bytes describe the file with the last record.
	began time.Time
	bytes int64
	// signed is the last head, and isDue is true if there are records behind it, since dueSince.
	signed   Head
	isDue    bool
	dueSince time.Time
	// waiting are records that could not be written yet, with the ids of their intents, and
	// lost is how many more there were.
	waiting []Intent
	lost    int
}

// at returns the position of the last record.
func (c *chain) at() position {
	if c.last.Seq == 0 {
		return position{}
	}
	return position{c.number, c.last.Seq, c.last.Hash}
}

// Options are the parts that a Writer works with.
type Options struct {
	Store    Store
	Settings Settings
	Gateway  string       // its id
	Dir      *durable.Dir // of the signing key
	Master   *seal.Keys   // nil where there is no master key
	Targets  []Target     // get copies
	Log      *slog.Logger
}

const (
	// longestFile and longestPeriod bound a file with records, because records leave by files.
	longestFile   = 4 << 20
	longestPeriod = 24 * time.Hour
	// mostAtOnce is how many records are written at once.
	mostAtOnce = 100
	// mostWaiting is how many records wait in memory while they cannot be written.
	mostWaiting = 10_000
	// headAfter is how long a record waits at most for the head that covers it.
	headAfter = 30 * time.Second
	// tick is the time between two looks at what is due, and expireEvery between two looks for
	// records that are too old.
	tick        = 5 * time.Second
	expireEvery = time.Hour
)

// Open returns the writer of a gateway, with its signing key. Records are read and written when
// they are needed: a database may be unavailable.
func Open(options Options, now time.Time) (*Writer, error) {
	if err := options.Dir.Make(); err != nil {
		return nil, err
	}
	w := &Writer{options: options, folds: folds{},
		chains: [2]*chain{{name: options.Gateway}, {name: options.Gateway + low}}}
	for _, target := range options.Targets {
		w.couriers = append(w.couriers, &courier{Writer: w, target: target})
	}
	err := w.readMarks()
	if err == nil {
		w.signer, err = openSigner(options.Dir, options.Gateway, options.Master)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = w.useNewKey(now)
	case errors.Is(err, errUnreadableKey):
		why := err.Error()
		options.Log.Error("another key signs the heads of the audit from now on; those signed before are verified "+
			"with the old public key", "error", err)
		if err = w.useNewKey(now); err == nil {
			w.chains[0].wait(Intent{Record: w.own(NewKey, w.signer.public.ID+": "+why, now)})
		}
	}
	return w, err
}

// useNewKey makes the first key, or one in place of a key that cannot be read. The marks are there
// before the key: if there is a key, missing marks were removed.
func (w *Writer) useNewKey(now time.Time) error {
	w.signer = makeSigner(w.options.Gateway, nil, now)
	w.signer.isNew = true
	for _, c := range w.chains {
		if w.marks[c.name] == "" {
			if err := w.keepMark(c.name, w.signer.mark(mark{Name: c.name})); err != nil {
				return err
			}
		}
	}
	return w.signer.save(w.options.Dir, w.options.Master)
}

// own returns a record of something that the gateway did by itself.
func (w *Writer) own(action, object string, now time.Time) Record {
	return Record{Time: Stamp(now), Who: Self, Action: action, Object: object, Result: done}
}

// ready reads the ends of the chains, once.
func (w *Writer) ready(ctx context.Context) error {
	if w.closed {
		return errors.New("the audit is closed")
	}
	for _, c := range w.chains {
		if c.isOpen {
			continue
		}
		if err := w.open(ctx, c); err != nil {
			c.isOpen = false
			return err
		}
	}
	return nil
}

// open reads the end of a chain, or begins a new one.
func (w *Writer) open(ctx context.Context, c *chain) error {
	s, err := w.options.Store.Load(ctx, c.name)
	if err == nil {
		s.Keys, err = w.publish(ctx)
	}
	if err != nil {
		return err
	}
	first, before, err := w.beginning(ctx, c, &s)
	if err != nil {
		return err
	}
	c.number, c.last, c.began, c.bytes, c.signed = s.Chain, s.Last, s.Began, s.Bytes, s.Head
	if m, isOwn := w.signer.readMark(c.name, w.marks[c.name]); s.Chain == 0 || first != "" {
		c.number, c.last, c.began, c.bytes = s.Chain+1, Record{}, time.Time{}, 0
		if c.before = before; isOwn { // perhaps the whole chain is missing
			c.number = max(c.number, m.Last.Chain+1)
		}
	}
	if err := w.recover(ctx, c, &s, first); err != nil {
		return err
	}
	c.isDue = c.last.Seq > 0 && c.signed.Hash != c.last.Hash
	c.isOpen = true
	if first == "" {
		return nil
	}
	w.options.Log.Error("the audit begins a new chain", "chain", c.name, "reason", first)
	if err := w.flushChain(ctx, c); err != nil {
		return err
	}
	return w.sign(ctx, c)
}

// publish keeps the public key of the signer with the others, which it returns.
func (w *Writer) publish(ctx context.Context) ([]PublicKey, error) {
	keys, err := w.options.Store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	now, own := Stamp(time.Now()), &w.signer.public
	isThere := false
	for _, key := range keys {
		switch {
		case key.Gateway != own.Gateway || key.Until != "":
		case key.ID == own.ID && key.PublicKey == own.PublicKey:
			isThere = true
		default:
			key.Until = now
			if err := w.options.Store.SetKey(ctx, key); err != nil {
				return nil, err
			}
		}
	}
	if isThere {
		return keys, nil
	}
	return keys, w.options.Store.SetKey(ctx, *own)
}

// key tells the records of two operations apart.
func key(r *Record) string {
	return strings.Join([]string{r.Time, r.Who, r.Address, r.Action, ""}, "\n")
}

// recover lets the records wait that a crash, or the loss of a connection, has kept from the
// chain. Some of them may be in the chain although the caller got an error.
func (w *Writer) recover(ctx context.Context, c *chain, s *State, first string) error {
	var found []Intent
	if first != "" {
		now := time.Now()
		until := Stamp(now.Add(-w.options.Settings.Keep.Std()))
		found = append(found, Intent{Record: w.explained(Begin, first, byAge, until, now)})
	}
	if !c.wasOpen { // later, intents are those of operations that are under way
		for _, intent := range s.Intents {
			if nonce, _, _ := strings.Cut(intent.ID, "."); intent.ID != w.signer.idOf(nonce, &intent.Record) {
				w.options.Log.Error("the audit has an operation in progress that this gateway did not begin, "+
					"and does not record it", "who", intent.Record.Who, "action",
					intent.Record.Action, "object", intent.Record.Object)
				continue
			}
			intent.Record.Result = "unknown: the gateway stopped before the end"
			found = append(found, intent)
		}
	}
	unknown := len(found)
	found = append(found, c.waiting...)
	from := Stamp(time.Now())
	for _, intent := range found {
		from = min(from, intent.Record.Time)
	}
	recorded := map[string]bool{}
	if len(found) > 0 && s.Chain > 0 {
		const enough = 2 * mostWaiting
		records, _, err := w.options.Store.Search(ctx, Query{From: from, Limit: enough})
		if err != nil {
			return err
		}
		for i := range records {
			r := &records[i]
			recorded[key(r)], recorded[key(r)+r.Result] = true, true
		}
	}
	c.waiting = nil
	for i, intent := range found {
		name := key(&intent.Record)
		if i >= unknown {
			name += intent.Record.Result
		}
		if !recorded[name] {
			c.waiting = append(c.waiting, intent)
		}
	}
	c.wasOpen = true
	return nil
}

// TooMany is the error of a change by a caller who has made as many as are recorded within a
// minute. It may be made after Wait.
type TooMany struct{ Wait time.Duration }

func (e *TooMany) Error() string { return "the caller made too many changes within a minute" }

// of returns the chain of an operation, and named the one of the same kind as a chain.
func (w *Writer) of(a *Act) *chain {
	if a.isLow() {
		return w.chains[1]
	}
	return w.chains[0]
}

func (w *Writer) named(chain string) *chain {
	if IsLow(chain) {
		return w.chains[1]
	}
	return w.chains[0]
}

// Begin notes an operation before it is done, and returns the id for End. After an error it
// could not be recorded.
func (w *Writer) Begin(ctx context.Context, act Act) (id string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	act.clean()
	now, isChange := time.Now(), !act.SignsIn && !act.Folds
	if wait := w.folds.wait(&act, now); wait > 0 && isChange {
		return "", &TooMany{wait}
	}
	intent := Intent{Record: act.Record}
	intent.Record.Gateway = w.of(&act).name
	intent.ID = w.signer.idOf(rand.Text(), &intent.Record)
	if err = w.ready(ctx); err == nil {
		if err = w.flush(ctx); err == nil {
			err = w.options.Store.Intend(ctx, intent)
		}
	}
	if err == nil && isChange {
		w.folds.change(&act, now)
	}
	w.note(err)
	return intent.ID, err
}

// End records an operation with its result. If that fails, the record is written as soon as
// possible. The id is empty for an operation that Begin did not note.
func (w *Writer) End(ctx context.Context, id string, act Act) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wasChange := id != "" && !act.SignsIn && !act.Folds
	act.clean()
	c := w.of(&act)
	intent := Intent{ID: id, Record: act.Record}
	intent.Record.Gateway = c.name
	if act.isRefused() || act.SignsIn || act.Folds {
		if wasChange {
			w.folds.undo(&act)
		}
		isFirst, before := w.folds.add(&act, intent, time.Now())
		if !isFirst {
			w.forget(ctx, before)
			return
		}
		intent.Record.Address, intent.Record.Object = act.Address, act.Object
	}
	c.wait(intent)
	err := w.ready(ctx)
	if err == nil {
		err = w.flush(ctx)
	}
	w.note(err)
	if err != nil {
		w.options.Log.Error("an operation cannot be recorded in the audit now; it is recorded as soon as possible",
			"who", act.Who, "action", act.Action, "object", act.Object, "result", act.Result, "error", err)
	}
}

// Drop forgets an operation that changed nothing.
func (w *Writer) Drop(ctx context.Context, id string, act Act) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id != "" && !act.SignsIn && !act.Folds {
		w.folds.undo(&act)
	}
	w.forget(ctx, id)
}

// forget removes an intent.
func (w *Writer) forget(ctx context.Context, id string) {
	if id != "" && w.ready(ctx) == nil {
		w.note(w.options.Store.Append(ctx, Batch{Done: []string{id}}))
	}
}

// Fold writes the records of operations that are being counted, so that readers see them. Those
// beyond the records that a caller may have within a minute are left out unless all are wanted.
func (w *Writer) Fold(ctx context.Context, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fold(ctx, true, all)
}

// fold writes the records of operations whose minute is over, or of others as well.
func (w *Writer) fold(ctx context.Context, early, all bool) {
	for _, intent := range w.folds.take(time.Now(), early, all) {
		w.named(intent.Record.Gateway).wait(intent)
	}
	if w.ready(ctx) == nil {
		w.note(w.flush(ctx))
	}
}

// wait adds a record to those that are written next.
func (c *chain) wait(intent Intent) {
	if len(c.waiting) >= mostWaiting {
		c.lost++
		return
	}
	c.waiting = append(c.waiting, intent)
}

// flush writes the waiting records.
func (w *Writer) flush(ctx context.Context) error {
	for _, c := range w.chains {
		for len(c.waiting) > 0 {
			if err := w.flushChain(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// flushChain writes the first ones of the waiting records of a chain.
func (w *Writer) flushChain(ctx context.Context, c *chain) error {
	now := time.Now()
	if c.lost > 0 {
		c.waiting = append(c.waiting, Intent{Record: w.own("audit.lost",
			fmt.Sprintf("%d records did not fit into the memory while none could be written", c.lost), now)})
		c.lost = 0
	}
	if len(c.waiting) == 0 {
		return nil
	}
	begins := c.last.Seq == 0 || c.bytes >= longestFile || now.Sub(c.began) >= longestPeriod
	if begins && c.isDue {
		if err := w.sign(ctx, c); err != nil { // the end of the file
			return err
		}
	}
	last, m := c.last, mark{Name: c.name, Last: c.at()}
	if c.last.Seq == 0 {
		m.Last = c.before
	}
	b := Batch{Name: c.name, Chain: c.number, Begins: begins}
	size := int64(0)
	for _, intent := range c.waiting[:min(len(c.waiting), mostAtOnce)] {
		r := intent.Record
		r.Gateway = c.name
		r.link(&last, w.signer)
		last = r
		b.Records, m.Next = append(b.Records, r), append(m.Next, position{c.number, r.Seq, r.Hash})
		size += int64(len(r.Line()))
		if intent.ID != "" {
			b.Done = append(b.Done, intent.ID)
		}
	}
	var err error
	if w.options.Store.KeepsMarks() { // together with the records
		b.Mark = w.signer.mark(mark{Name: c.name, Last: m.Next[len(m.Next)-1]})
	} else {
		err = w.keepMark(c.name, w.signer.mark(m))
	}
	if err == nil {
		err = w.options.Store.Append(ctx, b)
	}
	if err != nil {
		c.isOpen = false // a database may have them
		return err
	}
	if begins {
		c.began, c.bytes, w.isFull = now, 0, true
	}
	c.bytes += size
	c.waiting, c.last, c.isDue = c.waiting[len(b.Records):], last, true
	return nil
}

// note remembers whether the last write succeeded.
func (w *Writer) note(err error) {
	if err != nil && w.failure == nil {
		w.options.Log.Error("the audit cannot be written; changes are refused until it can", "error", err)
	}
	if err == nil && w.failure != nil {
		w.options.Log.Info("the audit is written again")
	}
	w.failure = err
}

// Failure returns why the audit cannot be written, nil if it can.
func (w *Writer) Failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// Run signs heads, writes what waits, removes what is too old and sends copies, until the context
// ends.
func (w *Writer) Run(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for _, k := range w.couriers {
		sending.Go(func() { logs.Persist(ctx, w.options.Log, "sending copies of the audit", k.run) })
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var expired time.Time
	for {
		now := time.Now()
		isDue, err := w.keep(ctx, now)
		if err == nil && (isDue || now.Sub(expired) >= expireEvery) {
			expired = now
			err = w.expire(ctx, now)
		}
		w.mu.Lock()
		if ctx.Err() == nil && (err != nil || w.failure == nil) {
			w.note(err)
		}
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// keep writes and signs what is due, and reports whether records may have to be removed.
func (w *Writer) keep(ctx context.Context, now time.Time) (isFull bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ready(ctx); err != nil {
		return false, err
	}
	w.fold(ctx, false, false)
	for _, c := range w.chains {
		switch {
		case !c.isDue:
			c.dueSince = time.Time{}
		case c.dueSince.IsZero():
			c.dueSince = now
		case now.Sub(c.dueSince) >= headAfter && c.isOpen:
			if err := w.sign(ctx, c); err != nil {
				return false, err
			}
			c.dueSince = time.Time{}
		}
	}
	isFull, w.isFull = w.isFull, false
	return isFull, nil
}

// Close writes what waits, signs the last records, sends the last copies and closes the store.
func (w *Writer) Close() {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !w.finish(ctx) {
		return
	}
	for _, k := range w.couriers {
		k.send(ctx)
		k.target.Close()
	}
	w.options.Store.Close()
}

// finish writes what waits and signs the last records. It reports false if that was done before.
func (w *Writer) finish(ctx context.Context) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	isUsed := len(w.folds) > 0
	for _, c := range w.chains {
		isUsed = isUsed || c.isOpen || len(c.waiting) > 0
	}
	if isUsed {
		w.fold(ctx, true, true)
		if err := w.signAll(ctx, false); err != nil {
			w.options.Log.Error("the last heads of the audit cannot be kept", "error", err)
		}
	}
	w.closed = true
	return true
}
