package batches

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

func TestEveryLineIsAnsweredOnceAndInItsPlace(t *testing.T) {
	for _, master := range []string{"", "0123456789abcdef0123456789abcdef"} {
		t.Run("key "+master, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, b := newHouse(t), newBackend()
				h.keys, _ = seal.New(master, "")
				b.answer = func(call Call) Answer {
					if call.CustomID == "line-7" {
						return Answer{Status: http.StatusBadRequest, Code: schema.CodeInvalidValue, Body: []byte(`{"error":{"message":"no"}}`)}
					}
					return answered(call)
				}
				e := h.open(b)
				defer start(e)()
				p := h.await(e, h.submit(e, linesOf(100)).ID)
				if p.State != Completed || p.Counts != (Counts{Done: 99, Failed: 1, Prompt: 198, Completion: 297, Cost: 495}) {
					t.Errorf("the batch ended as %s with %+v", p.State, p.Counts)
				}
				var want []string
				for i := range 100 {
					if i != 7 {
						want = append(want, fmt.Sprintf("line-%d", i))
					}
				}
				output := h.results(e, p.Output)
				expectIDs(t, output, want...)
				if got := string(output[3].Response.Body); got != `{"said":"line-3"}` {
					t.Errorf("line 3 has the answer %s", got)
				}
				failed := h.results(e, p.Errors)
				expectIDs(t, failed, "line-7")
				if failed[0].Response.Status != http.StatusBadRequest {
					t.Errorf("the failed line has the status %d", failed[0].Response.Status)
				}
				for id, n := range b.ran() {
					if n != 1 {
						t.Errorf("%s ran %d times", id, n)
					}
				}
				if b.most > b.room {
					t.Errorf("%d lines ran at a time, and there was room for %d", b.most, b.room)
				}
				if _, err := os.Stat(e.folderOf(p.ID)); !os.IsNotExist(err) {
					t.Errorf("the journals are still there: %v", err)
				}
			})
		})
	}
}

func TestContentsAndAnswersAreSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		h.keys, _ = seal.New("0123456789abcdef0123456789abcdef", "")
		b.takes = time.Minute
		e := h.open(b)
		defer start(e)()
		made := h.submit(e, linesOf(50))
		<-time.After(90 * time.Second) // some lines have ended
		seen := 0
		err := filepath.Walk(h.folder, func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() || strings.Contains(path, "documents") {
				return err
			}
			data, err := os.ReadFile(path)
			if strings.Contains(string(data), "line-") {
				t.Errorf("%s can be read by everybody", path)
			}
			seen++
			return err
		})
		if err != nil || seen < 2 {
			t.Errorf("%d files were looked at, %v", seen, err)
		}
		_, err = e.Cancel(context.Background(), owner.Scope(), made.ID)
		h.check(err)
		h.await(e, made.ID)
	})
}

func TestBadFilesFailWithTheirLines(t *testing.T) {
	good := lineOf("a")
	for _, c := range []struct {
		name, text, code string
		line             int
	}{
		{"no JSON", good + "\n{nope\n", "invalid_json_line", 2},
		{"a number", "7\n", "invalid_request", 1},
		{"no custom_id", strings.Replace(good, `"custom_id":"a",`, "", 1), "missing_required_parameter", 1},
		{"a duplicate custom_id", good + "\n\n" + good, "duplicate_custom_id", 3},
		{"another method", strings.Replace(good, "POST", "GET", 1), "invalid_method", 1},
		{"another endpoint", strings.Replace(good, chatEndpoint, "/v1/embeddings", 1), "invalid_url", 1},
		{"no body", `{"custom_id":"a","method":"POST","url":"/v1/chat/completions"}`, "missing_required_parameter", 1},
		{"no model", strings.Replace(good, `"model":"m",`, "", 1), "missing_required_parameter", 1},
		{"a stream", strings.Replace(good, `"model":"m"`, `"model":"m","stream":true`, 1), "invalid_value", 1},
		{"a huge line", good + "\n" + strings.Repeat(" ", 5000) + lineOf(strings.Repeat("x", 5000)) + "\n" + lineOf("b"), "line_too_long", 2},
		{"nothing", "\n \r\n", "empty_file", 0},
		{"too many lines", linesOf(6), "too_many_lines", 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, b := newHouse(t), newBackend()
				h.sets.MaxLines = 5
				e := h.open(b)
				defer start(e)()
				p := h.await(e, h.submit(e, c.text).ID)
				if p.State != Failed || len(p.Faults) != 1 || p.Faults[0].Code != c.code || p.Faults[0].Line != c.line {
					t.Errorf("the batch ended as %s with %+v, want %s in line %d", p.State, p.Faults, c.code, c.line)
				}
				if len(b.ran()) > 0 {
					t.Errorf("lines of a bad file ran: %v", b.ran())
				}
			})
		})
	}
}

func TestFilesOfOtherSystemsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.open(newBackend())
		defer start(e)()
		p := h.await(e, h.submit(e, "\ufeff"+lineOf("a")+"\r\n\r\n"+lineOf("b")+"\r\n  "+lineOf("c")).ID)
		expectIDs(t, h.results(e, p.Output), "a", "b", "c")
	})
}

func TestWhatABackendCannotDoIsTriedAFewTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		b.answer = func(call Call) Answer {
			if call.CustomID == "line-1" || call.CustomID == "line-2" && b.count("line-2") < 3 {
				return Answer{Status: http.StatusInternalServerError, Code: schema.CodeUpstreamError, Body: []byte(`{"error":{"message":"broken"}}`)}
			}
			return answered(call)
		}
		e := h.open(b)
		defer start(e)()
		p := h.await(e, h.submit(e, linesOf(3)).ID)
		expectIDs(t, h.results(e, p.Output), "line-0", "line-2")
		expectIDs(t, h.results(e, p.Errors), "line-1")
		if b.ran()["line-1"] != 3 || b.ran()["line-2"] != 3 {
			t.Errorf("the lines ran %v times, want 3", b.ran())
		}
	})
}

func TestWhatIsRefusedNowRunsLater(t *testing.T) {
	for _, c := range []struct {
		code    string
		wait    bool // for the budget
		settled bool // the line has an answer in the end
	}{
		{schema.CodeKeyRateLimited, false, true}, {schema.CodeNoSlot, false, true}, {schema.CodeServiceUnavailable, false, true},
		{schema.CodeBudgetExceeded, true, true}, {schema.CodeBudgetExceeded, false, false},
	} {
		t.Run(fmt.Sprint(c.code, c.wait), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, b := newHouse(t), newBackend()
				h.sets.WaitForBudget = c.wait
				began := time.Now()
				b.answer = func(call Call) Answer {
					if time.Since(began) < 3*time.Minute {
						return Answer{Status: http.StatusTooManyRequests, Code: c.code, Said: say.Plain("the budget is used up"), Body: []byte(`{"error":{"message":"the budget is used up"}}`)}
					}
					return answered(call)
				}
				e := h.open(b)
				defer start(e)()
				made := h.submit(e, linesOf(2))
				<-time.After(time.Minute)
				p, err := e.Get(context.Background(), owner.Scope(), made.ID)
				h.check(err)
				want := "the budget is used up"
				if c.code == schema.CodeNoSlot { // it only waits
					want = "no slot is free that others do not need"
				}
				if c.settled && p.Problem.String() != want {
					t.Errorf("got the problem %q of a batch that waits, want %q", p.Problem, want)
				}
				p = h.await(e, made.ID)
				if p.State != Completed || (p.Counts.Done == 2) != c.settled {
					t.Errorf("the batch ended as %s with %+v", p.State, p.Counts)
				}
			})
		})
	}
}

func TestACancelledBatchKeepsWhatWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		e := h.open(b)
		defer start(e)()
		made := h.submit(e, linesOf(1000))
		<-time.After(10 * time.Second)
		p, err := e.Cancel(context.Background(), owner.Scope(), made.ID)
		h.check(err)
		if p.State != Cancelling {
			t.Errorf("the batch is %s", p.State)
		}
		p = h.await(e, made.ID)
		done := len(h.results(e, p.Output))
		if p.State != Cancelled || done == 0 || done > 100 || done != p.Counts.Done || p.Errors != "" {
			t.Errorf("the batch ended as %s with %d results, %+v", p.State, done, p.Counts)
		}
		if len(b.ran()) != done {
			t.Errorf("%d lines ran, and %d have results", len(b.ran()), done)
		}
		if _, err := e.Cancel(context.Background(), owner.Scope(), made.ID); !errors.Is(err, ErrEnded) {
			t.Errorf("cancelling it again gives %v", err)
		}
	})
}

func TestABatchExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		b.takes = time.Minute
		h.sets.Window = schema.Duration(10 * time.Minute)
		e := h.open(b)
		defer start(e)()
		p := h.await(e, h.submit(e, linesOf(1000)).ID)
		if p.State != Expired || p.Counts.Done+len(h.results(e, p.Errors)) != 1000 {
			t.Fatalf("the batch ended as %s with %+v", p.State, p.Counts)
		}
		if code := h.results(e, p.Errors)[0].Error.Code; code != "batch_expired" {
			t.Errorf("a line that did not run has the error %s", code)
		}
	})
}

func TestABatchStopsWhenItsKeyIsRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		e := h.open(b)
		defer start(e)()
		made := h.submit(e, linesOf(1000))
		<-time.After(10 * time.Second)
		b.mu.Lock()
		b.revoked = true
		b.mu.Unlock()
		p := h.await(e, made.ID)
		if p.State != Cancelled || len(p.Faults) != 1 || p.Faults[0].Code != "invalid_api_key" || p.Counts.Done == 0 {
			t.Errorf("the batch ended as %s with %+v, %+v", p.State, p.Faults, p.Counts)
		}
	})
}

// slow is a store whose changes take a while.
type slow struct{ documents.Store }

func (s slow) Put(ctx context.Context, doc documents.Document) (int64, error) {
	<-time.After(5 * time.Second)
	return s.Store.Put(ctx, doc)
}

func TestTheEndOfABatchWhoseKeyIsRevokedSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		// Its lines have ended long before the store knows that it is to stop.
		h.docs, h.leases = slow{documents.NewMemory()}, documents.NewMemory()
		e := h.open(b)
		defer start(e)()
		made := h.submit(e, linesOf(1000))
		<-time.After(30 * time.Second)
		b.mu.Lock()
		b.revoked = true
		b.mu.Unlock()
		p := h.await(e, made.ID)
		if p.State != Cancelled || len(p.Faults) != 1 || p.Faults[0].Code != "invalid_api_key" || p.Counts.Done == 0 {
			t.Errorf("the batch ended as %s with %+v, %+v", p.State, p.Faults, p.Counts)
		}
	})
}

func TestBatchesHaveTheirTurnsInRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		b.room = 1
		e := h.open(b)
		defer start(e)()
		long := h.submit(e, linesOf(200))
		<-time.After(10 * time.Second)
		short := h.await(e, h.submit(e, linesOf(10)).ID)
		if took := short.Ended.Sub(short.Created); took > 30*time.Second {
			t.Errorf("a short batch took %s beside a long one", took)
		}
		_, err := e.Cancel(context.Background(), owner.Scope(), long.ID)
		h.check(err)
		h.await(e, long.ID)
	})
}

func TestBatchesAreSeenByTheirTenantAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.open(newBackend())
		defer start(e)()
		made := h.submit(e, linesOf(1))
		h.await(e, made.ID)
		ctx := context.Background()
		if _, err := e.Get(ctx, "tenant red", made.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("another tenant gets %v", err)
		}
		if err := e.Delete(ctx, "tenant red", made.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("another tenant deletes it: %v", err)
		}
		if all, _, err := e.List(ctx, Listing{Scope: "tenant red", Limit: 10}); len(all) > 0 || err != nil {
			t.Errorf("another tenant lists %v, %v", all, err)
		}
		if all, _, err := e.List(ctx, Listing{Scope: owner.Scope(), Limit: 10}); len(all) != 1 || err != nil {
			t.Errorf("the tenant lists %v, %v", all, err)
		}
	})
}

func TestAFullDiskIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		e := h.open(b)
		full := time.Now().Add(20 * time.Second)
		e.before = func(durable.Step) error {
			if time.Now().Before(full) {
				return fmt.Errorf("write answers: %w", os.ErrClosed)
			}
			return nil
		}
		defer start(e)()
		made := h.submit(e, linesOf(20))
		<-time.After(10 * time.Second)
		p, err := e.Get(context.Background(), owner.Scope(), made.ID)
		h.check(err)
		if !strings.HasPrefix(p.Problem.String(), "its answers cannot be written") {
			t.Errorf("the batch says %q", p.Problem)
		}
		p = h.await(e, made.ID)
		if p.Counts.Done != 20 || len(h.results(e, p.Output)) != 20 {
			t.Errorf("the batch ended with %+v", p.Counts)
		}
		for id, n := range b.ran() {
			if n != 1 {
				t.Errorf("%s ran %d times, although its answer was there", id, n)
			}
		}
	})
}

func TestOldBatchesAndFilesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.bounds.Retention = schema.Duration(time.Minute)
		e := h.open(newBackend())
		defer start(e)()
		made := h.submit(e, linesOf(3))
		h.await(e, made.ID)
		<-time.After(h.bounds.Retention.Std() + 2*expireEvery)
		if _, err := e.Get(context.Background(), owner.Scope(), made.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("the batch is there after its time: %v", err)
		}
		left, err := os.ReadDir(filepath.Join(h.folder, "contents"))
		if err != nil || len(left) > 0 {
			t.Errorf("contents are left: %v, %v", left, err)
		}
	})
}

func TestThreeGatewaysDrainOneBatchAndOneThatHangsLosesItsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.shared, h.docs, h.leases = true, documents.NewMemory(), documents.NewMemory()
		backends := []*backend{newBackend(), newBackend(), newBackend()}
		var engines []*Engine
		for _, b := range backends {
			e := h.open(b)
			engines = append(engines, e)
			t.Cleanup(start(e))
		}
		hung := h.open(hanging{})
		hung.o.Leases = deaf{h.leases, time.Now().Add(20 * time.Second)}
		defer start(hung)()
		made := h.submit(engines[0], linesOf(800))
		p := h.await(engines[1], made.ID)
		if p.State != Completed || p.Counts.Done != 800 {
			t.Fatalf("the batch ended as %s with %+v", p.State, p.Counts)
		}
		if got := len(h.results(engines[2], p.Output)); got != 800 {
			t.Errorf("there are %d results", got)
		}
		for n, b := range backends {
			if len(b.ran()) < 50 {
				t.Errorf("gateway %d ran %d lines", n, len(b.ran()))
			}
		}
		if took := p.Ended.Sub(p.Started); took > 800*time.Second/12+time.Minute {
			t.Errorf("three gateways with four lines at a time took %s", took)
		}
	})
}

// hanging is a runner whose lines never end by themselves.
type hanging struct{}

func (hanging) Presence(string, string) Presence { return Served }

func (hanging) Room(string, string) int { return 4 }

func (hanging) RoomInAll() int { return math.MaxInt }

func (hanging) AwaitRoom(ctx context.Context, _, _ string, _ func() int) { <-ctx.Done() }

func (hanging) Stands(files.Owner) bool { return true }

func (hanging) Run(ctx context.Context, _ Call) Answer {
	<-ctx.Done()
	return Answer{}
}

// deaf is a store that a gateway does not reach any more from some time on.
type deaf struct {
	documents.Store
	from time.Time
}

func (d deaf) Put(ctx context.Context, doc documents.Document) (int64, error) {
	if time.Now().After(d.from) {
		return 0, os.ErrDeadlineExceeded
	}
	return d.Store.Put(ctx, doc)
}

// A line that finds its slot taken runs again soon, before others of its batch, and keeps none of
// them from running meanwhile; the batch reports that it waits.
func TestALineThatMissesItsSlotRunsAgain(t *testing.T) {
	const waits = "no slot is free that others do not need"
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		b.takes = 10 * time.Millisecond
		b.answer = func(call Call) Answer {
			if call.CustomID == "line-0" && b.ran()["line-0"] <= 20 {
				return Answer{Status: 429, Code: schema.CodeNoSlot}
			}
			return answered(call)
		}
		e := h.open(b)
		defer start(e)()
		made := h.submit(e, linesOf(40))
		<-time.After(2 * time.Second)
		p, err := e.Get(t.Context(), owner.Scope(), made.ID)
		h.check(err)
		if p.Counts.Done != 39 || p.Problem.String() != waits || b.ran()["line-0"] < 4 {
			t.Errorf("got %d lines done, %d tries of the first and the problem %q after 2 s, want 39 done, 4 or more tries "+
				"and the problem %q", p.Counts.Done, b.ran()["line-0"], p.Problem, waits)
		}
		if p = h.await(e, made.ID); p.Counts.Done != 40 || p.Counts.Failed != 0 {
			t.Errorf("got %+v, want 40 lines done", p.Counts)
		}
	})
}

// No more lines run at a time than there is room for in all.
func TestLinesKeepToTheRoomInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		b.inAll = 2
		e := h.open(b)
		defer start(e)()
		if p := h.await(e, h.submit(e, linesOf(20)).ID); p.Counts.Done != 20 || b.most != 2 {
			t.Errorf("got %d lines done, %d at a time, want 20 and 2", p.Counts.Done, b.most)
		}
	})
}
