package proxy

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
)

// doAndPanic sends a request that panics on the way and returns the panic.
func (d *desk) doAndPanic(ctx context.Context) (value any) {
	defer func() { value = recover() }()
	err := d.Do(ctx, &Request{Asks: chatRequest(d.t), Caller: &access.Caller{Addr: netip.AddrFrom4([4]byte{192, 0, 2, 1})}, Record: newRecord()}, newClientConn())
	d.t.Errorf("no panic: %v", err)
	return nil
}

// A panic while a call is made gives everything back: a desk has no client, so
// that every call panics.
func TestPanicLeaksNeitherSlotNorTrialNorBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, func(s *config.Service) {
			slots(1, waiting(10, time.Second))(s)
			s.CircuitBreaker.FailureThreshold, s.CircuitBreaker.SuccessThreshold = 1, 1
		})
		i := d.pool().Instances[0]
		permit, _ := i.Acquire(time.Now())
		i.Release(permit, breaker.Failure, time.Now())
		<-time.After(time.Hour) // the breaker allows a trial
		for n := range 3 {
			if d.doAndPanic(context.Background()) == nil {
				t.Fatal("no panic")
			}
			if i.InFlight() != 0 || !i.Breaker.Ready(time.Now()) || i.Ended(breaker.Cancelled) != int64(n+1) {
				t.Errorf("%d in flight, breaker ready: %t, %d cancelled", i.InFlight(), i.Breaker.Ready(time.Now()), i.Ended(breaker.Cancelled))
			}
		}
		budget := &d.retryBudgets[schema.Chat]
		if budget.inFlight.Load() != 0 || budget.retries.Load() != 0 {
			t.Errorf("budget: %d in flight, %d retries", budget.inFlight.Load(), budget.retries.Load())
		}
	})
}

// A panic of one who has its turn in the queue, or who waits in it, is not at the
// expense of the others.
func TestPanicInTheQueueLetsTheOthersGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, slots(1, waiting(10, time.Minute)))
		holder := d.hold(1)
		panics := make(chan any, 2)
		go func() { panics <- d.doAndPanic(context.Background()) }()
		go func() {
			defer func() { panics <- recover() }()
			r := d.request(2)
			_ = r.choice.pool.Queue.Wait(context.Background(), "2", new(queue.Standing), r.choice.pool.Service.Policy.Queue, time.Now().Add(time.Minute), func() bool { panic("due") })
		}()
		synctest.Wait()
		holder.finish(breaker.Success)
		for range cap(panics) {
			if <-panics == nil {
				t.Fatal("no panic")
			}
		}
		d.hold(3).finish(breaker.Success)
		if q := d.pool().Queue; q.Len() != 0 || !q.Quiet() {
			t.Errorf("%d wait, quiet: %t", q.Len(), q.Quiet())
		}
	})
}
