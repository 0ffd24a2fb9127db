package proxy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// spare returns a request of the class Spare.
func (d *desk) spare(caller int) *run {
	r := d.request(caller)
	r.Class = schema.Spare
	r.choice.excluded.Spare = true
	return r
}

// routed routes a request in the background, which sends itself when it has an instance, or
// nil if it was refused. One of the class Spare that misses its slot waits for the next.
func (d *desk) routed(ctx context.Context, r *run) <-chan *run {
	got := make(chan *run, 1)
	go func() {
		err := r.let(ctx)
		if err == nil {
			err = r.choice.pick(ctx, &r.attempt)
		}
		for r.isSpare() && r.foundNoSlot && err != nil && ctx.Err() == nil {
			d.AwaitSpareSlot(ctx, schema.Chat, "m", d.lines)
			r.foundNoSlot = false
			if err = r.choice.refreshPool(); err == nil {
				err = r.choice.pick(ctx, &r.attempt)
			}
		}
		if err != nil {
			got <- nil
			return
		}
		r.choice.noteCall(r.attempt.instance)
		got <- r
	}()
	synctest.Wait()
	return got
}

// lines returns how many requests of the class Spare run.
func (d *desk) lines() (n int) {
	for _, i := range d.pool().Instances {
		n += int(i.SpareInFlight())
	}
	return n
}

// isThere returns what a channel has now.
func isThere(got <-chan *run) *run {
	synctest.Wait()
	select {
	case r := <-got:
		return r
	default:
		return nil
	}
}

func TestLinesOfBatchesTakeSlotsThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, slots(3, waiting(10, time.Hour)))
		ctx := context.Background()
		lines := []*run{isThere(d.routed(ctx, d.spare(1))), isThere(d.routed(ctx, d.spare(1)))}
		if lines[0] == nil || lines[1] == nil {
			t.Fatal("a line has to wait for a free slot")
		}
		third := d.routed(ctx, d.spare(1))
		if isThere(third) != nil {
			t.Fatal("three lines at a time although batch-concurrency is 2")
		}
		one := d.hold(2) // the third slot
		two := d.routed(ctx, d.request(2))
		lines[0].end(false)
		got := isThere(two)
		if got == nil {
			t.Fatal("the line before it kept its slot from a request that waits")
		}
		if isThere(third) != nil {
			t.Fatal("a line took a slot while another request waited")
		}
		got.end(false)
		if isThere(third) != nil {
			t.Fatal("a line took a slot that others needed a moment ago")
		}
		<-time.After(3 * time.Minute)
		last := isThere(third)
		if last == nil {
			t.Fatal("a line waits although a slot is free that nobody has needed for long")
		}
		if n := d.pool().Instances[0].SpareInFlight(); n != 2 {
			t.Errorf("%d lines in flight", n)
		}
		one.end(false)
		last.end(false)
		lines[1].end(false)
		if i := d.pool().Instances[0]; i.SpareInFlight() != 0 || i.InFlight() != 0 {
			t.Errorf("at the end %d in flight, %d of them lines", i.InFlight(), i.SpareInFlight())
		}
	})
}

func TestLinesOfBatchesWaitWithoutAQueueAndWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := 1
		d := newDesk(t, 1, func(s *config.Service) { s.Instances[0].BatchConcurrency = &one })
		ctx, leave := context.WithCancel(context.Background())
		first := isThere(d.routed(ctx, d.spare(1)))
		second := d.routed(ctx, d.spare(1))
		<-time.After(24 * time.Hour)
		if isThere(second) != nil {
			t.Fatal("two lines at a time")
		}
		for range 5 {
			d.hold(2).end(false) // others are not bound by it
		}
		began := time.Now()
		first.end(false)
		got := isThere(second)
		if got == nil || time.Since(began) > 0 {
			t.Fatalf("the line did not go when a slot was free, for %v", time.Since(began))
		}
		third := d.routed(ctx, d.spare(1))
		leave()
		if isThere(third) != nil || d.pool().Queue.Spare.Load() > 0 {
			t.Error("a line that was cancelled still waits")
		}
		got.end(false)
	})
}

func TestInstanceThatWantsNoLinesOfBatchesGetsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := 0
		d := newDesk(t, 2, func(s *config.Service) { s.Instances[0].BatchConcurrency = &none })
		var all []*run
		for range 2 {
			r := isThere(d.routed(context.Background(), d.spare(1)))
			if r == nil || r.attempt.instance.Position != 1 {
				t.Fatal("a line went to the instance that wants none")
			}
			all = append(all, r)
		}
		if d.pool().SpareSlots() != 2 {
			t.Errorf("%d slots for lines", d.pool().SpareSlots())
		}
		for _, r := range all {
			r.end(false)
		}
	})
}

