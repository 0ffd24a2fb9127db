package flight

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache"
)

// stream is an answer of so many parts, with a pause before each.
type stream struct {
	ctx   context.Context //nolint:containedctx // that of its call
	parts int
	pause time.Duration
	part  func(n int) string
	fails error // after the last part; nil for a complete answer
	at    int
}

func (*stream) Form() account.Form {
	return account.Form{ContentType: proxy.TypeEvents, Length: -1, Events: true}
}
func (s *stream) HasContent() bool { return s.at > 1 }
func (s *stream) IsComplete() bool { return false }
func (s *stream) Usage() schema.Usage {
	return schema.Usage{Known: true, Prompt: 10, Completion: int64(s.at), Total: int64(10 + s.at)}
}

func (s *stream) Next() ([]byte, error) {
	select {
	case <-time.After(s.pause):
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
	if s.at == s.parts {
		if s.fails != nil {
			return nil, s.fails
		}
		return nil, io.EOF
	}
	s.at++
	if s.part != nil {
		return []byte(s.part(s.at)), nil
	}
	return fmt.Appendf(nil, "%d ", s.at), nil
}

func text(parts int) string {
	var all strings.Builder
	for n := range parts {
		fmt.Fprintf(&all, "%d ", n+1)
	}
	return all.String()
}

// client is the sink of one that takes so long for each write.
type client struct {
	takes time.Duration
	// leaves is after how many writes it is gone; 0 for never.
	leaves int
	mu     sync.Mutex
	got    bytes.Buffer
	writes int
}

func (*client) Route(proxy.Route) {}
func (*client) Head(proxy.Head)   {}
func (c *client) Write(p []byte) (int, error) {
	return len(p), c.Send(p)
}

func (c *client) Send(p []byte) error {
	<-time.After(c.takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes++; c.leaves > 0 && c.writes > c.leaves {
		return errors.New("gone")
	}
	c.got.Write(p)
	return nil
}

// asUsed counts what a follower used.
func asUsed(u schema.Usage) schema.Usage { u.Cached = u.Prompt; return u }

// own says that no answer is for the first request only.
func own(err error) bool { return errors.Is(err, errOwn) }

var errOwn = errors.New("of the first request only")

func as(_ context.Context, a account.Answer) account.Answer { return a }

// copyTo reads an answer to its end for a client, as the proxy does.
func copyTo(answer account.Answer, to proxy.Sink) error {
	defer answer.(proxy.Shared).Close()
	if led, ok := answer.(proxy.Led); ok {
		_, detached := led.Detach(to)
		detached.Head(proxy.Head{Form: led.Form()})
		led.Failing(func(known *schema.Error, id string) []byte { return []byte(known.Message + " " + id) })
		err := pump(led, detached)
		if errors.Is(err, errLeft) {
			err = nil // as the proxy does
		}
		return errors.Join(led.Attach(err))
	}
	return pump(answer, to)
}

func pump(answer account.Answer, to proxy.Sink) error {
	for {
		part, err := answer.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := to.Send(part); err != nil {
			return err
		}
	}
}

// unnoticed sends no notices.
func unnoticed(time.Duration) func() { return func() {} }

// fly sends one request to the table. The answer of the first is made by call.
func fly(ctx context.Context, table *Table, to proxy.Sink, call func(ctx context.Context) (account.Answer, error)) (isFirst bool, err error) {
	f, isFirst := table.Board(ctx, answercache.Key{1}, schema.Normal)
	var answer account.Answer
	if isFirst {
		answer, err = f.Lead(Call{Next: call, IsOwn: own, Wrap: as, RequestID: "of the first"})
	} else {
		answer, err = f.Follow(ctx, asUsed, unnoticed)
	}
	if err != nil {
		return isFirst, err
	}
	return isFirst, copyTo(answer, to)
}

func limits() Limits { return Limits{Answer: 1 << 20, All: 64 << 20} }

// isEmpty fails unless nothing is left of the flights.
func isEmpty(t *testing.T, table *Table) {
	t.Helper()
	if s := table.Status(); s != (Status{}) {
		t.Errorf("left behind: %+v", s)
	}
}

// Whoever comes while the answer is written gets it from its beginning, and one call is
// made.
func TestFollowersGetTheStreamFromItsBeginning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, calls := NewTable(limits()), 0
		var clients sync.WaitGroup
		for n := range 10 {
			clients.Go(func() {
				<-time.After(time.Duration(n) * time.Second) // the last joins when nine of ten parts are there
				to := &client{}
				isFirst, err := fly(context.Background(), table, to, func(ctx context.Context) (account.Answer, error) {
					calls++
					return &stream{ctx: ctx, parts: 10, pause: time.Second}, nil
				})
				if isFirst != (n == 0) || err != nil || to.got.String() != text(10) {
					t.Errorf("request %d: first %t, %v, %q", n, isFirst, err, to.got.String())
				}
			})
		}
		clients.Wait()
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
		isEmpty(t, table)
	})
}

