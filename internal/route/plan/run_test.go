package plan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/route/plan"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// scripted is a call that takes a time and then answers, fails or panics, or ends when it is
// given up.
type scripted struct {
	plan.Branch
	takes    time.Duration
	answers  bool
	panics   bool
	isDeaf   bool            // it ends in its own time although it is given up
	asked    []time.Duration // what Due says each time; 0 starts the call
	made     int
	ended    time.Duration
	wasGiven bool // whether it was given up when it ended
}

// run runs a plan of calls and returns how long it took, and what it panicked with.
func run(ctx context.Context, wins plan.Wins, all []*scripted) (took time.Duration, raised any) {
	began := time.Now()
	branches := make([]*plan.Branch, len(all))
	for n, s := range all {
		s.Make = func(ctx context.Context) bool {
			s.made++
			defer func() { s.ended, s.wasGiven = time.Since(began), plan.WhyGivenUp(ctx) != "" }()
			deaf := ctx.Done()
			if s.isDeaf {
				deaf = nil
			}
			select {
			case <-time.After(s.takes):
			case <-deaf:
				return false
			}
			if s.panics {
				panic(s.takes)
			}
			return s.answers
		}
		s.Due = func() (bool, time.Duration) {
			if len(s.asked) == 0 {
				return true, 0
			}
			again := s.asked[0]
			s.asked = s.asked[1:]
			return again == 0, max(again, 0)
		}
		branches[n] = &s.Branch
	}
	defer func() {
		raised = recover()
		took = time.Since(began)
		for _, b := range branches {
			b.Close()
		}
	}()
	plan.Run(ctx, wins, "another one has decided", branches...)
	return took, nil
}

// random returns a plan of calls of which no two end or start at the same time.
func random(r *rand.Rand) (wins plan.Wins, all []*scripted) {
	wins = plan.Wins(r.IntN(2))
	times := r.Perm(1000)
	for n := range 1 + r.IntN(5) {
		s := &scripted{
			takes: time.Duration(1+times[n]) * time.Millisecond, answers: r.IntN(3) > 0, panics: r.IntN(12) == 0,
			isDeaf: r.IntN(4) == 0,
		}
		if n > 0 && r.IntN(2) == 0 {
			s.After = time.Duration(1+times[10+n])*time.Millisecond + time.Microsecond
			switch r.IntN(4) {
			case 0:
				s.asked = []time.Duration{time.Duration(1+times[20+n])*time.Millisecond + 2*time.Microsecond, 0}
			case 1:
				s.asked = []time.Duration{-1}
			}
		}
		all = append(all, s)
	}
	return wins, all
}

// expected says of a call in the model when it starts, -1 if never, and ends.
type expected struct{ starts, ends time.Duration }

// model plays a plan by hand: it visits starts and ends in the order of their times until no
// call is under way.
func model(wins plan.Wins, all []*scripted) (calls []expected, decided int) {
	decided = -1
	calls = make([]expected, len(all))
	for n, s := range all {
		calls[n].starts = s.After
		for _, again := range s.asked {
			if calls[n].starts += again; again < 0 {
				calls[n].starts = -1
			}
		}
		calls[n].ends = calls[n].starts + s.takes
	}
	order := make([]int, 0, len(all))
	for n := range all {
		if calls[n].starts >= 0 {
			order = append(order, n)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return int(calls[a].ends - calls[b].ends) })
	over := calls[0].ends // no later call starts
	for _, n := range order {
		decides := all[n].panics || all[n].answers == (wins == plan.First)
		if decided < 0 && decides && (calls[n].starts == 0 || calls[n].starts < over) {
			decided, over = n, min(over, calls[n].ends)
		}
	}
	for n := range calls {
		switch {
		case calls[n].starts < 0, calls[n].starts > 0 && calls[n].starts >= over:
			calls[n].starts = -1
		case decided >= 0 && n != decided && calls[n].ends > calls[decided].ends && !all[n].isDeaf:
			calls[n].ends = calls[decided].ends
		}
	}
	return calls, decided
}

// Whatever the plan: each call is made once or not at all, the one that decides is the first
// that may, the others are given up at that moment, later calls start only while the first is
// under way, and Run returns when all have ended, with the panic of one that panicked.
func TestRandomPlansGoAsAModelSays(t *testing.T) {
	for seed := range uint64(3000) {
		synctest.Test(t, func(t *testing.T) {
			wins, all := random(rand.New(rand.NewPCG(seed, 1)))
			calls, decided := model(wins, all)
			took, raised := run(t.Context(), wins, all)
			var last time.Duration
			mayPanic := false
			for n, s := range all {
				want := calls[n]
				if made := want.starts >= 0; (s.made == 1) != made || s.made > 1 {
					t.Errorf("seed %d: call %d was made %d times, want %v", seed, n, s.made, made)
				}
				if s.made == 0 {
					continue
				}
				last = max(last, want.ends)
				mayPanic = mayPanic || s.panics && s.ended == want.starts+s.takes
				isLost := decided >= 0 && n != decided && want.ends >= calls[decided].ends
				if s.ended != want.ends || s.wasGiven != isLost || s.IsGivenUp() != (isLost && !s.Answered) {
					t.Errorf("seed %d: call %d ended at %v, want %v; given up %v, want %v", seed, n, s.ended, want.ends, s.wasGiven, isLost)
				}
			}
			if took != last {
				t.Errorf("seed %d: it took %v, want %v", seed, took, last)
			}
			if _, isPanic := raised.(*logs.Panic); isPanic != mayPanic {
				t.Errorf("seed %d: it panicked with %v, want %v", seed, raised, mayPanic)
			}
			if decided >= 0 && wins == plan.First && !all[decided].panics && !all[decided].Answered {
				t.Errorf("seed %d: the winner has no answer", seed)
			}
			if t.Failed() {
				t.Log(fmt.Sprint(describe(wins, all, calls)))
				t.FailNow()
			}
		})
	}
}

func describe(wins plan.Wins, all []*scripted, calls []expected) (lines []string) {
	for n, s := range all {
		lines = append(lines, fmt.Sprintf("\n%d of %v: after %v takes %v, answers %v, panics %v, deaf %v: %v",
			n, wins, s.After, s.takes, s.answers, s.panics, s.isDeaf, calls[n]))
	}
	return lines
}

// A client that leaves ends all calls, which is no decision of the plan.
func TestTheEndOfTheContextEndsAllCalls(t *testing.T) {
	for _, wins := range []plan.Wins{plan.First, plan.All} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			all := []*scripted{{takes: time.Hour}, {takes: time.Hour}, {takes: time.Hour, Branch: plan.Branch{After: time.Minute}}}
			if took, raised := run(ctx, wins, all); took != time.Second || raised != nil {
				t.Errorf("it took %v, %v", took, raised)
			}
			for n, s := range all {
				if s.made != 1-n/2 || s.IsGivenUp() {
					t.Errorf("call %d was made %d times, given up %v", n, s.made, s.IsGivenUp())
				}
			}
		})
	}
}
