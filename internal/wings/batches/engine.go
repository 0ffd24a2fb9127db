package batches

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// Call is one line of a batch on its way to a model.
type Call struct {
	Owner files.Owner
	// User is the user that the batch was made for, from a header that the key trusts.
	User     string
	Endpoint string
	Body     []byte
	// Batch and CustomID name the line of the call.
	Batch, CustomID string
}

// Answer is the outcome of a call.
type Answer struct {
	Status    int
	RequestID string
	Body      []byte
	// Code is the code of the gateway's error, empty for an answer, and Said is its message.
	Code string
	Said say.Sentence
	// RetryAfter is the time until a retry may succeed, 0 where nothing is known, and
	// NoRetry says that the same request has the same result.
	RetryAfter time.Duration
	NoRetry    bool
	// IsUnknown says that there is no such model, IsUnreached that no backend got the request,
	// and IsUnread that the answer of a backend could not be used.
	IsUnknown, IsUnreached, IsUnread bool
	// Prompt and Completion are the tokens that it used, and Cost is their price.
	Prompt, Completion, Cost int64
}

// Presence says whether a model is served.
type Presence uint8

const (
	// Absent is a model that nobody serves.
	Absent Presence = iota
	// Unclear is one that nobody serves, while a backend that may have it does not tell its
	// models.
	Unclear
	// Served is one that is served, whether or not its backends are well.
	Served
)

// Runner runs lines as requests of their owners.
type Runner interface {
	// Presence returns whether a model is served now.
	Presence(endpoint, model string) Presence
	// Room returns how many lines to an endpoint and a model may run at a time now, with
	// the running ones.
	Room(endpoint, model string) int
	// RoomInAll returns how many lines to all endpoints and models may run at a time now, with
	// the running ones.
	RoomInAll() int
	// AwaitRoom waits until there is room for more than run, or the context ends.
	AwaitRoom(ctx context.Context, endpoint, model string, running func() int)
	// Stands reports whether the key of an owner is still good.
	Stands(owner files.Owner) bool
	// Run runs a line. It returns when the answer is complete, or the context has ended.
	Run(ctx context.Context, call Call) Answer
}

// Options are the parts that an Engine works with.
type Options struct {
	Documents documents.Store
	// Leases is the store of the leases of chunks. It need not outlive a process that is
	// alone.
	Leases documents.Store
	Files  *files.Store
	// Folder is the folder of the journals.
	Folder string
	// Keys encrypt journals; nil encrypts nothing.
	Keys     *seal.Keys
	Settings func() Settings
	// LongestLine returns how many bytes a request may have.
	LongestLine func() int64
	// Retention returns how long batches are kept after their end.
	Retention func() time.Duration
	Runner    Runner
	// Ahead returns how many bytes of lines wait in memory together; nil means 64 MiB.
	Ahead func() int64
	// IsRemoved reports whether the key of an owner was removed, and nobody has it any
	// more; nil means that none ever is.
	IsRemoved func(files.Owner) bool
	Log       *slog.Logger
	// IsShared says that other gateways run lines of the same batches.
	IsShared bool
	// Lease is how long a gateway that says nothing keeps its lines; 0 means 30 seconds.
	Lease time.Duration
}

const (
	defaultLease = 30 * time.Second
	// pollEvery is the time between two looks at the batches.
	pollEvery = time.Second
	// expireEvery is the time between two searches for batches and files that are too old,
	// or too many.
	expireEvery = 10 * time.Minute

	// kind is the kind of the documents that describe batches.
	kind = "batch"
	// LeaseKind is the kind of their leases.
	LeaseKind = "lease"
)

// Engine runs batches.
type Engine struct {
	o      Options
	holder string // names this process in leases
	wake   chan struct{}
	base   context.Context
	quit   context.CancelFunc
	work   sync.WaitGroup // of jobs and lines

	polling  sync.Mutex
	creating chan struct{} // holds a token while no batch is being made
	ahead    *ahead
	// before is called before each step of writing an answer. Tests use it to inject faults.
	before func(durable.Step) error

	mu      sync.Mutex
	jobs    map[string]*job
	picks   uint64           // counts the lines that were picked to run
	paces   map[target]*pace // of models that are served
	running map[target]int
	// unsynced counts the lines with an answer that has come and is not kept yet. It has
	// the same bound as the running lines, because a crash would lose them.
	unsynced map[target]int
	total    int // of both
	// awaited holds the targets with a goroutine waiting for a free slot.
	awaited map[target]bool
	halted  bool
	// ended counts the lines that this process has run, by their outcome.
	ended Counts
}

// target is the model and endpoint that lines compete for.
type target struct{ endpoint, model string }

// New returns an engine, which does nothing until Run.
func New(o Options) *Engine {
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	e := &Engine{o: o, holder: documents.RandomID(""), wake: make(chan struct{}, 1), creating: make(chan struct{}, 1),
		jobs: map[string]*job{}, paces: map[target]*pace{}, running: map[target]int{}, unsynced: map[target]int{},
		awaited: map[target]bool{}}
	e.base, e.quit = context.WithCancel(context.Background())
	e.creating <- struct{}{}
	e.ahead = newAhead(o.Ahead)
	o.Files.GiveWay(kind, e.giveWay) // old results give way to new files and batches
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
		wait := pollEvery
		logs.Contain(e.o.Log, "a round of batches", func() {
			if now.Sub(expired) >= expireEvery {
				expired = now
				e.tell(e.expire(ctx), "removing what is too old")
				e.tell(e.removeOrphans(ctx), "removing what belongs to nobody")
				e.tell(e.trim(ctx), "removing what is too much")
			}
			if now.Sub(polled) >= pollEvery {
				polled = now
				e.tell(e.poll(ctx), "looking for batches")
			}
			wait = e.dispatch(ctx)
		})
		timer.Reset(min(wait, max(time.Until(polled.Add(pollEvery)), time.Millisecond)))
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

// haltGrace is how long lines may run on after Halt. Lines that wait for a slot would wait
// for longer than anybody wants to wait for the end of the program; they run again later.
const haltGrace = 10 * time.Second

// Halt lets no line begin any more. Running lines may go on for a while.
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

// poll looks at all batches that have not ended.
func (e *Engine) poll(ctx context.Context) error {
	// One after the other, because the job of a batch that is new would be ended by one who
	// looked before.
	e.polling.Lock()
	defer e.polling.Unlock()
	known := map[string]bool{}
	err := e.each(ctx, documents.Query{OnlyOpen: true, IsAscending: true}, AnyScope, func(b Batch) (bool, error) {
		known[b.ID] = true
		e.see(b)
		return true, nil
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetPaces(time.Now())
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
	e.work.Go(func() {
		defer e.drop(j)
		logs.Contain(e.o.Log, "running a batch", j.run)
	})
}

func (e *Engine) drop(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.jobs, j.id)
}
