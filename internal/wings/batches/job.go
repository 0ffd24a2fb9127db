package batches

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/journal"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// A job reads lines ahead of the running ones: at most so many, and of so many bytes.
const (
	windowLines = 64
	windowBytes = 8 << 20
)

// job is a batch as this process runs it.
type job struct {
	engine *Engine
	id     string
	owner  files.Owner
	scope  string // of the owner
	user   string // see Call
	ctx    context.Context
	cancel context.CancelFunc
	log    *answers
	// endpoint is the endpoint of the lines.
	endpoint string

	mu    sync.Mutex
	batch Batch // the latest version that was seen
	// window are the lines that may run next, and windowed their bytes.
	window   []*pending
	windowed int
	// isCrowded says that no line is read because the owner's others take the memory.
	isCrowded bool
	// counts are the lines by their outcome, of those with an answer when the journals were read and
	// of those that have run here since.
	counts   Counts
	inFlight int
	stopping bool // no line runs any more
	// isRevoked says that the key of the owner is not good any more. The batch stops for
	// that before anything else happens to it.
	isRevoked bool
	// picked is the number of the line that was picked last, see Engine.picks, whose lock guards it.
	picked uint64
	// paused is until when lines of a model are refused.
	paused map[string]time.Time
	// problem is the reason why no line runs, resumes when that may be over, and moved when
	// a line ended last. stuck is when the job began to fail to go on, zero while it goes
	// on.
	problem               say.Sentence
	resumes, moved, stuck time.Time
	// served are the models of its lines that were served at some time, and unnoted says
	// that the batch does not know all of them.
	served  map[string]bool
	unnoted bool
	// written is the size of the answers in the journals, and held the room that was taken
	// for them. noRoom says why there is too little, empty where there is enough; no line runs
	// meanwhile. fullSince is since when that is because of a bound, zero where it is not.
	written, held int64
	noRoom        say.Sentence
	fullSince     time.Time
	changed       chan struct{} // is sent to when the above changes

	taking chan struct{} // holds a token while room is taken

	// done marks the lines that have an answer, and found holds the counts of each chunk.
	// Only the goroutine of the job uses them.
	done  []bool
	found []Counts
	// holding ends when the leases of chunks are to be given back, and leasing waits until they are.
	holding context.Context //nolint:containedctx // it lives as long as the lines run
	leasing sync.WaitGroup
	// cut are the files that were found cut off, as answersOf has them.
	cut map[string]int64
}

// pending is a line that is to run.
type pending struct {
	line
	chunk *chunk
	// attempts counts the failures that the line is to blame for, tries the waits of
	// its own, and missed the slots that others took.
	attempts, tries, missed int

	after           time.Time // before which it does not run
	began, failedAt time.Time // of the latest try, and of the latest that broke
}

func newJob(e *Engine, b Batch) *job {
	j := &job{
		engine: e, id: b.ID, owner: b.Owner, scope: b.Owner.Scope(), user: b.User, endpoint: b.Endpoint, batch: b,
		log:    newAnswers(e.folderOf(b.ID), b.ID, e.o.Keys, e.before),
		paused: map[string]time.Time{}, served: map[string]bool{}, moved: time.Now(), changed: make(chan struct{}, 1),
		taking: make(chan struct{}, 1),
	}
	j.ctx, j.cancel = context.WithCancel(e.base)
	j.see(b)
	return j
}

// see takes notice of a version of the batch.
func (j *job) see(b Batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b.version > j.batch.version {
		j.batch = b
	}
	for _, model := range b.Models {
		j.served[model] = true
	}
	if j.batch.State == Cancelling || j.batch.State == Finalizing || !time.Now().Before(j.batch.Expires) {
		j.stopping = true
		j.setWindow(nil, 0)
	}
	j.signal()
}

