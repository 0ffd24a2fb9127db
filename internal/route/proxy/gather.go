package proxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/breaker"
	"github.com/patchbay-ai/patchbay/internal/route/scatter"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// gathering is a request that several instances share. Each of them gets a piece, which is
// chosen, called and tried again like a request of its own. What all pieces have in common
// is the request's: it was admitted, is counted and settles once.
type gathering struct {
	pieces []*piece
	cancel context.CancelCauseFunc

	// mu guards the memory of the request, from which all pieces take, and failed.
	mu     sync.Mutex
	failed *piece // the first that failed
}

// piece is a part of a request at one instance at a time.
type piece struct {
	scatter.Piece
	*run
	part     *scatter.Part // the answer
	fault    *fault        // why there is none
	panicked *logs.Panic
}

// errPieceFailed is the cause with which the other pieces of a request end if one failed.
var errPieceFailed = errors.New("another piece of the request failed")

// scatter splits the request over instances that have a free slot now, and acquires one for
// each piece. It returns nil if the request goes to one instance. A piece never waits for a
// slot, so that requests which hold some slots and wait for others cannot block each other.
func (r *run) scatter() *gathering {
	c := &r.choice
	settings := c.pool.Service.Policy.Split
	if r.Client != nil || r.Asks.Uncounted || r.isSpare() || !c.pool.IsQuiet() {
		return nil
	}
	s := c.survey()
	plan := planSplit(awake(c.pool, s.ready, s.now), r.Asks, settings, s.now)
	if plan == nil {
		return nil
	}
	g := new(gathering)
	for n, cut := range plan.cuts {
		if !g.acquire(r, plan.work, cut, plan.at(n)) {
			g.returnUnused()
			return nil
		}
	}
	r.gathered = g
	return g
}

// splitPlan is how a request would be split.
type splitPlan struct {
	work *scatter.Work
	cuts []scatter.Piece
	from []*backend.Instance // of which the pieces name the indices
}

// at returns the instance of a piece.
func (p *splitPlan) at(n int) *backend.Instance { return p.from[p.cuts[n].Place] }

// planSplit decides how a request is split over instances that are ready. It returns nil if
// the request goes to one.
func planSplit(ready []*backend.Instance, req *schema.Request, settings scatter.Settings, now time.Time) *splitPlan {
	if len(ready) < 2 {
		return nil
	}
	work := scatter.Read(req, settings)
	if work == nil {
		return nil
	}
	from := slices.DeleteFunc(slices.Clone(ready), func(i *backend.Instance) bool { return i.Target.RefuseRequest(req, nil) != nil })
	cuts := work.Cut(rankPlaces(from, work.Tokens(), now), settings)
	if cuts == nil {
		return nil
	}
	return &splitPlan{work, cuts, from}
}

// rankPlaces brings instances into the order in which they are preferred for so much work,
// and returns how they compare: by the picture that the fleet has of all of them, or else by
// their weights, those with the fewest calls first.
func rankPlaces(ready []*backend.Instance, tokens int64, now time.Time) []scatter.Place {
	known := make(map[*backend.Instance]scatter.Place, len(ready))
	for _, i := range ready {
		if engine := i.Engine(); engine != nil {
			picture := engine.Picture(now)
			known[i] = scatter.Place{Wait: picture.Queue, PerToken: picture.PerToken}
		}
	}
	if len(known) == len(ready) {
		part := float64(tokens) / float64(len(ready))
		slices.SortStableFunc(ready, func(a, b *backend.Instance) int {
			return cmp.Compare(known[a].Wait+part*known[a].PerToken, known[b].Wait+part*known[b].PerToken)
		})
	} else {
		slices.SortStableFunc(ready, func(a, b *backend.Instance) int { return cmp.Compare(a.InFlight()*b.Share, b.InFlight()*a.Share) })
		for _, i := range ready {
			known[i] = scatter.Place{PerToken: 1 / float64(i.Share)}
		}
	}
	places := make([]scatter.Place, len(ready))
	for n, i := range ready {
		places[n] = known[i]
	}
	return places
}

// acquire acquires an instance for a piece: the one for which it was cut or, if that has no
// free slot any more, another one.
func (g *gathering) acquire(r *run, work *scatter.Work, cut scatter.Piece, at *backend.Instance) bool {
	var reserve func(bytes int) error
	if whole := r.Asks.Body.Reserve; whole != nil {
		reserve = func(bytes int) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			return whole(bytes)
		}
	}
	asks, err := work.Request(cut, reserve)
	if err != nil {
		return false // there is no memory for it; the whole may go as it is
	}
	p := &piece{Piece: cut, run: r.beginPart(asks)}
	g.pieces = append(g.pieces, p)
	return p.choice.acquireAt(at, &p.attempt)
}