// A tier that is busy does not send lines of batches to the next one, which may cost money;
// one that is down does.
func TestLinesOfBatchesWaitForTheirTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 2, func(s *config.Service) { s.Instances[1].Tier = 1 })
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		a, b := isThere(d.routed(ctx, d.spare(1))), isThere(d.routed(ctx, d.spare(1)))
		if a.attempt.instance.Position != 0 || b.attempt.instance.Position != 0 {
			t.Fatal("a line went to the higher tier")
		}
		waits := d.routed(ctx, d.spare(1))
		if isThere(waits) != nil {
			t.Fatal("a line went to the higher tier because the lower one is busy")
		}
		d.edit(func(s *config.Service) { s.Instances[0].Enabled = false })
		<-time.After(time.Second)
		got := isThere(waits)
		if got == nil || got.attempt.instance.Position != 1 {
			t.Fatal("a line waits for a tier that is off")
		}
		for _, r := range []*run{a, b, got} {
			r.end(false)
		}
	})
}

func TestSlotsForBatchesAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, slots(1, waiting(10, time.Hour)))
		ctx, leave := context.WithCancel(context.Background())
		if room, unknown := d.SpareSlots(schema.Chat, "m"), d.SpareSlots(schema.Chat, "nobody"); room != 1 || unknown != 1 {
			t.Errorf("room for %d lines, and for %d of a model that nobody has", room, unknown)
		}
		none := func() int { return 0 }
		d.AwaitSpareSlot(ctx, schema.Chat, "m", none)
		d.AwaitSpareSlot(ctx, schema.Chat, "nobody", func() int { return 1 }) // which ends
		first := d.hold(1)
		second := d.routed(ctx, d.request(2))
		await := func() <-chan struct{} {
			waits := make(chan struct{})
			go func() {
				defer close(waits)
				d.AwaitSpareSlot(ctx, schema.Chat, "m", none)
			}()
			synctest.Wait()
			return waits
		}
		isOver := func(waits <-chan struct{}) bool {
			synctest.Wait()
			select {
			case <-waits:
				return true
			default:
				return false
			}
		}
		waits := await()
		first.end(false)
		got := isThere(second)
		if got == nil || isOver(waits) {
			t.Fatal("the room was for the request that waited")
		}
		got.end(false)
		<-time.After(3 * time.Minute) // nobody comes any more
		if !isOver(waits) {
			t.Error("there is room, and it still waits")
		}
		if !d.pool().Queue.Quiet() || d.pool().Queue.Spare.Load() > 0 {
			t.Error("something is left in the queue")
		}
		third := d.hold(1)
		waits = await()
		leave()
		if !isOver(waits) {
			t.Error("it still waits, although nobody wants it")
		}
		third.end(false)
	})
}

// One who only waits for room does not keep a line from a slot that is free.
func TestWhoWaitsForRoomLetsLinesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := 1
		d := newDesk(t, 1, func(s *config.Service) { s.Instances[0].BatchConcurrency = &one })
		ctx, leave := context.WithCancel(context.Background())
		first := isThere(d.routed(ctx, d.spare(1)))
		go d.AwaitSpareSlot(ctx, schema.Chat, "m", func() int { return 5 })
		synctest.Wait()
		second := d.routed(ctx, d.spare(1))
		began := time.Now()
		first.end(false)
		got := isThere(second)
		if got == nil || time.Since(began) > 0 {
			t.Fatal("the line did not get the slot at once")
		}
		got.end(false)
		leave()
		synctest.Wait()
	})
}

// An instance that learns its slots gives no more of them to lines than it has.
func TestLinesOfBatchesKeepToSlotsThatAreLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := 100
		d := newDesk(t, 1, func(s *config.Service) {
			s.Queue = waiting(10, time.Hour)
			s.Instances[0].MaxConcurrency, s.Instances[0].BatchConcurrency = backend.AutoConcurrency, &many
		})
		i := d.pool().Instances[0]
		if i.SpareSlots() != i.Slots() {
			t.Errorf("%d of %d slots for lines", i.SpareSlots(), i.Slots())
		}
	})
}

// A line of a batch that finds no slot is refused at once, with all that it had reserved given back:
// its place is taken, or its model would push out another one. It goes on to no other model.
func TestALineWithoutASlotHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, slots(1, waiting(10, time.Hour)))
		other := d.hold(1)
		line := d.spare(2)
		began := time.Now()
		err := line.let(context.Background())
		if err == nil {
			err = line.choice.pick(context.Background(), &line.attempt)
		}
		var known *schema.Error
		if !errors.As(err, &known) || known.Code != schema.CodeNoSlot || time.Since(began) > 0 {
			t.Errorf("got %v after %v, want %s at once", err, time.Since(began), schema.CodeNoSlot)
		}
		line.giveBackUnanswered()
		if line.IsOpen() || d.pool().Queue.Spare.Load() > 0 {
			t.Error("the line is open or waits, want neither")
		}
		line.end(false)
		other.end(false)
	})
}
