package budget

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/quota"
)

// distant is a memoryStore that takes some time to reach.
type distant struct {
	*memoryStore
	away time.Duration // one way
}

func (d *distant) Commit(ctx context.Context, gateway string, own []Commitment) ([]map[string]Committed, error) {
	<-time.After(d.away)
	all, err := d.memoryStore.Commit(ctx, gateway, own)
	<-time.After(d.away)
	return all, err
}

// Requests that come to several gateways at the same moment do not refuse each other for
// good: as many pass as the budget has room for, most at once and the others when they come
// again as they were told.
func TestManyRequestsAtOnceUseTheRoomThatThereIs(t *testing.T) {
	for _, away := range []time.Duration{100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const gateways, requests, room = 3, 60, 19
				store := &distant{&memoryStore{fields: map[string]map[string]Committed{}, met: map[string]bool{}}, away}
				var accounts [gateways]*Account
				for i := range accounts {
					book := New(Options{
						Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: fmt.Sprint(i)}, Timeout: time.Minute, ReadEvery: time.Minute,
						Members: store.members(fmt.Sprint(i)), Changes: unknown,
						OpenStore: func(context.Context) (Store, error) { return store, nil },
					})
					defer book.Close(t.Context()) //nolint:gocritic // three, and they are used until the end
					accounts[i] = book.Open("key/k", subject, Budgets{Total: Budget{Requests: room}})
				}
				<-time.After(10 * time.Second)
				left := requests
				for round := range 3 {
					var passed, final atomic.Int64
					var all sync.WaitGroup
					for i := range left {
						all.Go(func() {
							refused, err := new(Charge).Reserve(t.Context(), [2]*Account{accounts[i%gateways]}, Amounts{1, 0, 0}, time.Now())
							if err != nil || refused != nil && !refused.Held {
								final.Add(1)
							}
							if err == nil && refused == nil {
								passed.Add(1)
							}
						})
					}
					all.Wait()
					t.Logf("round %d: %d of %d passed", round, passed.Load(), left)
					left -= int(passed.Load())
					if final.Load() > 0 {
						t.Errorf("round %d: %d are told not to come again", round, final.Load())
					}
					if done := requests - left; done > room || round == 0 && done < room*3/4 || round == 2 && done < room {
						t.Errorf("round %d: %d passed in all, and there was room for %d", round, done, room)
					}
					<-time.After(time.Second)
				}
			})
		})
	}
}