// A client that leaves does not end the call of the others, be it the first; the last does.
func TestTheCallEndsWithTheLastThatLeaves(t *testing.T) {
	t.Parallel()
	for _, leaving := range [][]int{{0}, {1}, {0, 1}, {0, 1, 2}, {2, 0, 1}} {
		synctest.Test(t, func(t *testing.T) {
			table := NewTable(limits())
			var ended atomic.Bool
			var clients sync.WaitGroup
			for n := range 3 {
				ctx, leave := context.WithCancel(context.Background())
				t.Cleanup(leave)
				clients.Go(func() {
					<-time.After(time.Duration(n) * time.Millisecond)
					to := &client{}
					_, err := fly(ctx, table, to, func(ctx context.Context) (account.Answer, error) {
						context.AfterFunc(ctx, func() { ended.Store(true) })
						return &stream{ctx: ctx, parts: 10, pause: time.Second}, nil
					})
					stays := true
					for _, who := range leaving {
						stays = stays && who != n
					}
					if stays && (err != nil || to.got.String() != text(10)) || !stays && !errors.Is(err, context.Canceled) {
						t.Errorf("%v leave, request %d got %v, %q", leaving, n, err, to.got.String())
					}
				})
				for i, who := range leaving {
					if who == n {
						time.AfterFunc(time.Duration(3+i)*time.Second, leave)
					}
				}
			}
			<-time.After(7 * time.Second)
			synctest.Wait()
			if ended.Load() != (len(leaving) == 3) {
				t.Errorf("%v leave: the call ended: %t", leaving, ended.Load())
			}
			clients.Wait()
			isEmpty(t, table)
		})
	}
}

// Slow clients, the first among them, do not slow down the others, and what is remembered
// for them is bounded.
func TestASlowClientDoesNotSlowDownTheOthers(t *testing.T) {
	t.Parallel()
	for slow := range 3 {
		synctest.Test(t, func(t *testing.T) {
			const parts, size = 1000, 4 << 10
			table := NewTable(Limits{Answer: 256 << 10, All: 64 << 20})
			large := func(n int) string { return strings.Repeat(string(rune('a'+n%26)), size) }
			began := time.Now()
			var clients sync.WaitGroup
			for n := range 3 {
				clients.Go(func() {
					<-time.After(time.Duration(n) * time.Millisecond)
					to := &client{}
					if n == slow {
						to.takes = time.Minute
					}
					_, err := fly(context.Background(), table, to, func(ctx context.Context) (account.Answer, error) {
						return &stream{ctx: ctx, parts: parts, pause: 10 * time.Millisecond, part: large}, nil
					})
					took := time.Since(began)
					if n == slow {
						var known *schema.Error
						if !errors.As(err, &known) || known.Code != schema.CodeOverloaded {
							t.Errorf("slow request %d: %v", n, err)
						}
						return
					}
					if err != nil || to.got.Len() != parts*size || took > 11*time.Second {
						t.Errorf("request %d took %s: %v, %d bytes", n, took, err, to.got.Len())
					}
				})
			}
			for range 10 {
				<-time.After(time.Second)
				if held := table.Status().Held; held > 256<<10+size {
					t.Errorf("%d bytes are held", held)
				}
			}
			clients.Wait()
			isEmpty(t, table)
		})
	}
}

// Alone, a slow client gets all of a large answer, which is read no faster than it reads.
func TestALoneSlowClientIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := NewTable(Limits{Answer: 64 << 10, All: 64 << 20})
		to := &client{takes: time.Second}
		var made atomic.Int64
		_, err := fly(context.Background(), table, to, func(ctx context.Context) (account.Answer, error) {
			time.AfterFunc(3*time.Second+time.Millisecond, func() {
				if n := made.Load(); n > 15 {
					t.Errorf("%d parts were read ahead of the client", n)
				}
			})
			return &stream{ctx: ctx, parts: 100, part: func(int) string {
				made.Add(1)
				return strings.Repeat("x", 32<<10)
			}}, nil
		})
		if err != nil || to.got.Len() != 100*32<<10 {
			t.Errorf("%v, %d bytes", err, to.got.Len())
		}
		isEmpty(t, table)
	})
}

