package batches

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/documents"
	"github.com/patchbay-ai/patchbay/internal/files"
	"github.com/patchbay-ai/patchbay/internal/seal"
)

// Call is one line of a batch on its way to a model.
type Call struct {
	Owner    files.Owner
	Endpoint string
	Body     []byte
	// Batch and CustomID say what it is a line of.
	Batch, CustomID string
}

// Answer is what became of a call.
type Answer struct {
	Status    int
	RequestID string
	Body      []byte
	// Code is the code of the gateway's error, empty for an answer.
	Code string
	// RetryAfter is when it may be better, 0 where nothing is known, and NoRetry says that
	// the same request has the same result.
	RetryAfter time.Duration
	NoRetry    bool
	// Prompt and Completion are the tokens that it used, and Cost is what they cost.
	Prompt, Completion, Cost int64
}

// Runner runs lines as requests of their owners.
type Runner interface {
	// Room returns how many lines to an endpoint and a model may run at a time now, those
	// that run already included.
	Room(endpoint, model string) int
	// Stands reports whether the key of an owner is still good.
	Stands(owner files.Owner) bool
	// Run runs a line. It returns when the answer is complete, or the context has ended.
	Run(ctx context.Context, call Call) Answer
}

// Options are what an Engine works with.
type Options struct {
	Documents documents.Store
	// Leases is where chunks are leased. It need not outlive a process that is alone.
	Leases documents.Store
	Files  *files.Store
	// Folder is where the journals are.
	Folder string
	// Keys encrypt journals; nil encrypts nothing.
	Keys     *seal.Keys
	Settings func() Settings
	// LongestLine returns how many bytes a request may have.
	LongestLine func() int64
	// Retention returns how long batches are kept after their end.
	Retention func() time.Duration
	Runner    Runner
	Log       *slog.Logger
	// IsShared says that other gateways run lines of the same batches.
	IsShared bool
	// Lease is how long a gateway that says nothing keeps its lines; 0 means 30 seconds.
	Lease time.Duration
}

const (
	defaultLease = 30 * time.Second
	// pollEvery is how often the batches are looked at, and lookEvery how often it is
	// looked whether a line may run that could not before.
	pollEvery = time.Second
	lookEvery = 100 * time.Millisecond
	// expireEvery is how often it is looked which batches and files are too old.
	expireEvery = 10 * time.Minute

	batchKind = "batch"
	leaseKind = "lease"
)

// Engine runs batches.
type Engine struct {
	o      Options
	holder string // names this process in leases
	wake   chan struct{}
	base   context.Context
	quit   context.CancelFunc
	work   sync.WaitGroup // of jobs and lines

	polling sync.Mutex
	// before is called before the steps of a journal, see journal.before.
	before func(step string) error

	mu      sync.Mutex
	jobs    map[string]*job
	order   []*job // by whose turn it is
	running map[target]int
	// unsynced are the lines whose answers have come and are not kept yet. There are as
	// many of them at most as may run, because a crash would lose them.
	unsynced map[target]int
	total    int // of both
	halted   bool
	// ended is what became of the lines that this process has run.
	ended Counts
}

// target is what lines compete for.
type target struct{ endpoint, model string }

// New returns an engine, which does nothing until Run.
func New(o Options) *Engine {
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	e := &Engine{o: o, holder: files.NewID(""), wake: make(chan struct{}, 1), jobs: map[string]*job{}, running: map[target]int{}, unsynced: map[target]int{}}
	e.base, e.quit = context.WithCancel(context.Background())
	return e
}

// Run runs batches until the context ends. Lines in flight end with it.
func (e *Engine) Run(ctx context.Context) {
	defer e.end()
	var polled, expired time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		if now.Sub(expired) >= expireEvery {
			expired = now
			e.tell(e.expire(ctx), "removing what is too old")
		}
		if now.Sub(polled) >= pollEvery {
			polled = now
			e.tell(e.poll(ctx), "looking for batches")
		}
		timer.Reset(min(e.dispatch(ctx), max(time.Until(polled.Add(pollEvery)), time.Millisecond)))
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-timer.C:
		}
	}
}

