package batches

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

func failure(status int, code string) Answer {
	return Answer{Status: status, Code: code, Body: []byte(`{"error":{"message":"not now"}}`)}
}

// meter answers so many lines in each second, and refuses the others.
type meter struct {
	mu          sync.Mutex
	second      int64
	used, over  int
	most        int
	saysHowLong bool
}

func (m *meter) answer(call Call) Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now().Unix(); now != m.second {
		m.second, m.used = now, 0
	}
	if m.used++; m.used <= m.most {
		return answered(call)
	}
	m.over++
	refusal := failure(http.StatusTooManyRequests, schema.CodeUpstreamRateLimit)
	if m.saysHowLong {
		refusal.RetryAfter = time.Second
	}
	return refusal
}

func TestThePaceThatABackendAllowsIsLearned(t *testing.T) {
	for _, c := range []struct {
		most, lines int
		says        bool
		within      time.Duration
	}{
		{3, 100, true, 2 * time.Minute}, {3, 100, false, 2 * time.Minute}, {50, 2000, true, 3 * time.Minute}, {1, 30, true, 3 * time.Minute},
	} {
		t.Run(fmt.Sprint(c.most, " a second, tells ", c.says), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, b := newHouse(t), newBackend()
				m := &meter{most: c.most, saysHowLong: c.says}
				b.room, b.takes, b.answer = 64, 20*time.Millisecond, m.answer
				e := h.open(b)
				defer start(e)()
				p := h.await(e, h.submit(e, linesOf(c.lines)).ID)
				if p.State != Completed || p.Counts.Done != c.lines {
					t.Errorf("the batch ended as %s with %+v", p.State, p.Counts)
				}
				if took := p.Ended.Sub(p.Started); took > c.within {
					t.Errorf("%d lines took %s", c.lines, took)
				}
				if m.over > 64+c.lines/2 {
					t.Errorf("the backend had to refuse %d lines", m.over)
				}
			})
		})
	}
}

func TestWhatABackendAsksToWaitIsWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		begun := sync.OnceValue(time.Now)
		b.room, b.takes = 8, time.Second
		b.answer = func(call Call) Answer {
			if over := begun().Add(2 * time.Hour); time.Now().Before(over) {
				refusal := failure(http.StatusTooManyRequests, schema.CodeUpstreamRateLimit)
				refusal.RetryAfter = time.Until(over)
				return refusal
			}
			return answered(call)
		}
		e := h.open(b)
		defer start(e)()
		p := h.await(e, h.submit(e, linesOf(20)).ID)
		calls := 0
		for _, n := range b.ran() {
			calls += n
		}
		if p.Counts.Done != 20 || calls > 20+8 {
			t.Errorf("the batch ended with %+v after %d calls", p.Counts, calls)
		}
	})
}

// A backend whose clock is wrong asks for years. It is tried again within six hours.
func TestAnAbsurdWaitIsTriedAgain(t *testing.T) {
	for name, code := range map[string]string{"too many": schema.CodeUpstreamRateLimit, "away": schema.CodeUpstreamAuth} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, b := newHouse(t), newBackend()
				began := time.Now()
				b.answer = func(call Call) Answer {
					if time.Since(began) < time.Minute {
						return Answer{Status: 429, Code: code, RetryAfter: 30 * 365 * 24 * time.Hour}
					}
					return answered(call)
				}
				e := h.open(b)
				defer start(e)()
				p := h.await(e, h.submit(e, linesOf(5)).ID)
				if p.State != Completed || p.Counts.Done != 5 || time.Since(began) > 7*time.Hour {
					t.Errorf("after %s the batch is %s with %+v", time.Since(began), p.State, p.Counts)
				}
			})
		})
	}
}