// What is remembered of all answers is bounded, whether or not somebody follows.
func TestWhatIsRememberedOfAllAnswersIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := NewTable(Limits{Answer: 1 << 20, All: 1 << 20})
		var clients sync.WaitGroup
		for n := range 10 {
			for range 2 {
				clients.Go(func() {
					f, isFirst := table.Board(context.Background(), answercache.Key{byte(n)}, schema.Normal)
					var answer account.Answer
					if isFirst {
						answer, _ = f.Lead(Call{IsOwn: own, Wrap: as, Next: func(ctx context.Context) (account.Answer, error) {
							return &stream{ctx: ctx, parts: 100, pause: time.Second, part: func(int) string { return strings.Repeat("x", 5<<10) }}, nil
						}})
					} else {
						answer, _ = f.Follow(context.Background(), asUsed, unnoticed)
					}
					if err := copyTo(answer, &client{}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		for range 100 {
			<-time.After(time.Second)
			if held := table.Status().Held; held > 1<<20+10*smallWindow {
				t.Errorf("%d bytes are held", held)
			}
		}
		clients.Wait()
		isEmpty(t, table)
	})
}

// Errors that are the same for all are shared, in the form in which the first client got
// them; those that are not make each follower ask for itself.
func TestWhichErrorsAreShared(t *testing.T) {
	t.Parallel()
	common := schema.NewError(schema.CodeUpstreamError, say.Plain("The backend is broken."))
	for _, c := range []struct {
		name    string
		before  error // in place of an answer
		after   error // in the middle of it
		first   string
		follows string
	}{
		{"before the answer", common, nil, common.Message, common.Message},
		{"of the first only", errOwn, nil, errOwn.Error(), ErrNotShared.Error()},
		{"in the middle", nil, common, common.Message, common.Message},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := NewTable(limits())
			var clients sync.WaitGroup
			for n := range 3 {
				clients.Go(func() {
					<-time.After(time.Duration(n) * time.Millisecond)
					f, isFirst := table.Board(context.Background(), answercache.Key{1}, schema.Normal)
					var answer account.Answer
					var err error
					if isFirst {
						answer, err = f.Lead(Call{IsOwn: own, Wrap: as, Next: func(ctx context.Context) (account.Answer, error) {
							<-time.After(time.Second)
							return &stream{ctx: ctx, parts: 3, fails: c.after}, c.before
						}})
					} else {
						answer, err = f.Follow(context.Background(), asUsed, unnoticed)
					}
					if err == nil {
						shared := answer.(proxy.Shared)
						err = pump(answer, &client{})
						var known *schema.Error
						if errors.As(err, &known) {
							render := shared.Failing(func(_ *schema.Error, id string) []byte { return []byte("own form of " + id) })
							if got := string(render(known, "id")); got != "own form of id" {
								t.Errorf("%s: request %d is told %q", c.name, n, got)
							}
						}
						shared.Close()
					}
					want := c.first
					if !isFirst {
						want = c.follows
					}
					if err == nil || err.Error() != want {
						t.Errorf("%s: request %d got %v", c.name, n, err)
					}
				})
			}
			clients.Wait()
			isEmpty(t, table)
		})
	}
}

// A panic of the first request frees all, before the answer and in the middle of it; and so
// does the end of the gateway.
func TestAPanicAndAShutdownFreeAll(t *testing.T) {
	t.Parallel()
	stopping := errors.New("the gateway stops")
	for _, c := range []struct {
		name     string
		before   bool
		shutdown bool
	}{{"a panic before the answer", true, false}, {"a panic in the answer", false, false}, {"a shutdown", false, true}} {
		synctest.Test(t, func(t *testing.T) {
			table := NewTable(limits())
			ctx, stop := context.WithCancelCause(context.Background())
			defer stop(nil)
			var clients sync.WaitGroup
			for n := range 3 {
				clients.Go(func() {
					<-time.After(time.Duration(n) * time.Millisecond)
					defer func() {
						if p := recover(); p != nil && n != 0 {
							t.Errorf("request %d panicked: %v", n, p)
						}
					}()
					_, err := fly(ctx, table, &client{}, func(ctx context.Context) (account.Answer, error) {
						<-time.After(time.Second)
						if c.before {
							panic("on purpose")
						}
						return &stream{ctx: ctx, parts: 100, pause: time.Second, part: func(n int) string {
							if n == 5 && !c.shutdown {
								panic("on purpose")
							}
							return "x"
						}}, nil
					})
					if c.shutdown != errors.Is(err, stopping) {
						t.Errorf("%s: request %d got %v", c.name, n, err)
					}
				})
			}
			if c.shutdown {
				<-time.After(5 * time.Second)
				stop(stopping)
			}
			clients.Wait()
			isEmpty(t, table)
		})
	}
}

