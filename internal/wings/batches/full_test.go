package batches

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// long answers with so many bytes.
func long(call Call, bytes int) Answer {
	a := answered(call)
	a.Body = []byte(`{"said":"` + strings.Repeat("x", bytes) + `"}`)
	return a
}

func TestABatchWhoseAnswersHaveNoRoomEndsWithWhatItHas(t *testing.T) {
	for _, form := range []Form{OpenAI, Anthropic} {
		for name, inAll := range map[string]bool{"of the owner": false, "of all": true} {
			t.Run(fmt.Sprint(form, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h, b := newHouse(t), newBackend()
					h.bounds.MaxBytesPerKey = 64 << 10
					if inAll {
						h.bounds.MaxBytesPerKey, h.bounds.MaxBytes = 1<<30, 64<<10
					}
					b.answer = func(call Call) Answer { return long(call, 2000) }
					e := h.open(b)
					defer start(e)()
					made := h.submit(e, linesOf(100))
					h.check(e.setForm(made.ID, form))
					<-time.After(25 * time.Second)
					p, err := e.Get(context.Background(), owner.Scope(), made.ID)
					h.check(err)
					if !strings.HasPrefix(p.Problem.String(), "its answers have no room: ") || !strings.Contains(p.Problem.String(), "files.max-bytes") {
						t.Errorf("the batch says %q", p.Problem)
					}
					if still := e.Stats(time.Now()).Stalled; still < 5*time.Second {
						t.Errorf("it is said to stand still for %s", still)
					}
					<-time.After(time.Minute)
					p, err = e.Get(context.Background(), owner.Scope(), made.ID)
					h.check(err)
					if p.State != Cancelled || len(p.Faults) != 1 || p.Faults[0].Code != schema.CodeStorageFull || p.Counts.Done < 10 || p.Counts.Done != len(b.ran()) {
						t.Fatalf("the batch is %s with %+v, %+v; %d lines ran", p.State, p.Faults, p.Counts, len(b.ran()))
					}
					if form == OpenAI {
						failed := h.results(e, p.Errors)
						if got := len(h.results(e, p.Output)); got != p.Counts.Done || len(failed) != 100-got || failed[0].Error.Code != schema.CodeStorageFull {
							t.Errorf("%d answers and %d errors can be read of %+v", got, len(failed), p.Counts)
						}
					}
				})
			})
		}
	}
}

// setForm changes the form of a batch that was just made.
func (e *Engine) setForm(id string, form Form) error {
	_, err := e.edit(context.Background(), id, func(b *Batch) bool {
		b.Form = form
		return true
	})
	return err
}

func TestABatchWhoseAnswersHaveNoRoomGoesOnWhenThereIsSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		h.bounds.MaxBytesPerKey = 64 << 10
		b.answer = func(call Call) Answer { return long(call, 2000) }
		e := h.open(b)
		defer start(e)()
		made := h.submit(e, linesOf(100))
		<-time.After(12 * time.Second)
		h.bounds.MaxBytesPerKey = 64 << 20
		if p := h.await(e, made.ID); p.State != Completed || p.Counts.Done != 100 {
			t.Errorf("the batch ended as %s with %+v", p.State, p.Counts)
		}
	})
}

func TestABatchWhoseAnswersHaveNoRoomIsCancelledAndExpires(t *testing.T) {
	for _, cancels := range []bool{true, false} {
		t.Run(fmt.Sprint("cancels ", cancels), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, b := newHouse(t), newBackend()
				h.bounds.MaxBytesPerKey = 64 << 10
				if !cancels {
					h.sets.Window = schema.Duration(12 * time.Second)
				}
				b.answer = func(call Call) Answer { return long(call, 2000) }
				e := h.open(b)
				defer start(e)()
				made := h.submit(e, linesOf(100))
				<-time.After(11 * time.Second)
				want := Expired
				if cancels {
					want = Cancelled
					_, err := e.Cancel(context.Background(), owner.Scope(), made.ID)
					h.check(err)
				}
				<-time.After(5 * time.Second)
				p, err := e.Get(context.Background(), owner.Scope(), made.ID)
				h.check(err)
				if p.State != want || len(p.Faults) > 0 || len(h.results(e, p.Output)) != p.Counts.Done || p.Counts.Done != len(b.ran()) {
					t.Errorf("the batch is %s with %+v, %+v", p.State, p.Faults, p.Counts)
				}
			})
		})
	}
}