func TestAnOutageIsWaitedOut(t *testing.T) {
	unreached := failure(http.StatusBadGateway, schema.CodeUpstreamError)
	unreached.IsUnreached = true
	for name, answer := range map[string]Answer{
		"nothing listens":     unreached,
		"it loads its model":  failure(http.StatusServiceUnavailable, schema.CodeUpstreamError),
		"a proxy answers 502": failure(http.StatusBadGateway, schema.CodeUpstreamError),
		"a proxy answers 504": failure(http.StatusGatewayTimeout, schema.CodeUpstreamError),
		"it hangs":            failure(http.StatusGatewayTimeout, schema.CodeUpstreamTimeout),
		"it is overloaded":    failure(529, schema.CodeUpstreamError),
		"its key is wrong":    failure(http.StatusBadGateway, schema.CodeUpstreamAuth),
		"it breaks off":       {},
	} {
		for _, lasts := range []time.Duration{40 * time.Second, time.Hour} {
			t.Run(fmt.Sprint(name, " for ", lasts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h, b := newHouse(t), newBackend()
					h.docs, h.leases = documents.NewMemory(), documents.NewMemory()
					from := time.Now().Add(10 * time.Second)
					until, lost := from.Add(lasts), 0
					b.answer = func(call Call) Answer {
						if now := time.Now(); now.Before(from) || now.After(until) {
							return answered(call)
						}
						b.mu.Lock()
						lost++
						b.mu.Unlock()
						return answer
					}
					e := h.open(b)
					defer start(e)()
					made := h.submit(e, linesOf(300))
					<-time.After(30 * time.Second)
					p, err := e.Get(context.Background(), owner.Scope(), made.ID)
					h.check(err)
					if p.Problem.String() == "" || strings.Contains(p.Problem.String(), "no slot") {
						t.Errorf("a batch that waits for its backend says %q", p.Problem)
					}
					p = h.await(e, made.ID)
					if p.State != Completed || p.Counts.Done != 300 {
						t.Errorf("the batch ended as %s with %+v", p.State, p.Counts)
					}
					if took := p.Ended.Sub(until); took > 10*time.Minute {
						t.Errorf("it took %s after the outage", took)
					}
					if most := 20 + int(lasts/(25*time.Second)); lost > most {
						t.Errorf("%d lines were sent in vain", lost)
					}
				})
			})
		}
	}
}

func TestALineThatBreaksItsBackendFailsWhileOthersAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		b.answer = func(call Call) Answer {
			if call.CustomID == "line-3" {
				return failure(http.StatusBadGateway, schema.CodeUpstreamError)
			}
			return answered(call)
		}
		e := h.open(b)
		defer start(e)()
		p := h.await(e, h.submit(e, linesOf(200)).ID)
		if p.State != Completed || p.Counts.Done != 199 || b.ran()["line-3"] != h.sets.Attempts+1 {
			t.Errorf("the batch ended as %s with %+v, the line ran %d times", p.State, p.Counts, b.ran()["line-3"])
		}
		if took := p.Ended.Sub(p.Started); took > 2*time.Minute {
			t.Errorf("one line held the others up for %s", took)
		}
	})
}

// A line that ends its backends is sent again only so often, and one that was under way beside it
// is answered later. Neither holds the others up.
func TestALineThatEndsItsBackendsFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		began, sent := time.Now(), 0
		b.answer = func(call Call) Answer {
			refusal := failure(http.StatusServiceUnavailable, schema.CodeUpstreamError)
			refusal.RetryAfter, refusal.NoRetry = 30*time.Second, true
			switch {
			case call.CustomID == "line-3":
				sent++
				return refusal
			case call.CustomID == "line-4" && time.Since(began) < time.Minute:
				return refusal
			}
			return answered(call)
		}
		e := h.open(b)
		defer start(e)()
		p := h.await(e, h.submit(e, linesOf(200)).ID)
		if p.State != Completed || p.Counts.Done != 199 || sent != h.sets.Attempts {
			t.Errorf("the batch ended as %s with %+v, the line ran %d times", p.State, p.Counts, sent)
		}
		if took := p.Ended.Sub(p.Started); took > 2*time.Minute {
			t.Errorf("one line held the others up for %s", took)
		}
	})
}

func TestAModelThatWasServedIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct{ first, then Presence }{
		"it was removed and added again":             {Served, Absent},
		"its backend has not told its models again":  {Served, Unclear},
		"its backend had not told its models before": {Unclear, Unclear},
		"one that cannot be asked may have it":       {Unclear, Absent},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, b := newHouse(t), newBackend()
				h.docs, h.leases = documents.NewMemory(), documents.NewMemory()
				var now atomic.Int32
				set := func(p Presence) { now.Store(int32(p)) }
				set(c.first)
				b.presence = func(string) Presence { return Presence(now.Load()) }
				e := h.open(b)
				stop := start(e)
				made := h.submit(e, linesOf(200))
				<-time.After(20 * time.Second)
				if c.first == Unclear && c.then == Absent {
					set(Served) // for a while
					<-time.After(20 * time.Second)
				}
				stop() // the gateway begins anew while the model is not there
				ran := len(b.ran())
				set(c.then)
				h.leases = documents.NewMemory()
				e = h.open(b)
				defer start(e)()
				<-time.After(time.Hour)
				p, err := e.Get(context.Background(), owner.Scope(), made.ID)
				h.check(err)
				if p.State != InProgress || p.Counts.Failed > 0 || len(b.ran()) != ran || !strings.Contains(p.Problem.String(), "the model m is not served now") {
					t.Errorf("meanwhile the batch is %s with %+v, %d and %d lines ran, and it says %q", p.State, p.Counts, ran, len(b.ran()), p.Problem)
				}
				set(Served)
				p = h.await(e, made.ID)
				if p.State != Completed || p.Counts.Done != 200 {
					t.Errorf("the batch ended as %s with %+v", p.State, p.Counts)
				}
			})
		})
	}
}

func TestAModelThatNobodyEverServedFailsItsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		b.presence = func(model string) Presence {
			if model == "m" {
				return Served
			}
			return Absent
		}
		b.answer = func(call Call) Answer {
			if !strings.Contains(string(call.Body), `"m"`) {
				unknown := failure(http.StatusServiceUnavailable, schema.CodeServiceUnavailable)
				unknown.IsUnknown, unknown.NoRetry = true, true
				return unknown
			}
			return answered(call)
		}
		e := h.open(b)
		defer start(e)()
		p := h.await(e, h.submit(e, linesOf(3)+strings.Replace(lineOf("x"), `"model":"m"`, `"model":"typo"`, 1)).ID)
		if p.State != Completed || p.Counts.Done != 3 || p.Counts.Failed != 1 || b.ran()["x"] != 1 {
			t.Errorf("the batch ended as %s with %+v, calls %v", p.State, p.Counts, b.ran())
		}
		if p.Ended.Sub(p.Started) > time.Minute {
			t.Errorf("it took %s", p.Ended.Sub(p.Started))
		}
		if len(e.paces) > 1 {
			t.Errorf("names that nobody serves are remembered: %v", e.paces)
		}
	})
}

func TestTurnsGoByOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		b.room = 1
		e := h.open(b)
		defer start(e)()
		for range 20 {
			h.submit(e, linesOf(50))
		}
		<-time.After(10 * time.Second)
		bob := files.Owner{Key: "bob", Issue: "1", Tenant: "red"}
		h.owner = bob
		made := h.submit(e, linesOf(20))
		<-time.After(45 * time.Second)
		p, err := e.Get(context.Background(), bob.Scope(), made.ID)
		h.check(err)
		if p.State != Completed {
			t.Errorf("beside twenty batches of another owner, 20 lines of a second are %s: %+v", p.State, p.Counts)
		}
	})
}

func TestTheExpectedEndKnowsOfABudgetThatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		h.sets.WaitForBudget = true
		reset := time.Now().Add(6 * time.Hour)
		b.answer = func(call Call) Answer {
			if b.count(call.CustomID) == 1 && len(b.ran()) > 10 && time.Now().Before(reset) {
				used := failure(http.StatusTooManyRequests, schema.CodeBudgetExceeded)
				used.RetryAfter, used.NoRetry = time.Until(reset), true
				return used
			}
			return answered(call)
		}
		e := h.open(b)
		defer start(e)()
		made := h.submit(e, linesOf(40))
		<-time.After(20 * time.Second)
		p, err := e.Get(context.Background(), owner.Scope(), made.ID)
		h.check(err)
		if p.End.Before(reset) || p.End.After(reset.Add(time.Hour)) {
			t.Errorf("it is expected to end at %s, and the budget is there at %s", p.End, reset)
		}
	})
}