// Clients that come, are slow and leave at random times: whoever stays gets the whole
// answer or is told that it was too slow, as many calls are made as there were firsts, and
// nothing is left behind.
func TestRandomHistoriesOfFlights(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			table := NewTable(Limits{Answer: 200 + random.IntN(2000), All: int64(500 + random.IntN(5000))})
			var clients sync.WaitGroup
			for range 30 {
				comes, stays, takes := time.Duration(random.IntN(20_000)), time.Duration(random.IntN(20_000)), time.Duration(random.IntN(40))
				if random.IntN(2) == 0 {
					stays, takes = 1_000_000, 0
				}
				gone := random.IntN(4) * random.IntN(30)
				clients.Go(func() {
					<-time.After(comes * time.Millisecond)
					ctx, leave := context.WithCancel(context.Background())
					defer time.AfterFunc(stays*time.Millisecond, leave).Stop()
					defer leave()
					to := &client{takes: takes * time.Millisecond, leaves: gone}
					_, err := fly(ctx, table, to, func(ctx context.Context) (account.Answer, error) {
						return &stream{ctx: ctx, parts: 200, pause: 10 * time.Millisecond}, nil
					})
					var known *schema.Error
					switch got := to.got.String(); {
					case err == nil && got == text(200):
					case err == nil:
						t.Errorf("seed %d: an answer of %d bytes", seed, len(got))
					case errors.As(err, &known) && known.Code == schema.CodeOverloaded, ctx.Err() != nil, gone > 0:
						if !strings.HasPrefix(text(200), got) {
							t.Errorf("seed %d: %q is not how the answer begins", seed, got)
						}
					default:
						t.Errorf("seed %d: %v", seed, err)
					}
				})
			}
			clients.Wait()
			isEmpty(t, table)
		})
	}
}

// faulty is a client to which writing panics.
type faulty struct{ client }

func (*faulty) Send([]byte) error { panic("a fault of ours") }

// A panic while the first client is written to is raised on the goroutine of its request, and
// those who follow get the whole answer.
func TestAPanicAtTheFirstClientIsItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := NewTable(limits())
		call := func(ctx context.Context) (account.Answer, error) {
			return &stream{ctx: ctx, parts: 10, pause: time.Second}, nil
		}
		var clients sync.WaitGroup
		clients.Go(func() {
			caught := logs.Try(func() { _, _ = fly(context.Background(), table, &faulty{}, call) })
			if caught == nil || caught.Error() != "a fault of ours" {
				t.Errorf("the first request ended with %v", caught)
			}
		})
		clients.Go(func() {
			<-time.After(time.Millisecond)
			to := &client{}
			if _, err := fly(context.Background(), table, to, call); err != nil || to.got.String() != text(10) {
				t.Errorf("who follows got %v, %q", err, to.got.String())
			}
		})
		clients.Wait()
		isEmpty(t, table)
	})
}

// An end of the first request alone, by an operator or with its run, reaches its client and no
// other; without followers it ends the call.
func TestAStopOfTheFirstIsItsOwn(t *testing.T) {
	t.Parallel()
	cause := schema.NewError("run_ended", say.Plain("The run of the first has ended."))
	for _, c := range []struct {
		name      string
		followers int
		at        time.Duration
		first     string // what its client got
		ended     time.Duration
	}{
		{"alone, before the answer", 0, time.Second / 2, "", time.Second / 2},
		{"alone, in the answer", 0, 4*time.Second + time.Second/2, "1 2 3 " + cause.Message + " of the first", 4*time.Second + time.Second/2},
		{"before the answer", 2, time.Second / 2, "", 12 * time.Second},
		{"in the answer", 2, 4*time.Second + time.Second/2, "1 2 3 " + cause.Message + " of the first", 12 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				table := NewTable(limits())
				ctx, stop := context.WithCancelCause(context.Background())
				defer stop(nil)
				time.AfterFunc(c.at, func() { stop(cause) })
				began := time.Now()
				var clients sync.WaitGroup
				for n := range c.followers + 1 {
					own := context.Background()
					if n == 0 {
						own = ctx
					}
					clients.Go(func() {
						<-time.After(time.Duration(n) * time.Millisecond)
						to := &client{}
						_, err := fly(own, table, to, func(ctx context.Context) (account.Answer, error) {
							select {
							case <-time.After(time.Second):
								return &stream{ctx: ctx, parts: 10, pause: time.Second}, nil
							case <-ctx.Done():
								return nil, context.Cause(ctx)
							}
						})
						switch {
						case n > 0 && (err != nil || to.got.String() != text(10)):
							t.Errorf("follower %d got %v, %q", n, err, to.got.String())
						case n == 0 && (!errors.Is(err, cause) || to.got.String() != c.first):
							t.Errorf("the first got %v, %q, want %q", err, to.got.String(), c.first)
						}
					})
				}
				clients.Wait()
				if took := time.Since(began).Truncate(time.Second / 2); took != c.ended {
					t.Errorf("the call took %s, want %s", took, c.ended)
				}
				isEmpty(t, table)
			})
		})
	}
}

