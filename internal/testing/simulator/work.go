package simulator

import (
	"net/http"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// work is the engine's work for one request; it is empty without an engine.
type work struct {
	engine  *engine.Live
	kind    Kind
	job     *engine.Job
	keep    float64         // how long the model stays afterwards, as engine.Job has it
	loading float64         // seconds that the model took
	ready   <-chan struct{} // closed at the first token
	wrote   int             // tokens so far
	tokens  int             // of all answers
}

// leastGap is the least time between two events of an answer from an engine: fast engines
// then need no event for each token.
const leastGap = 20 * time.Millisecond

// reply makes an answer to a prompt, and gives the engine the work for the first of them.
func (x *exchange) reply(p *prompt, model string, choice int) answer {
	a := p.reply(x.backend.options.Name, choice)
	x.work.tokens += a.tokens
	if live := x.backend.engine; live != nil && x.work.job == nil && x.needs(model) {
		job := &engine.Job{Model: untagged(model), Tokens: p.tokens, Blocks: p.blocks(x.backend.options.Engine.Block),
			Keep: x.work.keep}
		x.work.engine, x.work.kind, x.work.job = live, x.backend.options.Kind, job
		x.work.ready = live.Add(job)
	}
	return a
}

// isRead lets the engine read texts of so many tokens without writing an answer, as for
// vectors, and waits until it has read them. It returns false if the client left
// meanwhile or the engine has lost the request.
func (x *exchange) isRead(model string, tokens int) bool {
	live := x.backend.engine
	if live == nil {
		return true
	}
	x.work.engine, x.work.job = live, &engine.Job{Model: model, Tokens: tokens}
	x.work.ready = live.Add(x.work.job)
	return x.written(1)
}

// blocks returns the full blocks of the prompt, of so many tokens each. Equal numbers
// mean equal text with equal text before it.
func (p *prompt) blocks(size int) (all []uint64) {
	hash, filled := seedOf(""), 0
	for _, text := range p.texts {
		for text != "" {
			n := tokenLength(text)
			for i := range n {
				hash = (hash ^ uint64(text[i])) * 1099511628211
			}
			text = text[n:]
			if filled++; filled == size {
				all, filled = append(all, hash), 0
			}
		}
		hash = mix(hash) // where a text ends matters
	}
	return all
}

// leaveEngine ends the work, be the answer complete or not.
func (x *exchange) leaveEngine() {
	if x.work.job != nil {
		x.work.engine.End(x.work.job, x.work.wrote)
	}
}

// next returns how many bytes of a text go into the next event: one token, or as many as
// the engine has written since the last event. It waits for the engine.
func (s *eventStream) next(text string) (length int) {
	w := &s.x.work
	if w.job == nil || s.over {
		return tokenLength(text)
	}
	tokens := 0
	for length < len(text) && tokens < w.perEvent() {
		length += tokenLength(text[length:])
		tokens++
	}
	s.over = !s.x.written(w.wrote + tokens)
	return length
}

// perEvent returns how many tokens the next event has: the first has one.
func (w *work) perEvent() int {
	pace := w.engine.Pace()
	if w.wrote == 0 || pace >= leastGap || pace <= 0 {
		return 1
	}
	return int((leastGap + pace - 1) / pace)
}

// sendWritten sends a whole answer when the engine has written it.
func (x *exchange) sendWritten(contentType string, body func() []byte) {
	if !x.refused && (x.work.job == nil || x.written(x.work.tokens)) {
		x.send(http.StatusOK, contentType, body())
	}
}

// written waits until the engine has written so many tokens. It returns false if the
// client left meanwhile or the engine has lost the request.
func (x *exchange) written(tokens int) bool {
	w := &x.work
	select {
	case <-w.ready:
	case <-x.request.Context().Done():
		x.abandon()
		return false
	}
	due, ok := w.engine.Due(w.job, max(tokens-1, 0))
	if !ok {
		x.broken = true
		return false
	}
	if !x.pause(time.Until(due)) {
		return false
	}
	w.wrote = tokens
	return true
}

// cached returns how many tokens of the prompt came from the cache. The figure is right
// only after something was written.
func (w *work) cached() int {
	if w.job == nil || w.wrote == 0 {
		return 0
	}
	return w.job.Cached
}

// durations returns how long the engine loaded, read and wrote, in nanoseconds.
func (w *work) durations(prompt, said int64) (load, read, wrote int64) {
	if w.job == nil {
		return loadDuration, prompt * perToken, said * perToken
	}
	return nanoseconds(w.loading), nanoseconds(w.job.Prefill), said * int64(w.engine.Pace())
}

func nanoseconds(seconds float64) int64 { return int64(seconds * float64(time.Second)) }

// appendTimings adds the timings that llama.cpp sends with an answer.
func (w *work) appendTimings(out []byte) []byte {
	if w.job == nil || w.kind != LlamaCpp {
		return out
	}
	_, read, wrote := w.durations(0, int64(w.wrote))
	out = strconv.AppendInt(append(out, `,"timings":{"cache_n":`...), int64(w.job.Cached), 10)
	out = strconv.AppendInt(append(out, `,"prompt_n":`...), int64(w.job.Tokens-w.job.Cached), 10)
	out = strconv.AppendFloat(append(out, `,"prompt_ms":`...), float64(read)/1e6, 'g', -1, 64)
	out = strconv.AppendInt(append(out, `,"predicted_n":`...), int64(w.wrote), 10)
	out = strconv.AppendFloat(append(out, `,"predicted_ms":`...), float64(wrote)/1e6, 'g', -1, 64)
	return append(out, '}')
}
