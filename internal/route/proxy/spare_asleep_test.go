package proxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// bed is an engine that loads a model in five seconds.
type bed struct{}

func (bed) Wake(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(5 * time.Second):
		return nil
	}
}

func (bed) Sleep(context.Context) error { return nil }

// keepOne keeps the model m of the desk and one that is named other on a host with room for
// one of them, and returns both.
func (d *desk) keepOne(keeper *residency.Keeper) (m, other *residency.Model) {
	i := d.pool().Instances[0]
	i.Join(fleet.New(fleet.Options{}, time.Now()))
	place := i.Engine().Fleet().Instance(i.Engine().Host().Name(), "other")
	rules := residency.Rules{Room: 1}
	keeper.Follow([]residency.Kept{{Place: i.Engine(), Sleeper: bed{}, Rules: rules}, {Place: place, Sleeper: bed{}, Rules: rules}})
	m, other = keeper.Model(i.Engine()), keeper.Model(place)
	i.Reside(m)
	return m, other
}

// Lines of batches wait in their place while a model is in memory that others use or used
// lately, and have theirs loaded then.
func TestLinesOfBatchesThrowOutNoModelThatOthersUsedLately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := residency.New(residency.Options{})
		ctx, stop := context.WithCancel(context.Background())
		go keeper.Run(ctx)
		defer synctest.Wait()
		defer stop()
		d := newDesk(t, 1, func(s *config.Service) { s.Residency.Enabled = true })
		m, other := d.keepOne(keeper)
		if err := other.Enter(ctx, time.Minute); err != nil {
			t.Fatal(err)
		}
		waits := make(chan struct{})
		go func() {
			defer close(waits)
			d.AwaitSpareSlot(ctx, schema.Chat, "m", func() int { return 0 })
		}()
		line := d.routed(ctx, d.spare(1))
		<-time.After(time.Hour)
		if isThere(line) != nil || d.SpareSlots(schema.Chat, "m") != 0 {
			t.Fatal("a line goes although another model is in use")
		}
		other.Leave()
		<-time.After(119 * time.Second)
		if isThere(line) != nil {
			t.Fatal("a line goes although another model was used two minutes ago")
		}
		<-time.After(2 * time.Second)
		got := isThere(line)
		if got == nil {
			t.Fatal("a line waits although nobody used another model for two minutes")
		}
		<-waits
		if failed := got.enter(ctx, m); failed != nil {
			t.Fatal(failed.Err)
		}
		if s := m.Residence(time.Now()); s.State != "loaded" || other.Residence(time.Now()).State != "absent" {
			t.Errorf("%+v", s)
		}
		got.attempt.resident.Leave()
		got.attempt.resident = nil
		got.end(false)
	})
}

// A line whose model cannot be loaded any more when it is picked takes nobody's place: it is
// refused for now and sent nowhere else.
func TestALineComesAgainWhenAnotherModelIsUsedInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := residency.New(residency.Options{})
		ctx, stop := context.WithCancel(context.Background())
		go keeper.Run(ctx)
		defer synctest.Wait()
		defer stop()
		d := newDesk(t, 1, func(s *config.Service) { s.Residency.Enabled = true })
		m, other := d.keepOne(keeper)
		got := isThere(d.routed(ctx, d.spare(1)))
		if err := other.Enter(ctx, time.Minute); err != nil {
			t.Fatal(err)
		}
		failed := got.enter(ctx, m)
		if failed == nil || failed.Failover || !failed.Unsent || failed.Err.Code != schema.CodeServiceUnavailable || failed.Err.RetryAfter != time.Second {
			t.Fatalf("%+v", failed)
		}
		if !other.Residence(time.Now()).IsInUse {
			t.Error("the other model is not in use any more")
		}
		other.Leave()
		got.end(false)
		if i := d.pool().Instances[0]; i.SpareInFlight() != 0 || i.InFlight() != 0 {
			t.Errorf("at the end %d in flight, %d of them lines", i.InFlight(), i.SpareInFlight())
		}
	})
}