// end ends everything that runs, and waits for it.
func (e *Engine) end() {
	e.Halt()
	e.quit()
	e.work.Wait()
}

func (e *Engine) tell(err error, doing string) {
	if err != nil && !errors.Is(err, context.Canceled) {
		e.o.Log.Error("batches: "+doing, "error", err)
	}
}

// haltGrace is how long lines may run on after Halt. Those that wait for a slot would wait
// for longer than anybody wants to wait for the end of the program; they run again later.
const haltGrace = 10 * time.Second

// Halt lets no line begin any more. Those that run may go on for a while.
func (e *Engine) Halt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.halted {
		e.halted = true
		time.AfterFunc(haltGrace, e.quit)
	}
}

func (e *Engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Create begins a batch. Its id, its state and its times are set here.
func (e *Engine) Create(ctx context.Context, b Batch, window time.Duration) (Batch, error) {
	settings := e.o.Settings()
	scope := b.Owner.Scope()
	open, err := e.o.Documents.List(ctx, documents.Query{Kind: batchKind, Scopes: []string{scope}, OnlyOpen: true, Limit: settings.MaxOpen})
	if err != nil {
		return Batch{}, err
	}
	if len(open) >= settings.MaxOpen {
		return Batch{}, ErrTooMany
	}
	prefix := "batch_"
	if b.Form == Anthropic {
		prefix = "msgbatch_"
	}
	b.ID, b.State = files.NewID(prefix), Validating
	b.Created = time.Now().UTC().Truncate(time.Millisecond)
	b.Expires = b.Created.Add(min(window, settings.Window.Std()))
	if err := e.put(ctx, &b); err != nil {
		return Batch{}, err
	}
	if err := e.poll(ctx); err != nil {
		return Batch{}, err
	}
	e.nudge()
	return b, nil
}

// put stores a batch in place of the version that it was read from.
func (e *Engine) put(ctx context.Context, b *Batch) error {
	data, err := json.Marshal(b, json.Deterministic(true))
	if err != nil {
		return err
	}
	version, err := e.o.Documents.Put(ctx, documents.Document{
		Kind: batchKind, ID: b.ID, Scope: b.Owner.Scope(), Created: b.Created, IsOpen: !b.State.IsEnd(), Data: data, Version: b.version,
	})
	if err == nil {
		b.version = version
	}
	return err
}

func (e *Engine) get(ctx context.Context, id string) (Batch, error) {
	doc, err := e.o.Documents.Get(ctx, batchKind, id)
	if errors.Is(err, documents.ErrNotFound) {
		return Batch{}, ErrNotFound
	}
	if err != nil {
		return Batch{}, err
	}
	return decode(doc)
}

func decode(doc documents.Document) (Batch, error) {
	var b Batch
	if err := json.Unmarshal(doc.Data, &b); err != nil {
		return Batch{}, fmt.Errorf("the batch %s: %w", doc.ID, err)
	}
	b.version = doc.Version
	return b, nil
}

// edit changes a batch as it is now. The function returns false to leave it as it is.
func (e *Engine) edit(ctx context.Context, id string, change func(*Batch) bool) (Batch, error) {
	for {
		b, err := e.get(ctx, id)
		if err != nil || !change(&b) {
			return b, err
		}
		if err := e.put(ctx, &b); !errors.Is(err, documents.ErrChanged) {
			return b, err
		}
	}
}

// AnyScope asks for batches of all owners.
const AnyScope = ""

// Get returns a batch that is seen in a scope, and how far it is.
func (e *Engine) Get(ctx context.Context, scope, id string) (Progress, error) {
	b, err := e.get(ctx, id)
	if err != nil {
		return Progress{}, err
	}
	if scope != AnyScope && b.Owner.Scope() != scope {
		return Progress{}, ErrNotFound
	}
	return e.progress(ctx, b)
}

// Listing says which batches are listed.
type Listing struct {
	// Scope is that of their owners, or AnyScope, and Form their form; empty for all.
	Scope string
	Form  Form
	// After is the id of the batch after which the list begins; empty for the first.
	After string
	// IsAscending lists the oldest first, not the newest.
	IsAscending bool
	Limit       int
}

// List returns batches, and whether there are more. An unknown after is ErrNotFound.
func (e *Engine) List(ctx context.Context, l Listing) (found []Progress, hasMore bool, err error) {
	query := documents.Query{Kind: batchKind, After: l.After, IsAscending: l.IsAscending}
	if l.Scope != AnyScope {
		query.Scopes = []string{l.Scope}
	}
	docs, err := e.o.Documents.List(ctx, query)
	if errors.Is(err, documents.ErrNotFound) {
		return nil, false, ErrNotFound
	}
	if err != nil {
		return nil, false, err
	}
	for _, doc := range docs {
		b, err := decode(doc)
		if err != nil {
			return nil, false, err
		}
		if l.Form != "" && b.Form != l.Form {
			continue
		}
		if len(found) == l.Limit {
			return found, true, nil
		}
		p, err := e.progress(ctx, b)
		if err != nil {
			return nil, false, err
		}
		found = append(found, p)
	}
	return found, false, nil
}

// progress adds to a batch how far it is.
func (e *Engine) progress(ctx context.Context, b Batch) (Progress, error) {
	p := Progress{Batch: b}
	if b.State.IsEnd() || b.Started.IsZero() {
		return p, nil
	}
	leases, err := e.o.Leases.List(ctx, documents.Query{Kind: leaseKind, Scopes: []string{b.ID}})
	if err != nil {
		return p, err
	}
	p.Counts = Counts{}
	for _, doc := range leases {
		var l leased
		if err := json.Unmarshal(doc.Data, &l); err != nil {
			return p, err
		}
		p.Counts = p.Counts.plus(l.Counts)
	}
	ended := p.Counts.Done + p.Counts.Failed
	if took := time.Since(b.Started); ended > 0 && took > 0 {
		p.Rate = float64(ended) / took.Minutes()
		p.End = time.Now().Add(time.Duration(float64(took) / float64(ended) * float64(b.Lines-ended)))
	}
	e.mu.Lock()
	j := e.jobs[b.ID]
	e.mu.Unlock()
	if j != nil {
		p.Problem = j.whyStill()
	}
	return p, nil
}

// Cancel makes a batch stop. Lines that run already end as they would. A batch that stops
// already is no error.
func (e *Engine) Cancel(ctx context.Context, scope, id string) (Progress, error) {
	b, err := e.get(ctx, id)
	if err == nil && scope != AnyScope && b.Owner.Scope() != scope {
		err = ErrNotFound
	}
	if err != nil {
		return Progress{}, err
	}
	b, err = e.stop(ctx, id, nil)
	if err != nil {
		return Progress{}, err
	}
	if b.State.IsEnd() {
		return Progress{Batch: b}, ErrEnded
	}
	return e.progress(ctx, b)
}

// stop makes a batch stop for a reason, nil where its owner wants it.
func (e *Engine) stop(ctx context.Context, id string, why *Fault) (Batch, error) {
	b, err := e.edit(ctx, id, func(b *Batch) bool {
		if b.State.IsEnd() || b.State == Cancelling || b.State == Finalizing {
			return false
		}
		b.State, b.Cancelling = Cancelling, time.Now().UTC()
		if why != nil {
			b.Faults = append(b.Faults, *why)
		}
		return true
	})
	if err == nil {
		e.see(b)
		e.nudge()
	}
	return b, err
}

// Delete removes a batch that has ended, with the files that belong to it alone.
func (e *Engine) Delete(ctx context.Context, scope, id string) error {
	b, err := e.get(ctx, id)
	if err != nil {
		return err
	}
	if b.Owner.Scope() != scope {
		return ErrNotFound
	}
	if !b.State.IsEnd() {
		return ErrNotEnded
	}
	return e.remove(ctx, b)
}

func (e *Engine) remove(ctx context.Context, b Batch) error {
	if b.IsOwnInput {
		for _, id := range []string{b.Input, b.Output} {
			if err := e.removePart(ctx, id); err != nil {
				return err
			}
		}
	}
	if err := e.clean(ctx, b.ID); err != nil {
		return err
	}
	return e.o.Documents.Delete(ctx, batchKind, b.ID)
}

func (e *Engine) removePart(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	part, err := e.o.Files.Part(ctx, id)
	if errors.Is(err, files.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.o.Files.Delete(ctx, part)
}

// clean removes what only a batch that runs needs.
func (e *Engine) clean(ctx context.Context, id string) error {
	if err := os.RemoveAll(e.folderOf(id)); err != nil {
		return err
	}
	leases, err := e.o.Leases.List(ctx, documents.Query{Kind: leaseKind, Scopes: []string{id}})
	for _, doc := range leases {
		err = errors.Join(err, e.o.Leases.Delete(ctx, leaseKind, doc.ID))
	}
	return err
}

func (e *Engine) folderOf(id string) string { return filepath.Join(e.o.Folder, id) }

// Stats are what this gateway does for batches.
type Stats struct {
	// Open counts the batches that have not ended, and Running the lines that run.
	Open, Running int
	// Ended is what became of the lines that this gateway has run.
	Ended Counts
	// Stalled is the longest time for which a batch that has lines to run has ended none.
	Stalled time.Duration
}

// Stats returns what the gateway does for batches now.
func (e *Engine) Stats(now time.Time) Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Stats{Open: len(e.jobs), Running: e.total, Ended: e.ended}
	for _, j := range e.jobs {
		s.Stalled = max(s.Stalled, j.still(now))
	}
	return s
}

// still returns for how long no line of the job has ended, although it has some to run.
func (j *job) still(now time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.window) == 0 && j.inFlight == 0 {
		return 0
	}
	return now.Sub(j.moved)
}