func (j *job) signal() {
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

func (j *job) latest() Batch {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.batch
}

// whyStill returns why no line runs, empty where nothing is wrong.
func (j *job) whyStill() say.Sentence {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.noRoom.Is() {
		return j.noRoom
	}
	switch isStill := !j.problem.Is() && j.inFlight == 0; {
	case isStill && len(j.window) > 0:
		return say.New("batch.no_slot")
	case isStill && j.isCrowded:
		return say.New("batch.crowded")
	}
	return j.problem
}

func (j *job) setProblem(said say.Sentence) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.problem = said
}

// run takes the batch to its end, unless the engine or another gateway ends first.
func (j *job) run() {
	defer j.sweep()
	for j.ctx.Err() == nil {
		err := j.advance()
		if j.latest().State.IsEnd() {
			return
		}
		wait := time.Duration(0)
		j.noteStuck(err)
		switch {
		case err == nil:
		case errors.Is(err, errTaken), errors.Is(err, documents.ErrChanged):
			wait = pollEvery
		case j.ctx.Err() == nil:
			j.setProblem(say.From(err))
			j.engine.o.Log.Error("a batch does not go on", "batch", j.id, "error", err)
			wait = 5 * pollEvery
		}
		j.pause(wait)
	}
}

// noteStuck notes since when the job does not go on, if it does not.
func (j *job) noteStuck(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case err == nil:
		j.stuck = time.Time{}
	case j.stuck.IsZero():
		j.stuck = time.Now()
	}
}

// sweep ends the job. The answers of lines in flight may come now; sweep removes their
// traces if another gateway has ended the batch meanwhile.
func (j *job) sweep() {
	j.cancel()
	j.mu.Lock()
	j.stopping = true
	for j.inFlight > 0 {
		j.mu.Unlock()
		<-j.changed
		j.mu.Lock()
	}
	j.setWindow(nil, 0)
	j.mu.Unlock()
	j.log.close()
	j.releaseRoom()
	if _, err := os.Stat(j.log.dir.Path(".")); err != nil {
		return
	}
	ctx := context.WithoutCancel(j.ctx)
	b, err := j.engine.get(ctx, j.id)
	if errors.Is(err, ErrNotFound) || err == nil && b.State.IsEnd() {
		err = j.engine.clean(ctx, j.id)
	}
	j.engine.tell(err, "removing what late answers left of "+j.id)
}

// pause waits for a time, or until the job ends.
func (j *job) pause(d time.Duration) {
	if d > 0 {
		_ = waiting.Pause(j.ctx, d)
	}
}

// advance takes the batch one step further.
func (j *job) advance() error {
	b, err := j.engine.get(j.ctx, j.id)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			j.cancel()
			return nil
		}
		return err
	}
	j.see(b)
	switch {
	case b.State.IsEnd(): // another one has ended it
		return nil
	case b.State == Validating && time.Now().Before(b.Expires):
		return j.check(b)
	case b.State == InProgress:
		isStopped, err := j.runLines(b)
		if err != nil || !isStopped {
			return err
		}
	}
	return j.finish()
}

// store changes the batch and takes notice of that.
func (j *job) store(change func(*Batch) bool) error {
	b, err := j.engine.edit(j.ctx, j.id, change)
	if err == nil {
		j.see(b)
	}
	return err
}

// check reads all lines once. Then the batch runs or has failed.
func (j *job) check(b Batch) error {
	return j.engine.withLease(j.ctx, j.id, checkName, func(ctx context.Context, _ int64) error {
		settings := j.engine.o.Settings()
		content, err := j.open(ctx, b)
		var found checked
		chunkLines := 0
		if err == nil {
			defer func() { _ = content.Close() }()
			leave, late := j.engine.ahead.enterHeavy(ctx)
			if late != nil {
				return late
			}
			defer leave()
			chunkLines = chunkLinesFor(content.Size())
			found, err = checkLines(content.From(0), b.Endpoint, settings.MaxLines, int(j.engine.o.LongestLine()),
				chunkLines)
		}
		if errors.Is(err, files.ErrNotFound) {
			found.faults, err = []Fault{NewFault("file_not_found", "input_file_id", say.New("batch.no_file"))}, nil
		}
		if err != nil {
			return err
		}
		return j.store(func(b *Batch) bool {
			if b.State != Validating {
				return false
			}
			now := time.Now().UTC()
			if len(found.faults) > 0 {
				b.State, b.Ended, b.Faults = Failed, now, found.faults
				return true
			}
			b.State, b.Started, b.Lines, b.Chunks, b.ChunkLines = InProgress, now, found.lines, found.chunks, chunkLines
			b.Models = j.engine.servedOf(b.Endpoint, found.models)
			return true
		})
	})
}

