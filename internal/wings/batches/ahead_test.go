package batches

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// waiting returns how many bytes of lines wait in memory, as the jobs say and as is counted.
func (e *Engine) waiting() (held, counted int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range e.jobs {
		j.mu.Lock()
		for _, p := range j.window {
			held += int64(len(p.body))
		}
		j.mu.Unlock()
	}
	e.ahead.mu.Lock()
	defer e.ahead.mu.Unlock()
	for _, bytes := range e.ahead.held {
		counted += bytes
	}
	return held, counted
}

// longLines are lines of some thousand bytes.
func longLines(n int) string {
	var text strings.Builder
	for i := range n {
		text.WriteString(strings.Replace(lineOf(fmt.Sprintf("line-%d", i)), `"messages":[]`, `"messages":["`+strings.Repeat("x", 3000)+`"]`, 1) + "\n")
	}
	return text.String()
}

// The lines of many batches that wait to run take no more memory than there is for them, and
// another owner's run beside them.
func TestLinesThatWaitAreBoundedInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		const most, line = 64 << 10, 4 << 10
		h.ahead = func() int64 { return most }
		b := newBackend()
		b.answer = func(call Call) Answer {
			if call.Owner == owner {
				return Answer{Status: 503, Code: "circuit_breaker_open"} // its lines wait
			}
			return answered(call)
		}
		e := h.open(b)
		stop := start(e)
		for range 20 {
			h.submit(e, longLines(40))
		}
		<-time.After(10 * time.Second)
		if held, counted := e.waiting(); held > counted || held < most/2 || counted > most+line {
			t.Errorf("%d bytes wait in memory, and %d are counted, of %d", held, counted, most)
		}
		h.owner = files.Owner{Key: "bob", Issue: "1"}
		other := h.submit(e, longLines(40))
		if p := h.await(e, other.ID); p.Counts.Done != 40 || p.Ended.Sub(p.Created) > 5*time.Minute {
			t.Errorf("a batch of another owner took %s: %+v", p.Ended.Sub(p.Created), p.Counts)
		}
		all, _, err := e.List(context.Background(), Listing{Scope: owner.Scope(), Limit: 100})
		h.check(err)
		for _, p := range all {
			_, err := e.Cancel(context.Background(), owner.Scope(), p.ID)
			h.check(err)
			h.await(e, p.ID)
		}
		if held, counted := e.waiting(); held != 0 || counted != 0 {
			t.Errorf("%d bytes wait in memory, and %d are counted, after all batches have ended", held, counted)
		}
		stop()
	})
}
