package proxy

import (
	"context"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/plan"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/route/scatter"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
)

// pieceFailed is why the other pieces of a request are given up if one failed.
const pieceFailed plan.GivenUp = "call.given_up_piece"

// scatter splits the request over instances that have a free slot now, and acquires one for
// each piece. It reports whether the request is split. A piece never waits for a slot:
// requests that hold some slots and wait for others could block each other.
func (r *run) scatter() bool {
	c := &r.choice
	if r.Client != nil || r.Asks.Uncounted || r.isSpare() || !c.pool.IsQuiet() {
		return false
	}
	s := c.survey()
	pieces := plan.Split(c.pool, s.Ready, r.Asks, s.Now)
	if pieces == nil {
		return false
	}
	reserve := r.guardMemory()
	for _, piece := range pieces {
		if !r.acquirePiece(piece, reserve) {
			r.returnUnused()
			return false
		}
	}
	r.attempt.instance = r.gathered[0].attempt.instance
	return true
}

// acquirePiece acquires an instance for a piece: the one that it was cut for or, if that has
// no free slot any more, another one.
func (r *run) acquirePiece(piece plan.Piece, reserve func(bytes int) error) bool {
	asks, err := piece.Request(reserve)
	if err != nil {
		return false // there is no memory for it; the whole may go as it is
	}
	p := &part{run: r.beginPart(asks), piece: piece}
	p.Make = func(ctx context.Context) bool { return p.make(ctx, p.readPiece) }
	r.gathered, r.parts = append(r.gathered, p), append(r.parts, p.run)
	return p.choice.acquireAt(piece.At, &p.attempt)
}

// acquireAt acquires an instance and begins an attempt at it. If it lost its last slot at
// this moment, another one is acquired.
func (c *choice) acquireAt(i *backend.Instance, a *attempt) bool {
	c.stale = true
	c.survey()
	c.last.Keep(func(ready *backend.Instance) bool { return ready.State == i.State })
	return c.acquire(a)
}

// gather calls the instances of all pieces at the same time and joins their answers. If a
// piece fails in the end, the request fails like it, and the other pieces are given up; a
// fallback gets the whole request.
func (r *run) gather(ctx context.Context) *reply.Fault {
	began := time.Now()
	branches := make([]*plan.Branch, len(r.gathered))
	for n, p := range r.gathered {
		branches[n] = &p.Branch
	}
	plan.Run(ctx, plan.All, pieceFailed, branches...)
	// The record of the failed piece comes last.
	pieces := slices.SortedStableFunc(slices.Values(r.gathered), func(a, b *part) int {
		if a.isCulprit() != b.isCulprit() {
			if a.isCulprit() {
				return 1
			}
			return -1
		}
		return a.reply.Arrived.Compare(b.reply.Arrived)
	})
	for _, p := range pieces {
		p.Close()
		r.absorb(p)
		r.attempt.instance = p.attempt.instance
		r.Record.Merge(p.Record)
	}
	r.notePieces(time.Since(began))
	last := pieces[len(pieces)-1]
	if last.failed == nil {
		r.join()
		return nil
	}
	// The pieces were tried at all instances that may have them.
	r.choice.calledHere = r.choice.table.Limits.MaxAttempts
	r.spendPieces(pieces)
	return last.failed
}

// spendPieces pays for the pieces one by one: for those that were answered, and for those that
// were ended with the request while their backends had them.
func (r *run) spendPieces(pieces []*part) {
	for _, p := range pieces {
		switch {
		case p.Answered:
			r.charge(p.attempt.instance, r.Spend(p.reply.Usage(), p.Asks, p.reply.Plain.Segments))
		case p.isCut && !p.IsGivenUp():
			r.charge(p.attempt.instance, r.Spend(schema.Usage{}, p.Asks, nil))
		}
	}
}

// isCulprit reports whether the others were given up because this piece failed.
func (p *part) isCulprit() bool { return !p.Answered && !p.IsGivenUp() }

// notePieces notes how the request was split. Its pieces were called at the same time, and
// took is the time of all. It counts as waiting for the model for as long as one piece did,
// and for the rest as waiting for backends.
func (r *run) notePieces(took time.Duration) {
	var held time.Duration
	for _, p := range r.gathered {
		held = max(held, p.Record.Held)
	}
	r.Record.Held += held
	r.Record.Queued += held
	r.Record.Upstream += took - held
	r.Record.Pieces = len(r.gathered)
	r.proxy.recorder.Registry().Split(r.Record.Service, len(r.gathered))
}

// readPiece reads the answer to a piece, which has come whole.
func (p *part) readPiece() error {
	err := p.takeMemory()
	if err == nil {
		p.answer, err = scatter.ReadPart(p.Asks.Door, p.piece.Piece, &p.reply.Plain)
	}
	return err
}

// takeMemory takes the memory for an answer that is copied into one text, if it is large.
func (p *part) takeMemory() error {
	if !p.reply.Whole || p.reply.Events != nil || len(p.reply.Plain.Segments) == 0 {
		return dialect.ErrInvalid
	}
	size := int64(p.reply.Form().Length)
	if size <= reply.CountedBody || len(p.reply.Plain.Segments) == 1 {
		return nil
	}
	if verdict := p.reply.Memory.Take(size); verdict != memory.Granted {
		return reply.NoMemory(verdict, size, p.reply.Memory.Most())
	}
	return nil
}

// join makes one answer of those to the pieces.
func (r *run) join() {
	parts, reported := make([]*scatter.Part, len(r.gathered)), 0
	for n, p := range r.gathered {
		parts[n] = p.answer
		if p.reply.Usage().Total > 0 {
			reported++
		}
		if p.reply.Arrived.After(r.reply.Arrived) {
			r.reply.Arrived = p.reply.Arrived
		}
	}
	scatter.Join(r.Asks, parts, &r.reply.Plain)
	if reported > 0 && reported < len(parts) { // the use of the others is estimated
		r.spendPieces(r.gathered)
		r.SpentAll()
		r.reply.Plain.Usage = schema.Usage{}
	}
	r.reply.Whole, r.reply.FirstByte = true, time.Now()
}

// answerers returns the instances that answered the pieces of a request, in their order and
// each once; nil where nobody answered all of it.
func answerers(pieces []*part) (all []*backend.Instance) {
	for _, p := range pieces {
		if !p.Answered {
			return nil
		}
		if !survey.Contains(all, p.attempt.instance) {
			all = append(all, p.attempt.instance)
		}
	}
	return all
}