// open opens the lines of the batch.
func (j *job) open(ctx context.Context, b Batch) (*files.Content, error) {
	file, err := j.engine.o.Files.Input(ctx, j.scope, b.Input)
	if err != nil {
		return nil, err
	}
	return j.engine.o.Files.Open(file)
}

// runLines gives out lines to run until none is left, or the batch is to stop. When it returns, no
// line waits to run, and no chunk is leased.
func (j *job) runLines(b Batch) (isStopped bool, err error) {
	if err := j.readJournals(b); err != nil {
		return false, err
	}
	content, err := j.open(j.ctx, b)
	if err != nil {
		return false, err
	}
	defer func() { _ = content.Close() }()
	holding, giveUp := context.WithCancel(j.ctx)
	j.holding = holding
	defer func() {
		j.mu.Lock()
		j.setWindow(nil, 0)
		j.mu.Unlock()
		giveUp()
		j.leasing.Wait()
	}()
	j.leasing.Go(func() { logs.Persist(holding, j.engine.o.Log, "keeping up a batch", j.keepUp) })
	for {
		if j.shouldStop() {
			if err := j.stopFor(); err != nil {
				return false, err
			}
			return true, j.drain()
		}
		c, isDone, err := j.nextChunk(b)
		if err != nil {
			return false, err
		}
		if isDone {
			return false, j.store(func(b *Batch) bool {
				if b.State != InProgress {
					return false
				}
				b.State, b.Finalizing = Finalizing, time.Now().UTC()
				return true
			})
		}
		if c == nil {
			j.wait(pollEvery)
			continue
		}
		if err := j.feed(b, c, content); err != nil {
			return false, err
		}
	}
}

// keepUp takes the room that the answers lack, and notes the models that were served, until the
// context ends.
func (j *job) keepUp(ctx context.Context) {
	j.engine.renewing(ctx, func() {
		j.hold(0)
		j.engine.tell(j.storeServed(), "noting the models of "+j.id)
	})
}

// shouldStop reports whether no further line is to run.
func (j *job) shouldStop() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stopping || j.isRevoked || j.isFull() || j.ctx.Err() != nil || !time.Now().Before(j.batch.Expires)
}

// roomGrace is how long a batch without room for its answers waits until its owner has
// deleted something.
const roomGrace = 20 * time.Second

// isFull reports whether the answers have had no room for too long. The caller has the lock.
func (j *job) isFull() bool { return !j.fullSince.IsZero() && time.Since(j.fullSince) > roomGrace }

// stopFor makes the batch stop if the key of its owner is not good any more, or if its
// answers have no room. It stores that before the batch is drained, which would otherwise
// end as expired.
func (j *job) stopFor() error {
	j.mu.Lock()
	isRevoked, isFull, why := j.isRevoked, j.isFull() && !j.stopping, j.noRoom
	j.mu.Unlock()
	var fault Fault
	switch {
	case isRevoked:
		fault = NewFault("invalid_api_key", "", say.New("batch.stopped_key"))
	case isFull:
		fault = NewFault(schema.CodeStorageFull, "", say.New("batch.stopped_full", "why", why.Inner["why"]))
	default:
		return nil
	}
	_, err := j.engine.stop(j.ctx, j.id, &fault)
	return err
}

// wait waits until something changes, and no longer than given.
func (j *job) wait(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-j.changed:
	case <-timer.C:
	case <-j.ctx.Done():
	}
}