// beginPart returns a run for a part of the request, or for all of it once more. It is
// neither admitted nor counted, and has a record of its own, whose attempts are those of the
// request in the end.
func (r *run) beginPart(asks *schema.Request) *run {
	p := r.proxy
	part := p.runs.Get().(*run)
	part.proxy, part.isPart = p, true
	part.Request = &Request{
		Asks: asks, Client: r.Client, Caller: r.Caller, Table: r.Table, Pool: r.Pool, Model: r.Model, Price: r.Price,
		Record: &calls.Record{RequestID: r.Record.RequestID, Started: r.Record.Started, Service: r.Record.Service, Door: r.Record.Door, Trace: r.Record.Trace},
	}
	part.reply.memory = p.bodies.Lease(r.Caller.KeyID, r.Caller.Addr)
	part.choice.request, part.attempt.request = &part.request, &part.request
	part.choice.fallback, part.choice.table = r.choice.fallback, r.choice.table
	part.choice.use(r.choice.pool)
	part.of, part.fallen = &r.request, slices.Clone(r.fallen)
	return part
}

// endPart gives back everything that a part of a request holds.
func (r *run) endPart(panicked bool) {
	r.choice.endRetry()
	r.release(breaker.Cancelled)
	r.reply.memory.Close()
	if p := r.proxy; !panicked {
		r.reset()
		p.runs.Put(r)
	}
}

// acquireAt acquires an instance and begins an attempt at it. If it lost its last slot at
// this moment, another one is acquired.
func (c *choice) acquireAt(i *backend.Instance, a *attempt) bool {
	c.stale = true
	c.survey()
	c.last.keep(func(ready *backend.Instance) bool { return ready.State == i.State })
	return c.acquire(a)
}

// returnUnused gives back what was acquired, because the request is not split after all.
func (g *gathering) returnUnused() {
	for _, p := range g.pieces {
		if p.attempt.held {
			p.attempt.returnUnused()
			p.choice.pool.Wake()
		}
		p.endPart(false)
	}
	g.pieces = nil
}

// end gives back everything that the pieces hold. The answer of the request shares their
// memory, so that they end with it.
func (g *gathering) end(panicked bool) {
	for _, p := range g.pieces {
		p.endPart(panicked)
	}
}

// gather calls the instances of all pieces and makes one answer of theirs. If a piece fails
// in the end, the request fails like it, and the other pieces are given up; a model that
// takes over gets the whole request.
func (r *run) gather(ctx context.Context, g *gathering) error {
	r.attempt.instance = g.pieces[0].attempt.instance
	r.choice.noteChoice()
	r.tellChoice(ctx, nil)
	if err := r.countEarly(); err != nil {
		r.attempt.instance, r.gathered = nil, nil
		g.returnUnused()
		return err
	}
	failed := r.gatherUntilAnswered(ctx, g)
	if err := r.countLate(failed); err != nil {
		r.release(breaker.Success)
		return err
	}
	if failed == nil {
		r.clearFallen()
	}
	if failed == nil && r.attempt.held { // a fallback answered
		r.answered()
	}
	return failed
}

func (r *run) gatherUntilAnswered(ctx context.Context, g *gathering) error {
	began := time.Now()
	g.call(ctx)
	r.merge(g, time.Since(began))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed := g.failed; failed != nil {
		for _, p := range g.pieces {
			if p.part != nil {
				r.Spend(p.used())
			}
		}
		if !r.choice.fallBackAfter(failed.fault, &r.attempt) {
			return failed.fault.err
		}
		return r.callUntilAnswered(ctx)
	}
	r.join(g)
	return nil
}

// call calls the instances of all pieces at the same time, the first one on this goroutine,
// and returns when all have ended.
func (g *gathering) call(ctx context.Context) {
	ctx, g.cancel = context.WithCancelCause(ctx)
	defer g.cancel(nil)
	var running sync.WaitGroup
	for _, p := range g.pieces[1:] {
		running.Go(func() { g.callPiece(ctx, p) })
	}
	g.callPiece(ctx, g.pieces[0])
	running.Wait()
	for _, p := range g.pieces {
		p.panicked.Raise() // on the goroutine of the request, whose owner knows what to do
	}
}

