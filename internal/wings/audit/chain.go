package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Chain writes the records of one gateway, and signs heads.
type Chain struct {
	options Options

	mu     sync.Mutex
	signer *signer
	// isOpen says that the end of the chain is known, and wasOpen that it was before.
	isOpen, wasOpen bool
	number          int // of the chain
	last            Record
	// began and bytes describe the file with the last record.
	began time.Time
	bytes int64
	// signed is the last head, and isDue says that there are records behind it.
	signed Head
	isDue  bool
	// waiting are records that could not be written yet, with the ids of their intents, and
	// lost is how many more there were.
	waiting []Intent
	lost    int
	folds   folds
	// failure is why the last write failed, nil if it did not.
	failure error
	// closed says that Close was called.
	closed   bool
	couriers []*courier
}

// Options are the parts that a Chain works with.
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
	// mostWaiting is how many records wait in memory while they cannot be written.
	mostWaiting = 10_000
	// headAfter is how long a record waits at most for the head that covers it.
	headAfter = 30 * time.Second
	// tick is the time between two looks at what is due, and expireEvery between two looks for
	// records that are too old.
	tick        = 5 * time.Second
	expireEvery = time.Hour
)

// Open returns the chain of a gateway, with its signing key. Records are read and written when
// they are needed: a database may be away.
func Open(options Options, now time.Time) (*Chain, error) {
	if err := options.Dir.Make(); err != nil {
		return nil, err
	}
	c := &Chain{options: options, folds: folds{}}
	for _, target := range options.Targets {
		c.couriers = append(c.couriers, &courier{Chain: c, target: target})
	}
	signer, err := openSigner(options.Dir, options.Gateway, options.Master, now)
	if errors.Is(err, errUnreadableKey) {
		why := err.Error()
		options.Log.Error("another key signs the heads of the audit from now on; those signed before are verified "+
			"with the old public key", "error", err)
		signer, err = makeSigner(options.Dir, options.Gateway, options.Master, now)
		if err == nil {
			c.wait(Intent{Record: c.own(NewKey, signer.public.ID+": "+why, now)})
		}
	}
	c.signer = signer
	return c, err
}

// own returns a record of something that the gateway did by itself.
func (c *Chain) own(action, object string, now time.Time) Record {
	return Record{Time: Stamp(now), Who: Self, Action: action, Object: object, Result: "done"}
}

// ready reads the end of the chain, once.
func (c *Chain) ready(ctx context.Context) error {
	switch {
	case c.closed:
		return errors.New("the audit is closed")
	case c.isOpen:
		return nil
	}
	s, err := c.options.Store.Load(ctx, c.options.Gateway)
	if err != nil {
		return err
	}
	if err := c.publish(ctx); err != nil {
		return err
	}
	c.number, c.last, c.began, c.bytes, c.signed = s.Chain, s.Last, s.Began, s.Bytes, s.Head
	first := s.beginning()
	if s.Chain == 0 || first != "" {
		c.number, c.last, c.began, c.bytes = s.Chain+1, Record{}, time.Time{}, 0
	}
	if err := c.recover(ctx, &s, first); err != nil {
		return err
	}
	c.isDue = c.last.Seq > 0 && c.signed.Hash != c.last.Hash
	c.isOpen = true
	if first != "" {
		c.options.Log.Warn("the audit begins a new chain", "reason", first)
		if err := c.flush(ctx); err != nil {
			c.isOpen = false
			return err
		}
		return c.sign(ctx)
	}
	return nil
}

// publish keeps the public key of the signer with the others.
func (c *Chain) publish(ctx context.Context) error {
	keys, err := c.options.Store.Keys(ctx)
	if err != nil {
		return err
	}
	now, own := Stamp(time.Now()), &c.signer.public
	isThere := false
	for _, key := range keys {
		switch {
		case key.Gateway != own.Gateway || key.Until != "":
		case key.ID == own.ID:
			isThere = true
		default:
			key.Until = now
			if err := c.options.Store.SetKey(ctx, key); err != nil {
				return err
			}
		}
	}
	if isThere {
		return nil
	}
	return c.options.Store.SetKey(ctx, *own)
}

// beginning says why a new chain begins; empty means that the chain goes on.
func (s *State) beginning() string {
	before := ""
	if s.Chain > 0 {
		before = fmt.Sprintf("; chain %d before it ended at seq %d, hash %s", s.Chain, s.Last.Seq, s.Last.Hash)
	}
	isHead := s.Head.Time >= s.First && s.Head.Seq > 0
	switch {
	case s.Restored.Time != "" && s.Restored.Time > s.Last.Time:
		return "a backup of " + s.Restored.Made + " was restored at " + s.Restored.Time + before
	case s.Chain == 0:
		return ""
	case s.Fault != "":
		return "the chain before cannot be continued: " + s.Fault + before
	case isHead && s.Head.Seq > s.Last.Seq:
		return fmt.Sprintf("records up to seq %d were signed and are missing", s.Head.Seq) + before
	case isHead && s.Head.Seq == s.Last.Seq && s.Head.Hash != s.Last.Hash:
		return "its last record is not the one that was signed" + before
	}
	return ""
}