// Uses reports whether a batch that has not ended needs a file.
func (e *Engine) Uses(ctx context.Context, scope, file string) (bool, error) {
	docs, err := e.o.Documents.List(ctx, documents.Query{Kind: batchKind, Scopes: []string{scope}, OnlyOpen: true})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(docs, func(doc documents.Document) bool {
		b, err := decode(doc)
		return err == nil && b.Input == file
	}), nil
}

// expire removes the files and batches whose time is over.
func (e *Engine) expire(ctx context.Context) error {
	if err := e.o.Files.Expire(ctx); err != nil {
		return err
	}
	docs, err := e.o.Documents.List(ctx, documents.Query{Kind: batchKind})
	if err != nil {
		return err
	}
	for _, doc := range docs {
		b, err := decode(doc)
		if err == nil && b.State.IsEnd() && time.Since(b.Ended) > e.o.Retention() {
			err = e.remove(ctx, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// poll looks at all batches that have not ended.
func (e *Engine) poll(ctx context.Context) error {
	// One after the other, because the job of a batch that is new would be ended by one who
	// looked before.
	e.polling.Lock()
	defer e.polling.Unlock()
	docs, err := e.o.Documents.List(ctx, documents.Query{Kind: batchKind, OnlyOpen: true, IsAscending: true})
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, doc := range docs {
		b, err := decode(doc)
		if err != nil {
			return err
		}
		known[b.ID] = true
		e.see(b)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, j := range e.jobs {
		if !known[id] {
			j.cancel() // another gateway has ended it
		}
	}
	return nil
}

// see makes the job of a batch know its latest version, and begins the job if there is none.
func (e *Engine) see(b Batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[b.ID]
	if j != nil {
		j.see(b)
	}
	if j != nil || e.halted || b.State.IsEnd() {
		return
	}
	j = newJob(e, b)
	e.jobs[b.ID] = j
	e.order = append(e.order, j)
	e.work.Go(func() {
		j.run()
		e.drop(j)
	})
}

func (e *Engine) drop(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.jobs, j.id)
	e.order = slices.DeleteFunc(e.order, func(other *job) bool { return other == j })
}
