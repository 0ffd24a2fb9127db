package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
)

var (
	errLate = errors.New("late")
	errWork = errors.New("the work failed")
)

// shop does work for those who come, one piece at a time, and lends each of them something.
type shop struct {
	mu               sync.Mutex
	party            *waiting.Party // nil while nobody waits
	begun, cancelled int
	lent             int
	work             sync.WaitGroup
	takes            func() (time.Duration, error)
}

// visit waits for the work, uses what is lent and gives it back. It reports whether it was lent.
func (s *shop) visit(ctx context.Context, patience, use time.Duration) error {
	s.mu.Lock()
	if s.party == nil {
		s.begin()
	}
	p := s.party
	p.Join()
	s.mu.Unlock()
	over := time.NewTimer(patience)
	defer over.Stop()
	if err := p.Await(ctx, over.C, errLate); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.Leave(err, false) {
			s.lent--
		}
		if p.Size == 0 && s.party == p {
			s.party = nil
		}
		return err
	}
	<-time.After(use)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lent--
	return nil
}

// begin begins the work for a new party.
func (s *shop) begin() {
	ctx, cancel := context.WithCancelCause(context.Background())
	p := &waiting.Party{Cancel: cancel}
	s.party = p
	s.begun++
	takes, err := s.takes()
	s.work.Go(func() {
		defer cancel(nil)
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() != nil {
			s.cancelled++
		}
		if s.party == p {
			s.party = nil
		}
		if err == nil {
			s.lent += p.Size
		}
		p.End(err)
	})
}

// TestNothingIsLostWhoeverLeaves lets clients come and leave at random, many of them at the very
// moment at which the work ends: all have an answer in time, nothing stays lent, and only work
// for which nobody waits is cancelled.
func TestNothingIsLostWhoeverLeaves(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random, ofWork := rand.New(rand.NewPCG(seed, 5)), rand.New(rand.NewPCG(seed, 6))
				tick := func(most int) time.Duration { return time.Duration(random.IntN(most)) * time.Second }
				s := &shop{takes: func() (time.Duration, error) { // with the lock of the shop
					takes := time.Duration(ofWork.IntN(8)) * time.Second
					if ofWork.IntN(5) == 0 {
						return takes, errWork
					}
					return takes, nil
				}}
				var served, left int
				var clients sync.WaitGroup
				for range 200 {
					patience, use, leaves := tick(12)+1, tick(5), tick(12)
					clients.Go(func() {
						ctx, leave := context.WithCancel(t.Context())
						stop := time.AfterFunc(leaves, leave)
						defer stop.Stop()
						began := time.Now()
						err := s.visit(ctx, patience, use)
						if took := time.Since(began); took > min(patience, leaves)+use {
							t.Errorf("a client who stays for %v, or %v, was there for %v", patience, leaves, took)
						}
						s.mu.Lock()
						defer s.mu.Unlock()
						switch {
						case err == nil:
							served++
						case errors.Is(err, errLate), errors.Is(err, context.Canceled):
							left++
						case !errors.Is(err, errWork):
							t.Error(err)
						}
					})
					<-time.After(tick(3))
				}
				clients.Wait()
				s.work.Wait()
				if s.lent != 0 || s.party != nil || served == 0 || left == 0 || s.cancelled == 0 || s.begun > 200 {
					t.Errorf("%d stay lent, %d were served, %d left; %d of %d pieces were cancelled", s.lent, served, left, s.cancelled, s.begun)
				}
			})
		})
	}
}

// TestWorkGoesOnForTheNext lets the last one leave work that goes on, and another one join.
func TestWorkGoesOnForTheNext(t *testing.T) {
	var p waiting.Party
	p.Cancel = func(error) { t.Error("the work is cancelled") }
	p.Join()
	if p.Leave(errLate, true) || p.Size != 0 {
		t.Errorf("%d wait", p.Size)
	}
	p.Join()
	p.End(nil)
	if err := p.Await(t.Context(), nil, errLate); err != nil {
		t.Error(err)
	}
	if !p.Leave(errLate, false) {
		t.Error("who leaves after the end need not give back what it got")
	}
}

func TestASignalReachesAllWhoWait(t *testing.T) {
	var s waiting.Signal
	s.Tell() // nobody waits
	one, other := s.Changed(), s.Changed()
	s.Tell()
	<-one
	<-other
	select {
	case <-s.Changed():
		t.Error("the next one does not wait for the next change")
	default:
	}
}