// key tells the records of two operations apart.
func key(r *Record) string {
	return strings.Join([]string{r.Time, r.Who, r.Address, r.Action, ""}, "\n")
}

// recover lets the records wait that a crash, or the loss of a connection, has kept from the
// chain. Some of them may be in the chain although nobody was told.
func (c *Chain) recover(ctx context.Context, s *State, first string) error {
	var found []Intent
	if first != "" {
		found = append(found, Intent{Record: c.own(Begin, first, time.Now())})
	}
	if !c.wasOpen { // later, intents are those of operations that are under way
		for _, intent := range s.Intents {
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
		records, _, err := c.options.Store.Search(ctx, Query{From: from, Limit: enough})
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

// Begin notes an operation before it is done, and returns the id for End. After an error it
// could not be recorded.
func (c *Chain) Begin(ctx context.Context, r Record) (id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.clean()
	intent := Intent{ID: rand.Text(), Record: r}
	if err = c.ready(ctx); err == nil {
		if err = c.flush(ctx); err == nil {
			err = c.options.Store.Intend(ctx, c.options.Gateway, intent)
		}
	}
	c.note(err)
	return intent.ID, err
}

// End records an operation with its result. If that fails, the record is written as soon as
// possible. The id is empty for an operation that Begin could not note.
func (c *Chain) End(ctx context.Context, id string, r Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.clean()
	c.wait(Intent{ID: id, Record: r})
	err := c.ready(ctx)
	if err == nil {
		err = c.flush(ctx)
	}
	c.note(err)
	if err != nil {
		c.options.Log.Error("an operation cannot be recorded in the audit now; it is recorded as soon as possible",
			"who", r.Who, "action", r.Action, "object", r.Object, "result", r.Result, "error", err)
	}
}

// Drop forgets an operation that changed nothing.
func (c *Chain) Drop(ctx context.Context, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready(ctx) == nil {
		c.note(c.options.Store.Append(ctx, c.number, false, nil, []string{id}))
	}
}

// Refuse counts an operation that was refused before it began. Of those that are equal within a
// minute, the first that has a name is recorded at once; the others are one record.
func (c *Chain) Refuse(ctx context.Context, r Record) {
	r.clean()
	c.mu.Lock()
	isFirst := c.folds.add(&r)
	c.mu.Unlock()
	if isFirst {
		c.End(ctx, "", r)
	}
}

// Fold ends the counting of refused operations, so that those who read see them.
func (c *Chain) Fold(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fold(ctx, "")
}

// fold records refused operations of minutes before one, or of all minutes.
func (c *Chain) fold(ctx context.Context, before string) {
	for _, r := range c.folds.take(before) {
		c.wait(Intent{Record: r})
	}
	if c.ready(ctx) == nil {
		c.note(c.flush(ctx))
	}
}

// wait adds a record to those that are written next.
func (c *Chain) wait(intent Intent) {
	if len(c.waiting) >= mostWaiting {
		c.lost++
		return
	}
	c.waiting = append(c.waiting, intent)
}

// flush writes the waiting records.
func (c *Chain) flush(ctx context.Context) error {
	if len(c.waiting) == 0 {
		return nil
	}
	now := time.Now()
	if c.lost > 0 {
		c.waiting = append(c.waiting, Intent{Record: c.own("audit.lost",
			fmt.Sprintf("%d records did not fit into the memory while none could be written", c.lost), now)})
		c.lost = 0
	}
	begins := c.last.Seq == 0 || c.bytes >= longestFile || now.Sub(c.began) >= longestPeriod
	if begins && c.isDue {
		if err := c.sign(ctx); err != nil { // the end of the file
			return err
		}
	}
	last := c.last
	records := make([]Record, 0, len(c.waiting))
	var done []string
	for _, intent := range c.waiting {
		r := intent.Record
		r.Gateway = c.options.Gateway
		r.link(&last)
		last = r
		records = append(records, r)
		if intent.ID != "" {
			done = append(done, intent.ID)
		}
	}
	if err := c.options.Store.Append(ctx, c.number, begins, records, done); err != nil {
		c.isOpen = false // nobody knows whether a database has them
		return err
	}
	if begins {
		c.began, c.bytes = now, 0
	}
	for i := range records {
		c.bytes += int64(len(records[i].Line()))
	}
	c.waiting, c.last, c.isDue = nil, last, true
	return nil
}

// sign signs the last record, and writes the head to the log.
func (c *Chain) sign(ctx context.Context) error {
	if c.last.Seq == 0 {
		return nil
	}
	h := c.signer.sign(Head{Gateway: c.options.Gateway, Seq: c.last.Seq, Hash: c.last.Hash, Time: Stamp(time.Now())})
	if err := c.options.Store.AddHead(ctx, h); err != nil {
		return err
	}
	c.signed, c.isDue = h, false
	c.options.Log.Info("audit head", "gateway", h.Gateway, "seq", h.Seq, "hash", h.Hash, "time", h.Time,
		"signature", h.Signature)
	return nil
}

// Rotate makes a new key that signs from now on, and returns its public half. The key before
// signs one last head.
func (c *Chain) Rotate(ctx context.Context) (PublicKey, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.ready(ctx)
	if err == nil {
		err = c.sign(ctx)
	}
	if err != nil {
		return PublicKey{}, err
	}
	made, err := makeSigner(c.options.Dir, c.options.Gateway, c.options.Master, time.Now())
	if err != nil {
		return PublicKey{}, err
	}
	c.signer, c.isDue = made, true
	return made.public, c.publish(ctx)
}

// note remembers whether the last write succeeded.
func (c *Chain) note(err error) {
	if err != nil && c.failure == nil {
		c.options.Log.Error("the audit cannot be written; changes are refused until it can", "error", err)
	}
	if err == nil && c.failure != nil {
		c.options.Log.Info("the audit is written again")
	}
	c.failure = err
}

// Failure returns why the audit cannot be written, nil if it can.
func (c *Chain) Failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// Run signs heads, writes what waits, removes what is too old and sends copies, until the context
// ends.
func (c *Chain) Run(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for _, k := range c.couriers {
		sending.Go(func() { logs.Persist(ctx, c.options.Log, "sending copies of the audit", k.run) })
	}
	c.keep(ctx)
}

// keep does what is due, until the context ends.
func (c *Chain) keep(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var dueSince, expired time.Time
	for {
		now := time.Now()
		c.mu.Lock()
		err := c.ready(ctx)
		if err == nil {
			c.fold(ctx, Stamp(now)[:minuteLength])
			switch {
			case !c.isDue:
				dueSince = time.Time{}
			case dueSince.IsZero():
				dueSince = now
			case now.Sub(dueSince) >= headAfter:
				if err = c.sign(ctx); err == nil {
					dueSince = time.Time{}
				}
			}
		}
		if err == nil && now.Sub(expired) >= expireEvery {
			expired = now
			err = c.expire(ctx, now)
		}
		if ctx.Err() == nil && (err != nil || c.failure == nil) {
			c.note(err)
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// expire removes records that are too old. Each removal is recorded, and the end of the removed
// part is signed, before anything is removed.
func (c *Chain) expire(ctx context.Context, now time.Time) error {
	settings := &c.options.Settings
	spans, err := c.options.Store.Old(ctx, now.Add(-settings.Keep.Std()), int64(settings.MaxBytes))
	if err != nil || len(spans) == 0 {
		return err
	}
	for _, s := range spans {
		object := fmt.Sprintf("gateway %s, chain %d, seq 1 to %d, hash %s", s.Gateway, s.Chain, s.Last, s.Hash)
		c.wait(Intent{Record: c.own(Expire, object, now)})
		end := c.signer.sign(Head{Gateway: s.Gateway, Seq: s.Last, Hash: s.Hash, Time: s.Time})
		if s.Gateway == c.options.Gateway {
			if err := c.options.Store.AddHead(ctx, end); err != nil {
				return err
			}
		}
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	if err := c.sign(ctx); err != nil {
		return err
	}
	for _, s := range spans {
		if err := c.options.Store.Remove(ctx, s); err != nil {
			return err
		}
		c.options.Log.Info("old records of the audit were removed", "chain", s.Chain, "last", s.Last, "hash", s.Hash)
	}
	return nil
}

// Close writes what waits, signs the last record, sends the last copies and closes the store.
func (c *Chain) Close() {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !c.finish(ctx) {
		return
	}
	for _, k := range c.couriers {
		k.send(ctx)
		k.target.Close()
	}
	c.options.Store.Close()
}

// finish writes what waits and signs the last record. It reports false where that was done before.
func (c *Chain) finish(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.isOpen || len(c.waiting)+len(c.folds) > 0 {
		c.fold(ctx, "")
		if c.isOpen && c.isDue {
			if err := c.sign(ctx); err != nil {
				c.options.Log.Error("the last head of the audit cannot be kept", "error", err)
			}
		}
	}
	c.closed = true
	return true
}
