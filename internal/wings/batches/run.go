package batches

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// dispatch runs lines while there is room, one of each owner in turn, and returns how long
// to wait before looking again.
func (e *Engine) dispatch(ctx context.Context) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.halted || ctx.Err() != nil {
		return pollEvery
	}
	most := min(e.o.Settings().MaxInFlight, e.o.Runner.RoomInAll())
	look := look{engine: e, now: time.Now(), seen: map[target]seen{}}
	wait := pollEvery
	for e.total < most {
		j, p, later := e.pick(&look)
		if !later.IsZero() {
			wait = min(wait, later.Sub(look.now))
		}
		if p == nil {
			break
		}
		t := target{j.endpoint, p.model}
		count(e.running, t, 1)
		e.total++
		if pace := e.paces[t]; pace != nil {
			pace.begin(look.now)
		}
		p.began = look.now
		e.work.Go(func() { logs.Contain(e.o.Log, "keeping the answer to a line", func() { e.runLine(j, p, t) }) })
	}
	return wait
}

// pick takes a line of the owner whose latest line was picked before those of other owners, and of
// that owner's batches in the same order. If there is none now because it is too early for them, it
// returns when it is not. The lock is held.
func (e *Engine) pick(look *look) (_ *job, _ *pending, later time.Time) {
	picked := map[string]uint64{} // by owner
	for _, j := range e.jobs {
		picked[j.scope] = max(picked[j.scope], j.picked)
	}
	jobs := slices.SortedFunc(maps.Values(e.jobs), func(a, b *job) int {
		return cmp.Or(cmp.Compare(picked[a.scope], picked[b.scope]), strings.Compare(a.scope, b.scope),
			cmp.Compare(a.picked, b.picked), strings.Compare(a.id, b.id))
	})
	for _, j := range jobs {
		p, from := j.take(look.now, look.mayRun)
		if p != nil {
			e.picks++
			j.picked = e.picks
			return j, p, later
		}
		if !from.IsZero() && (later.IsZero() || from.Before(later)) {
			later = from
		}
	}
	return nil, nil, later
}

// look is one look at the targets of lines. It asks about each of them once.
type look struct {
	engine *Engine
	now    time.Time
	seen   map[target]seen
}

type seen struct {
	presence Presence
	room     int
}

func (l *look) at(t target) seen {
	found, asked := l.seen[t]
	if !asked {
		found.presence = l.engine.o.Runner.Presence(t.endpoint, t.model)
		found.room = l.engine.o.Runner.Room(t.endpoint, t.model)
		l.seen[t] = found
	}
	return found
}

// mayRun reports whether a line of a model may run now, and otherwise from when on, where that
// is known. The caller has the locks of the engine and the job.
func (l *look) mayRun(j *job, model string) (ok bool, from time.Time) {
	e, t := l.engine, target{j.endpoint, model}
	there := l.at(t)
	switch {
	case there.presence == Served:
		j.noteServed(model)
	case there.presence == Unclear || j.served[model]:
		j.problem = say.New("batch.absent", "model", model)
		return false, from
	}
	if there.presence == Served {
		pace := e.paceOf(t)
		if ok, from = pace.mayBegin(l.now, e.running[t]); !ok {
			if l.now.Before(pace.until) {
				j.problem = pace.why
			}
			return false, from
		}
	}
	if e.running[t] >= there.room {
		if there.presence == Served {
			e.awaitRoom(t)
		}
		return false, from
	}
	return e.unsynced[t] < there.room, from
}

// awaitRoom has the engine look again when there is room for more lines to a target.
func (e *Engine) awaitRoom(t target) {
	if e.awaited[t] {
		return
	}
	e.awaited[t] = true
	e.work.Go(func() {
		logs.Contain(e.o.Log, "waiting for room", func() {
			e.o.Runner.AwaitRoom(e.base, t.endpoint, t.model, func() int {
				e.mu.Lock()
				defer e.mu.Unlock()
				return e.running[t]
			})
		})
		e.mu.Lock()
		delete(e.awaited, t)
		e.mu.Unlock()
		e.nudge()
	})
}

