package batches

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// dispatch runs lines for which there is room, one of each batch in turn, and returns how
// long to wait before looking again.
func (e *Engine) dispatch(ctx context.Context) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.halted || ctx.Err() != nil {
		return pollEvery
	}
	most := e.o.Settings().MaxInFlight
	rooms := map[target]int{}
	now := time.Now()
	wait := pollEvery
	for idle := 0; idle < len(e.order) && e.total < most; {
		j := e.order[0]
		e.order = append(e.order[1:], j)
		p, later := j.take(now, func(model string) bool {
			t := target{j.endpoint, model}
			room, asked := rooms[t]
			if !asked {
				room = e.o.Runner.Room(t.endpoint, t.model)
				rooms[t] = room
			}
			if e.running[t] >= room {
				e.awaitRoom(t)
				return false
			}
			return e.unsynced[t] < room
		})
		if p == nil {
			idle++
			if !later.IsZero() {
				wait = min(wait, later.Sub(now))
			}
			continue
		}
		idle = 0
		t := target{j.endpoint, p.model}
		count(e.running, t, 1)
		e.total++
		e.work.Go(func() { e.runLine(j, p, t) })
	}
	return wait
}

// awaitRoom has the engine look again when there is room for more lines to a target.
func (e *Engine) awaitRoom(t target) {
	if e.awaited[t] {
		return
	}
	e.awaited[t] = true
	e.work.Go(func() {
		e.o.Runner.AwaitRoom(e.base, t.endpoint, t.model, func() int {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.running[t]
		})
		e.mu.Lock()
		delete(e.awaited, t)
		e.mu.Unlock()
		e.nudge()
	})
}

// take takes the first line out of the window that may run. Where it takes none because it is
// too early for them, it returns when it is not.
func (j *job) take(now time.Time, hasRoom func(model string) bool) (_ *pending, later time.Time) {
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
	if j.written > j.held {
		return nil, later // its answers have no room
	}
	for at, p := range j.window {
		from := p.after
		if paused := j.paused[p.model]; paused.After(from) {
			from = paused
		}
		if now.Before(from) {
			if later.IsZero() || from.Before(later) {
				later = from
			}
			continue
		}
		if !hasRoom(p.model) {
			continue
		}
		j.window = slices.Delete(j.window, at, at+1)
		j.windowed -= len(p.body)
		j.inFlight++
		j.signal()
		return p, later
	}
	return nil, later
}

// runLine runs a line and keeps its answer.
func (e *Engine) runLine(j *job, p *pending, t target) {
	answer := e.o.Runner.Run(p.chunk.ctx, Call{
		Owner: j.owner, Endpoint: t.endpoint, Body: p.body, Batch: j.id, CustomID: p.customID,
	})
	e.mu.Lock()
	count(e.running, t, -1)
	count(e.unsynced, t, 1)
	e.mu.Unlock()
	e.nudge()
	defer j.landed()
	defer e.landed(t)
	if p.chunk.ctx.Err() != nil && (answer.Status < 200 || answer.Status >= 300) {
		return // it runs again, here or elsewhere
	}
	if wait, again := e.again(answer, p.attempts+1); again {
		j.putBack(p, answer, wait)
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
func (j *job) landed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inFlight--
	j.signal()
}

// The waits before a line runs again: where the gateway refused it, where the budget is used
// up, and after a failure of the backend for the first time, which doubles with each.
const (
	refusedWait = time.Second
	budgetWait  = time.Minute
	failedWait  = 2 * time.Second
	longestWait = 5 * time.Minute
)

// again reports whether a line that was tried so often runs again, and after which time. What
// the gateway refuses because it has no room for it now is tried until the batch expires; what
// a backend could not do, a few times.
func (e *Engine) again(answer Answer, attempts int) (time.Duration, bool) {
	if answer.Code == schema.CodeServiceUnavailable && answer.NoRetry && answer.RetryAfter == 0 {
		return 0, false // there is no such model
	}
	switch answer.Code {
	case schema.CodeRateLimitExceeded, schema.CodeKeyRateLimited, schema.CodeBudgetReserved, schema.CodeNoSlot, schema.CodeOverloaded,
		schema.CodeCircuitBreakerOpen, schema.CodeServiceUnavailable, schema.CodeLedgerUnavailable, schema.CodeUploadsFull, schema.CodeCancelled:
		return max(answer.RetryAfter, refusedWait), true
	case schema.CodeBudgetExceeded:
		return budgetWait, e.o.Settings().WaitForBudget
	}
	isFault := answer.Status == 0 || answer.Status >= http.StatusInternalServerError || answer.Status == http.StatusTooManyRequests
	if !isFault || attempts >= e.o.Settings().Attempts {
		return 0, false
	}
	return min(max(failedWait<<(attempts-1), answer.RetryAfter), longestWait), true
}

// putBack puts a line back among those that run next.
func (j *job) putBack(p *pending, answer Answer, wait time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	p.after = now.Add(wait)
	if schema.ResultOf(answer.Code).Rejected() || answer.Code == schema.CodeCircuitBreakerOpen || answer.Code == schema.CodeServiceUnavailable {
		j.paused[p.model] = p.after // others of the model would be refused as well
	} else {
		p.attempts++
	}
	j.problem = problemOf(answer)
	if j.stopping || j.chunks[p.chunk.number] != p.chunk {
		return
	}
	j.window = slices.Insert(j.window, 0, p)
	j.windowed += len(p.body)
}

// problemOf returns in words why a line runs again.
func problemOf(answer Answer) string {
	var told struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer.Body, &told); err != nil || told.Error.Message == "" {
		return "a line failed and is tried again"
	}
	return told.Error.Message
}

// keep writes the answer of a line to the journal. It tries until it succeeds, because the
// answer was paid; false means that the job ends before.
func (j *job) keep(p *pending, answer Answer) bool {
	r := &record{
		Line: p.number, CustomID: p.customID, Status: answer.Status, RequestID: answer.RequestID, Body: jsonOf(answer.Body),
		Prompt: answer.Prompt, Completion: answer.Completion, Cost: answer.Cost,
	}
	for {
		size, err := j.log.add(r)
		if err == nil {
			j.hold(int64(size))
			return true
		}
		j.setProblem("its answers cannot be written: " + err.Error())
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

// ended counts a line whose answer is kept.
func (j *job) ended(p *pending, answer Answer) {
	r := record{Status: answer.Status, Prompt: answer.Prompt, Completion: answer.Completion, Cost: answer.Cost}
	counts := r.counts()
	j.engine.mu.Lock()
	j.engine.ended = j.engine.ended.plus(counts)
	j.engine.mu.Unlock()
	c := p.chunk
	j.mu.Lock()
	j.moved, j.problem = time.Now(), ""
	delete(j.paused, p.model)
	c.counts = c.counts.plus(counts)
	c.left--
	isLast := c.left == 0 && j.chunks[c.number] == c
	j.mu.Unlock()
	var err error
	if isLast {
		err = j.complete(c)
	} else if !j.engine.o.IsShared {
		err = j.renew(j.ctx, c) // nothing is asked for it, and everybody sees how far it is
	}
	j.engine.tell(err, "noting how far "+j.id+" is")
}
