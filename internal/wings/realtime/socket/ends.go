package socket

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// cancelOf returns the message that asks the backend to end a response.
func cancelOf(id string) []byte {
	var w jsonwrite.Writer
	w.Open(`{"type":"response.cancel"`)
	w.Close("")
	if id != "" {
		w.Name("response_id")
		w.Text([]byte(id))
	}
	w.EndObject()
	return w.Out
}

// endRefused asks the backend to end the responses that must end. It returns the error of one that
// the backend does not end in time, nil if there is none.
func (l *relay) endRefused() (overdue error) {
	var cancels [][]byte
	l.mu.Lock()
	for id, t := range l.running {
		if t.refusal != nil && !t.isCancelled {
			t.isCancelled = true
			cancels = append(cancels, cancelOf(id))
		}
	}
	for _, t := range slices.AppendSeq(slices.Clone(l.asked), maps.Values(l.running)) {
		if t.refusal != nil && time.Since(t.refused) >= lastWords {
			overdue = t.refusal
		}
	}
	l.mu.Unlock()
	for _, message := range cancels {
		_ = l.sendBackend(message) // the backend may be gone
	}
	return overdue
}

// stopRunning takes out a response that has ended, nil if it is not being made, and reports
// whether one takes too long.
func (l *relay) stopRunning(id string) (t *turn, isLate bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t = l.running[id]; t != nil {
		delete(l.running, id)
		l.remember(id, t)
	}
	return t, l.isLate
}

// settle ends the accounts of a response: with the usage that the backend reports, or,
// where it broke off, with the estimate.
func (l *relay) settle(t *turn, usage schema.Usage, code string) {
	opened, record := t.account, t.account.Record
	defer l.finish(record)
	defer t.giveBack()
	l.mu.Lock()
	refusal := t.refusal // an operator may stop it at this moment
	l.mu.Unlock()
	if known := new(schema.Error); errors.As(refusal, &known) {
		record.Tell(known)
		code = known.Code
	}
	opened.Caller.Grant.Note(time.Now())
	// At the price when the response was let in or, if the model is gone, at the price
	// before.
	opened.ServeBy(cmp.Or(opened.Table.Service(record.Service).Find(l.served), l.pool))
	if err := opened.Count(); err != nil {
		code = codeOf(err)
	}
	opened.Settle(usage, code == "", true)
	record.Started, record.Model, record.Usage, record.Status, record.Code = t.since, opened.Model, usage,
		http.StatusOK, code
	record.Begin(l.instance.ID, l.instance.Kind.Name, t.since)
	record.Series = l.instance.Series
	record.Ended = time.Since(t.since)
}

// finish records a response that has ended.
func (l *relay) finish(record *calls.Record) {
	l.doors.options.Recorder.Finish(record)
	l.touch()
	l.hush()
}

// endTurns ends the remaining turns when the connection ends: responses that were cut
// short are paid as estimated, also responses that a client asked for and did not wait for.
// If the backend has left, responses that it had not begun cost nothing.
func (l *relay) endTurns() {
	l.takeExpected().giveBack()
	l.mu.Lock()
	asked, running, hasLeft, isLate := l.asked, l.running, l.hasLeft, l.isLate
	l.asked, l.running = nil, map[string]*turn{}
	for id, t := range running {
		l.remember(id, t)
	}
	l.mu.Unlock()
	code := schema.CodeCancelled
	switch {
	case isLate:
		code = schema.CodeUpstreamTimeout
	case hasLeft:
		code = schema.CodeUpstreamTruncated
	}
	for _, t := range asked {
		if hasLeft {
			t.giveBack()
			continue
		}
		t.since = t.account.Record.Started
		l.settle(t, schema.Usage{}, code)
	}
	for _, t := range running {
		l.settle(t, schema.Usage{}, code)
	}
}

// isBusy reports whether a response is being made, or asked for.
func (l *relay) isBusy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.isLost && len(l.running)+len(l.asked)+l.asking > 0
}

// stopResponses asks the backend to end the responses that it makes for a client who has
// left, and waits a little for it to report their usage.
func (l *relay) stopResponses() {
	l.mu.Lock()
	cancels := [][]byte{cancelOf("")}
	for id := range l.running {
		if len(l.running) > 1 {
			cancels = append(cancels, cancelOf(id))
		}
	}
	l.mu.Unlock()
	if !l.isBusy() || l.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, lastWords)
	defer cancel()
	for _, message := range cancels {
		if l.backend.Write(ctx, websocket.MessageText, message) != nil {
			return
		}
	}
	defer l.hush() // the watch may wait, too
	for l.isBusy() {
		select {
		case <-ctx.Done():
			return
		case <-l.quiet:
		}
	}
}