// While the call waits for its model, each client is sent notices as if it were alone: from so
// long after it joined, until the wait is over.
func TestFollowersAreNotifiedWhileTheCallIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, began := NewTable(limits()), time.Now()
		var mu sync.Mutex
		var got [3][2]time.Duration // when notices began and ended
		var clients sync.WaitGroup
		for n := range got {
			notify := func(after time.Duration) func() {
				mu.Lock()
				defer mu.Unlock()
				got[n][0] = time.Since(began) + after
				return func() {
					mu.Lock()
					defer mu.Unlock()
					got[n][1] = time.Since(began)
				}
			}
			clients.Go(func() {
				<-time.After(time.Duration(n) * 2 * time.Second)
				f, isFirst := table.Board(context.Background(), answercache.Key{1}, schema.Normal)
				var answer account.Answer
				if isFirst {
					held := f.Notified(notify)
					answer, _ = f.Lead(Call{IsOwn: own, Wrap: as, Next: func(ctx context.Context) (account.Answer, error) {
						<-time.After(time.Second)
						end := held(time.Minute)
						<-time.After(9 * time.Second)
						end()
						<-time.After(time.Second)
						return &stream{ctx: ctx, parts: 1}, nil
					}})
				} else {
					answer, _ = f.Follow(context.Background(), asUsed, notify)
				}
				if err := copyTo(answer, &client{}); err != nil {
					t.Errorf("request %d: %v", n, err)
				}
			})
		}
		clients.Wait()
		want := [3][2]time.Duration{
			{61 * time.Second, 10 * time.Second}, {62 * time.Second, 10 * time.Second}, {64 * time.Second, 10 * time.Second},
		}
		if got != want {
			t.Errorf("notices begin and end at %v, want %v", got, want)
		}
		isEmpty(t, table)
	})
}

// A request does not wait in the place of a less urgent one: it makes a call of its own, which
// later requests join. An answer that has begun is for all.
func TestAnUrgentRequestDoesNotWaitInALesserPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, second, third schema.Class
		begun                bool
		calls                []int // the number of the call that answers each
	}{
		{schema.Batch, schema.Interactive, schema.Normal, false, []int{1, 2, 2}},
		{schema.Batch, schema.Interactive, schema.Batch, false, []int{1, 2, 2}},
		{schema.Batch, schema.Batch, schema.Interactive, false, []int{1, 1, 2}},
		{schema.Normal, schema.Batch, schema.Normal, false, []int{1, 1, 1}},
		{schema.Spare, schema.Batch, schema.Normal, false, []int{1, 2, 3}},
		{schema.Batch, schema.Interactive, schema.Normal, true, []int{1, 1, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := NewTable(limits())
			got, calls := make([]int, 3), atomic.Int32{}
			var clients sync.WaitGroup
			for n, class := range []schema.Class{c.first, c.second, c.third} {
				clients.Go(func() {
					<-time.After(time.Duration(n) * time.Second)
					f, isFirst := table.Board(context.Background(), answercache.Key{1}, class)
					var answer account.Answer
					if isFirst {
						number := calls.Add(1)
						answer, _ = f.Lead(Call{IsOwn: own, Wrap: as, Next: func(ctx context.Context) (account.Answer, error) {
							if !c.begun {
								<-time.After(time.Minute)
							}
							return &stream{ctx: ctx, parts: 10, pause: time.Second, part: func(int) string { return fmt.Sprint(number) }}, nil
						}})
					} else {
						answer, _ = f.Follow(context.Background(), asUsed, unnoticed)
					}
					to := &client{}
					if err := copyTo(answer, to); err != nil {
						t.Errorf("%+v: request %d: %v", c, n, err)
					}
					got[n] = int(to.got.String()[0] - '0')
				})
			}
			clients.Wait()
			if !slices.Equal(got, c.calls) {
				t.Errorf("%+v: answered by the calls %v", c, got)
			}
			isEmpty(t, table)
		})
	}
}
