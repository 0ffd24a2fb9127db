package tally_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
)

func newPool(store *tallytest.Model, id string) *tally.Pool {
	return tally.NewPool(tally.Options{
		Open:    func(context.Context) (tally.Store, error) { return store.Member(id), nil },
		Timeout: 50 * time.Millisecond, SharesMore: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
	})
}

// tell tells one total with the timeout of a request.
func tell(t *testing.T, pool *tally.Pool, numbers string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := pool.Tell(ctx, []tally.Sheet{{Name: "s", Totals: []tally.Total{{Writer: "a", Numbers: numbers}}}}, false)
	return err
}

// A store that fails one fails all: nobody waits for it any more, until it has answered a
// probe; then it is settled when all gateways had the time to tell again what they know. A
// store that lost its data is not settled either.
func TestThereIsOneRuleForOutagesAndLostData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := tallytest.New()
		pool := newPool(store, "a")
		defer pool.Close()
		if err := tell(t, pool, "1"); err == nil {
			t.Error("something was told before the first contact")
		}
		pool.Meet(t.Context())
		if err := tell(t, pool, "1"); err != nil || !pool.IsSettled() || pool.Err() != nil {
			t.Errorf("%v, settled %t, %v", err, pool.IsSettled(), pool.Err())
		}
		life := pool.Life()
		store.SetDown(true)
		for n, want := range []time.Duration{50 * time.Millisecond, 0, 0} {
			began := time.Now()
			if err := tell(t, pool, "2"); err == nil || time.Since(began) != want {
				t.Errorf("total %d: %v after %v, want %v", n, err, time.Since(began), want)
			}
		}
		if !pool.IsAway() || pool.IsSettled() || pool.Life() != "" || pool.Err() == nil || pool.Stats().Failures != 1 {
			t.Errorf("away %t, settled %t, life %q, %v", pool.IsAway(), pool.IsSettled(), pool.Life(), pool.Err())
		}
		settles := func(what string) {
			t.Helper()
			pool.Begin(t.Context())
			if pool.IsAway() || pool.IsSettled() || pool.Life() == life || pool.Life() == "" {
				t.Errorf("%s: away %t, settled %t, life %q", what, pool.IsAway(), pool.IsSettled(), pool.Life())
			}
			if err := tell(t, pool, "3"); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			<-time.After(2*tally.SettleTime - time.Millisecond)
			if pool.IsSettled() {
				t.Errorf("%s: settled too early", what)
			}
			<-time.After(time.Millisecond)
			if !pool.IsSettled() {
				t.Errorf("%s: not settled", what)
			}
			life = pool.Life()
		}
		store.SetDown(false)
		settles("after an outage")
		store.Flush()
		settles("after a loss")
	})
}

// The number of gateways does not fall for ten seconds after the store was away or lost its
// data: the others may not have found it yet.
func TestMembersDoNotFallBeforeAllHaveFoundTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := tallytest.New()
		pool := newPool(store, "a")
		defer pool.Close()
		other := newPool(store, "b")
		other.Begin(t.Context())
		pool.Begin(t.Context())
		if pool.Members() != 2 {
			t.Fatalf("%d gateways", pool.Members())
		}
		store.Flush()
		for range 99 {
			pool.Begin(t.Context())
			<-time.After(100 * time.Millisecond)
			if pool.Members() != 2 {
				t.Fatalf("%d gateways", pool.Members())
			}
		}
		<-time.After(200 * time.Millisecond)
		pool.Begin(t.Context())
		if pool.Members() != 1 {
			t.Errorf("%d gateways after ten seconds", pool.Members())
		}
	})
}

// Whoever tells something does not wait longer than its context, whatever the store does,
// and closing waits for what the store still does.
func TestTellingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := tallytest.New()
		member := store.Member("a")
		pool := tally.NewPool(tally.Options{
			Open:    func(context.Context) (tally.Store, error) { return member, nil },
			Timeout: 50 * time.Millisecond, SharesMore: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
		})
		pool.Meet(t.Context())
		member.SetDelay(time.Hour)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := pool.Tell(ended, nil, false); err == nil || pool.IsAway() {
			t.Errorf("%v, away %t: who gives up says nothing of the store", err, pool.IsAway())
		}
		long, cancelLong := context.WithTimeout(t.Context(), time.Second)
		defer cancelLong()
		if _, err := pool.Tell(long, []tally.Sheet{{Name: "s", IsRead: true}}, false); err == nil || pool.IsAway() {
			t.Errorf("%v, away %t: a read that takes too long says nothing of the store", err, pool.IsAway())
		}
		began := time.Now()
		if err := tell(t, pool, "1"); err == nil || time.Since(began) != 50*time.Millisecond || !pool.IsAway() {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		pool.Close()
	})
}

// refusing is a store that answers and takes nothing.
type refusing struct {
	*tallytest.Member
	isRefusing atomic.Bool
}

func (r *refusing) Exchange(ctx context.Context, members int, asks []tally.Ask) (tally.Presence, []tally.Grant, error) {
	if r.isRefusing.Load() {
		return tally.Presence{}, nil, fmt.Errorf("%w: out of memory", tally.ErrRefused)
	}
	return r.Member.Exchange(ctx, members, asks)
}

// Nobody hears an exchange that the store refused, so the others count this gateway as cut
// off from the last one on that it took, however often it refuses.
func TestAnExchangeThatWasRefusedWasHeardByNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &refusing{Member: tallytest.New().Member("a")}
		pool := tally.NewPool(tally.Options{
			Open:    func(context.Context) (tally.Store, error) { return store, nil },
			Timeout: 50 * time.Millisecond, SharesMore: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
		})
		defer pool.Close()
		pool.Begin(t.Context())
		silent := pool.SilentFrom()
		store.isRefusing.Store(true)
		for range 20 {
			<-time.After(250 * time.Millisecond)
			pool.Begin(t.Context())
			if !pool.IsAway() || !pool.SilentFrom().Equal(silent) {
				t.Fatalf("away %t, silent from %v, want %v", pool.IsAway(), pool.SilentFrom(), silent)
			}
		}
		store.isRefusing.Store(false)
		pool.Begin(t.Context())
		if pool.IsAway() || !pool.SilentFrom().After(silent) {
			t.Errorf("away %t, silent from %v", pool.IsAway(), pool.SilentFrom())
		}
	})
}