// take takes the first line out of the window that may run. Where it takes none because it is
// too early for them, it returns when it is not.
func (j *job) take(now time.Time, mayRun func(j *job, model string) (bool, time.Time)) (_ *pending, later time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopping || j.isRevoked || len(j.window) == 0 || !now.Before(j.batch.Expires) {
		return nil, later
	}
	if !j.engine.o.Runner.Stands(j.owner) {
		j.isRevoked = true
		j.signal()
		return nil, later
	}
	if j.noRoom.Is() {
		return nil, later
	}
	for at, p := range j.window {
		from := p.after
		if paused := j.paused[p.model]; paused.After(from) {
			from = paused
		}
		ok := !now.Before(from)
		if ok {
			ok, from = mayRun(j, p.model)
		}
		if !ok {
			if !from.IsZero() && (later.IsZero() || from.Before(later)) {
				later = from
			}
			continue
		}
		j.setWindow(slices.Delete(j.window, at, at+1), j.windowed-len(p.body))
		j.engine.ahead.add(j.scope, len(p.body)) // until it has landed
		j.inFlight++
		j.signal()
		return p, later
	}
	return nil, later
}

// runLine runs a line and keeps its answer.
func (e *Engine) runLine(j *job, p *pending, t target) {
	// Where the gateway fails to run it.
	answer := Answer{Status: http.StatusInternalServerError, Code: schema.CodeInternal}
	logs.Contain(e.o.Log, "running a line", func() {
		answer = e.o.Runner.Run(p.chunk.ctx, Call{
			Owner: j.owner, User: j.user, Endpoint: t.endpoint, Body: p.body, Batch: j.id, CustomID: p.customID,
		})
	})
	e.mu.Lock()
	count(e.running, t, -1)
	count(e.unsynced, t, 1)
	e.mu.Unlock()
	e.nudge()
	defer j.landed(p)
	defer e.landed(t)
	if p.chunk.ctx.Err() != nil && (answer.Status < 200 || answer.Status >= 300) {
		return // it runs again, here or elsewhere
	}
	if next := e.judge(j, p, t, answer); next.again {
		j.putBack(p, answer, next)
		return
	}
	if j.keep(p, answer) {
		j.ended(p, answer)
	}
}

func count(all map[target]int, t target, more int) {
	if all[t] += more; all[t] == 0 {
		delete(all, t)
	}
}

// landed notes that the answer of a line is kept, or is not there.
func (e *Engine) landed(t target) {
	e.mu.Lock()
	count(e.unsynced, t, -1)
	e.total--
	e.mu.Unlock()
	e.nudge()
}

// landed notes that a line runs no more.
func (j *job) landed(p *pending) {
	j.engine.ahead.add(j.scope, -len(p.body))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inFlight--
	j.signal()
}

// problemOf says why a line runs again.
func problemOf(answer Answer) say.Sentence {
	if !answer.Said.Is() {
		return say.New("batch.again")
	}
	return answer.Said
}

// keep writes the answer of a line to the journal. It tries until it succeeds, because the
// answer was paid; false means that the job ends before.
func (j *job) keep(p *pending, answer Answer) bool {
	r := &record{
		Line: p.number, CustomID: p.customID, Status: answer.Status, RequestID: answer.RequestID,
		Body:   jsonOf(answer.Body),
		Prompt: answer.Prompt, Completion: answer.Completion, Cost: answer.Cost,
	}
	for {
		size, err := j.log.add(r)
		if err == nil {
			j.hold(int64(size))
			return true
		}
		j.setProblem(say.New("batch.unwritten", "why", err.Error()))
		j.engine.tell(err, "writing an answer of "+j.id)
		j.pause(pollEvery)
		if j.ctx.Err() != nil {
			return false
		}
	}
}

// jsonOf returns a body as a value of JSON, whatever it is.
func jsonOf(body []byte) jsontext.Value {
	if value := jsontext.Value(body); value.IsValid(jsontext.AllowDuplicateNames(true)) {
		return value
	}
	text, err := jsontext.AppendQuote(nil, body)
	if err != nil {
		return jsontext.Value("null")
	}
	return text
}

// ended counts a line with a kept answer.
func (j *job) ended(p *pending, answer Answer) {
	r := record{Status: answer.Status, Prompt: answer.Prompt, Completion: answer.Completion, Cost: answer.Cost}
	counts := r.counts()
	j.engine.mu.Lock()
	j.engine.ended = j.engine.ended.plus(counts)
	j.engine.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.moved, j.problem, j.resumes = time.Now(), say.Sentence{}, time.Time{}
	delete(j.paused, p.model)
	j.counts = j.counts.plus(counts)
	p.chunk.counts = p.chunk.counts.plus(counts)
	p.chunk.left--
	p.chunk.checkComplete()
}