// drain waits until no line runs.
func (j *job) drain() error {
	for {
		j.mu.Lock()
		j.stopping = true
		j.setWindow(nil, 0)
		busy := j.inFlight > 0
		j.mu.Unlock()
		if !busy || j.ctx.Err() != nil {
			return j.ctx.Err()
		}
		j.wait(pollEvery)
	}
}

// readJournals finds out which lines have an answer.
func (j *job) readJournals(b Batch) error {
	j.done, j.found = make([]bool, b.Lines), make([]Counts, len(b.Chunks))
	var size int64
	journals, err := scan(j.engine.folderOf(j.id), j.id, j.engine.o.Keys, func(r *record, p place) {
		size += int64(journal.Answers.Overhead() + p.size)
		if r.Line < 0 || r.Line >= b.Lines {
			return
		}
		counts := r.counts()
		if j.done[r.Line] { // it ran twice, and both are paid
			counts.Done, counts.Failed = 0, 0
		}
		j.done[r.Line] = true
		at := r.Line / b.ChunkLines
		j.found[at] = j.found[at].plus(counts)
	}, nil)
	if err != nil {
		return err
	}
	journals.close()
	j.tellCut(journals.cut)
	j.mu.Lock()
	j.written, j.counts = size, Counts{}
	for _, counts := range j.found {
		j.counts = j.counts.plus(counts)
	}
	j.mu.Unlock()
	j.hold(0)
	return nil
}

// tellCut tells which files of answers end within a record, once for each. Lines without an answer
// run again.
func (j *job) tellCut(cut map[string]int64) {
	for name, bytes := range cut {
		if _, isTold := j.cut[name]; !isTold {
			j.engine.o.Log.Warn("batches: a file of answers ends within a record, which is left out", "batch", j.id,
				"file", name, "bytes", bytes)
		}
	}
	j.cut = cut
}

// roomStep is how much room is taken for answers at a time.
const roomStep = 1 << 20

// hold notes that so many bytes of answers were written, and takes room for them. Lines that end
// together take it one after the other: the first takes enough for most of them.
func (j *job) hold(bytes int64) {
	j.mu.Lock()
	j.written += bytes
	j.mu.Unlock()
	j.taking <- struct{}{}
	defer func() { <-j.taking }()
	taken, err := j.takeRoom()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held += taken
	switch isBound := errors.Is(err, files.ErrNoRoom) || errors.Is(err, files.ErrAllFull); {
	case err == nil:
		j.noRoom, j.fullSince = say.Sentence{}, time.Time{}
		return
	case !isBound:
		j.fullSince = time.Time{}
	case j.fullSince.IsZero():
		j.fullSince = time.Now()
	}
	j.noRoom = noRoomFor(err)
	j.signal()
}

// takeRoom takes the room that the answers lack and some more, or only what they lack if there is no
// more, and returns how much it took.
func (j *job) takeRoom() (taken int64, err error) {
	j.mu.Lock()
	lacks := j.lacks()
	j.mu.Unlock()
	if lacks <= 0 {
		return 0, nil
	}
	for _, more := range [...]int64{lacks + roomStep, lacks} {
		if err = j.engine.o.Files.Hold(j.ctx, j.scope, more); err == nil {
			return more, nil
		}
	}
	return 0, err
}

// lacks returns how much more room the answers need. It adds a byte, and no line runs once
// nothing more has room. The caller has the lock.
func (j *job) lacks() int64 { return j.written + 1 - j.held }

// noRoomFor says why answers have no room.
func noRoomFor(err error) say.Sentence {
	switch {
	case errors.Is(err, files.ErrNoRoom):
		err = say.Error("batch.room_key")
	case errors.Is(err, files.ErrAllFull):
		err = say.Error("batch.room_all")
	}
	return say.New("batch.no_room", "why", err)
}

// releaseRoom gives back the room that the journals take, because the job ends here.
func (j *job) releaseRoom() {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.engine.o.Files.Hold(context.Background(), j.scope, -j.held) // it cannot fail
	j.held = 0
}
