package budget

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// distant is a member of a team that takes some time to reach.
type distant struct {
	*member
	way time.Duration // one way
}

func (d *distant) Tell(ctx context.Context, sheets []tally.Sheet, isNews bool) ([]map[string]string, error) {
	<-time.After(d.way)
	all, err := d.member.Tell(ctx, sheets, isNews)
	<-time.After(d.way)
	return all, err
}

// Requests that come to several gateways at the same moment do not refuse each other for
// good: as many pass as the budget has room for, most at once and the others when they come
// again as they were told. How many pass at once is a matter of chance, of which the mean of
// several crowds is judged.
func TestManyRequestsAtOnceUseTheRoomThatThereIs(t *testing.T) {
	const crowds, room = 5, 19
	for _, away := range []time.Duration{100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
		t.Run(away.String(), func(t *testing.T) {
			atOnce := 0
			for range crowds {
				synctest.Test(t, func(t *testing.T) { atOnce += crowd(t, room, away) })
			}
			if atOnce*4 < crowds*room*3 {
				t.Errorf("%d of %d passed at once", atOnce, crowds*room)
			}
		})
	}
}

// crowd sends many requests to three gateways at the same moment, has those come again that do
// not pass, and returns how many passed at once.
func crowd(t *testing.T, room int64, away time.Duration) (atOnce int) {
	const gateways, requests = 3, 60
	store := newTeam(time.Now)
	var accounts [gateways]*Account
	for i := range accounts {
		book := New(Options{
			Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: fmt.Sprint(i)}, Timeout: time.Minute, ReadEvery: time.Minute,
			Shared: &distant{store.member(fmt.Sprint(i)), away},
		})
		defer func() { _ = book.Close(t.Context()) }() //nolint:gocritic // three, and they are used until the end
		accounts[i] = book.Open("key/k", subject, Budgets{Total: Budget{Requests: room}})
	}
	<-time.After(10 * time.Second)
	left := requests
	for round := range 3 {
		var passed, final atomic.Int64
		var all sync.WaitGroup
		for i := range left {
			all.Go(func() {
				refused, err := new(Charge).Reserve(t.Context(), [2]*Account{accounts[i%gateways]}, Exactly(Amounts{1, 0, 0}), time.Now())
				if err != nil || refused != nil && !refused.Held {
					final.Add(1)
				}
				if err == nil && refused == nil {
					passed.Add(1)
				}
			})
		}
		all.Wait()
		left -= int(passed.Load())
		if final.Load() > 0 {
			t.Errorf("round %d: %d are told not to come again", round, final.Load())
		}
		done := requests - left
		if int64(done) > room || round == 2 && int64(done) < room {
			t.Errorf("round %d: %d passed in all, and there was room for %d", round, done, room)
		}
		if round == 0 {
			atOnce = done
		}
		<-time.After(time.Second)
	}
	return atOnce
}

// While requests come steadily, what a gateway has committed ahead covers them: they do not
// wait for the store, and all gateways together keep the budget all the same.
func TestSteadyRequestsDoNotWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gateways, seconds, perSecond, tokens = 3, 20, 50, 10
		const limit = gateways*seconds*perSecond*tokens + 200_000
		store := newTeam(time.Now)
		var accounts [gateways]*Account
		for i := range accounts {
			book := New(Options{
				Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: fmt.Sprint(i)}, Timeout: time.Minute, ReadEvery: time.Hour,
				Shared: &distant{store.member(fmt.Sprint(i)), 10 * time.Millisecond},
			})
			defer func() { _ = book.Close(t.Context()) }() //nolint:gocritic // three, and they are used until the end
			accounts[i] = book.Open("key/k", subject, Budgets{Day: Budget{Tokens: limit}, Total: Budget{Tokens: limit, Requests: 1_000_000}})
		}
		<-time.After(10 * time.Second)
		var asked, waited, refusals atomic.Int64
		run := func(seconds int, reserve int64) {
			var all sync.WaitGroup
			for i := range gateways * seconds * perSecond {
				<-time.After(time.Second / gateways / perSecond)
				all.Go(func() {
					charge, began := new(Charge), time.Now()
					refused, err := charge.Reserve(t.Context(), [2]*Account{accounts[i%gateways]}, Exactly(Amounts{1, reserve, 0}), began)
					asked.Add(1)
					if time.Since(began) > 0 {
						waited.Add(1)
					}
					if err != nil || refused != nil {
						refusals.Add(1)
						return
					}
					<-time.After(100 * time.Millisecond)
					charge.Settle(schema.Usage{Total: reserve}, 0)
				})
			}
			all.Wait()
		}
		run(2, tokens) // until the demand is known
		asked.Store(0)
		waited.Store(0)
		run(seconds-2, tokens)
		t.Logf("%d of %d requests waited", waited.Load(), asked.Load())
		if waited.Load()*50 > asked.Load() || refusals.Load() > 0 {
			t.Errorf("%d of %d requests waited for the store, %d were refused", waited.Load(), asked.Load(), refusals.Load())
		}
		run(10, 500) // more than there is
		<-time.After(5 * time.Second)
		use := accounts[0].book.Uses()[0]
		t.Logf("%d of %d are spent, %d reserved", use.Used, use.Limit, use.Reserved)
		if use.Used > limit || use.Used < limit-2*500*gateways || refusals.Load() == 0 {
			t.Errorf("%d of %d are spent, and %d requests were refused", use.Used, limit, refusals.Load())
		}
		if use.Reserved != 0 {
			t.Errorf("%d are reserved although nothing runs", use.Reserved)
		}
	})
}
