package allowance

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
)

// TestSharedMetersKeepTheLimitTogether: three gateways with a limit of tokens a minute
// never use more than the limit in any minute, and most of it, although each reserves
// more than it uses in the end and the store is sometimes away.
func TestSharedMetersKeepTheLimitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 20_000
		store := tallytest.New()
		ctx, stop := context.WithCancel(context.Background())
		var meters []meter
		var running []chan struct{}
		for n := range 3 {
			member := store.Member(fmt.Sprint("g", n))
			pool := tally.NewPool(tally.Options{
				Open:    func(context.Context) (tally.Store, error) { return member, nil },
				Timeout: 50 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
			})
			meter := NewAccounts(pool).newMeter("key/team-a/tokens", limit/2, time.Now())
			meter.Resize(limit)
			meters = append(meters, meter)
			done := make(chan struct{})
			running = append(running, done)
			go func() {
				pool.Run(ctx)
				close(done)
			}()
		}
		<-time.After(2 * tally.ProbationTime)
		type use struct {
			at     time.Duration
			amount int64
		}
		began, random := time.Now(), rand.New(rand.NewPCG(1, 1))
		var uses []use
		var total int64
		for time.Since(began) < 5*time.Minute {
			<-time.After(time.Duration(random.IntN(300)) * time.Millisecond)
			if random.IntN(200) == 0 {
				store.SetDown(true)
				<-time.After(time.Duration(random.IntN(4000)) * time.Millisecond)
				store.SetDown(false)
			}
			meter, now := meters[random.IntN(3)], time.Now()
			reserved := 100 + random.IntN(400)
			if state := meter.Take(reserved, now); !state.Allowed {
				if state.RetryAfter <= 0 || state.Limit != limit {
					t.Errorf("%+v", state)
				}
				continue
			}
			at := time.Since(began)
			used := reserved - random.IntN(reserved)
			meter.Settle(now, used-reserved, time.Now())
			uses = append(uses, use{at, int64(used)})
			total += int64(used)
		}
		first, sum := 0, int64(0)
		for _, u := range uses {
			sum += u.amount
			for ; u.at-uses[first].at >= time.Minute; first++ {
				sum -= uses[first].amount
			}
			if sum > limit {
				t.Fatalf("%d in a minute", sum)
			}
		}
		if total < 5*limit*8/10 {
			t.Errorf("only %d of %d were used", total, 5*limit)
		}
		stop()
		for _, done := range running {
			<-done
		}
	})
}