// callPiece calls instances for a piece until one answers.
func (g *gathering) callPiece(ctx context.Context, p *piece) {
	defer func() {
		if p.panicked = logs.Caught(recover()); p.panicked != nil {
			p.release(breaker.Cancelled)
			g.cancel(errPieceFailed)
		}
	}()
	p.fault = p.callInstances(ctx)
	if p.fault == nil {
		p.fault = p.read()
	}
	if p.fault == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed == nil {
		g.failed = p
		g.cancel(errPieceFailed)
	} else if ctx.Err() != nil {
		p.Record.Fail(calls.GivenUp, "", "The call was given up because another piece of the request failed.")
	}
}

// read reads the answer to a piece, which has come whole, and gives its slot back.
func (p *piece) read() *fault {
	err := p.takeRoom()
	if err == nil {
		p.part, err = scatter.ReadPart(p.Asks.Door, p.Piece, &p.reply.plain)
	}
	if err != nil {
		failed := p.attempt.classifier().classify(err, false)
		p.Record.Fail(failed.err.Code, failed.err.Cause, failed.err.Message)
		p.release(failed.outcome)
		return failed
	}
	p.answered()
	return nil
}

// takeRoom takes the memory for an answer that is copied into one text, if it is large.
func (p *piece) takeRoom() error {
	if !p.reply.whole || p.reply.events != nil || len(p.reply.plain.Segments) == 0 {
		return dialect.ErrInvalid
	}
	size := int64(p.reply.Form().Length)
	if size <= countedBody || len(p.reply.plain.Segments) == 1 {
		return nil
	}
	if verdict := p.reply.memory.Take(size); verdict != memory.Granted {
		return noMemoryForReply(verdict, size, p.reply.memory.Most())
	}
	return nil
}

// used returns what the answer to a piece used, by an estimate if its backend does not say.
func (p *piece) used() schema.Usage {
	if used := p.reply.Usage(); used.Known {
		return used
	}
	prompt := estimate.Most(p.Asks, nil, 0).Prompt
	return schema.Usage{Prompt: prompt, Total: prompt}
}

// merge adds what is known of the pieces to the request, that of the piece that failed last.
// They were called at the same time, which took so long: for as long as one of them waited for
// its model, and for the rest of the time for backends.
func (r *run) merge(g *gathering, took time.Duration) {
	pieces := slices.Clone(g.pieces)
	slices.SortStableFunc(pieces, func(a, b *piece) int {
		if (a == g.failed) != (b == g.failed) {
			if a == g.failed {
				return 1
			}
			return -1
		}
		return a.reply.arrived.Compare(b.reply.arrived)
	})
	for _, p := range pieces {
		r.choice.excluded.called = append(r.choice.excluded.called, p.choice.excluded.called...)
		r.choice.reached += p.choice.reached
		r.choice.calledHere = max(r.choice.calledHere, p.choice.calledHere)
		r.attempt.instance = p.attempt.instance
		r.Record.Merge(p.Record)
	}
	if g.failed != nil {
		for _, f := range g.failed.fallen {
			r.fall(f)
		}
	}
	var held time.Duration
	for _, p := range g.pieces {
		held = max(held, p.Record.Held)
	}
	r.Record.Held += held
	r.Record.Queued += held
	r.Record.Upstream += took - held
	r.Record.Pieces = len(g.pieces)
	r.choice.stale = true
	r.proxy.recorder.Split(r.Record.Service, len(g.pieces))
}

// join makes one answer of those to the pieces.
func (r *run) join(g *gathering) {
	parts := make([]*scatter.Part, len(g.pieces))
	for n, p := range g.pieces {
		parts[n] = p.part
		if p.reply.arrived.After(r.reply.arrived) {
			r.reply.arrived = p.reply.arrived
		}
	}
	scatter.Join(r.Asks, parts, &r.reply.plain)
	r.reply.whole, r.reply.firstByte = true, time.Now()
}

// answerers returns the instances that answered the pieces, in their order and each once;
// nil where nobody answered all of it.
func (g *gathering) answerers() (all []*backend.Instance) {
	if g.failed != nil {
		return nil
	}
	for _, p := range g.pieces {
		if !contains(all, p.attempt.instance) {
			all = append(all, p.attempt.instance)
		}
	}
	return all
}
