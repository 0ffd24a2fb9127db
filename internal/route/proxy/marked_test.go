package proxy

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
)

// watch starts a checker that never decides, so that traffic may mark. It ends
// with the returned function.
func (d *desk) watch() (stop func()) {
	client := transport.New(transport.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("there is no network")
	}})
	settings := backend.DefaultHealthSettings()
	settings.UnhealthyThreshold = 1 << 30
	checker := backend.NewChecker(backend.CheckerOptions{
		Source:   func() []*backend.Instance { return d.current.Load().Instances() },
		Settings: func(*backend.Instance) backend.HealthSettings { return settings },
		Health:   func(i *backend.Instance) *backend.Health { return &i.Health },
		Client:   client,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		checker.Run(ctx)
		client.Close()
		close(done)
	}()
	<-time.After(time.Second)
	return func() { cancel(); <-done }
}

// plight is what is wrong with an instance.
type plight struct {
	name   string
	busy   bool // nothing is wrong, but it takes nothing now
	marked bool
	unfit  bool // it takes nothing for long
}

// Who is picked and what is waited for follow the same rules: a marked instance
// is picked if and only if no other one is well or busy.
func TestMarkedInstancesArePickedLast(t *testing.T) {
	t.Parallel()
	plights := []plight{
		{name: "well"}, {name: "full", busy: true}, {name: "open", unfit: true},
		{name: "marked", marked: true}, {name: "marked and full", marked: true, busy: true}, {name: "marked and open", marked: true, unfit: true},
	}
	for _, first := range plights {
		for _, second := range plights {
			t.Run(first.name+", "+second.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { checkPlights(t, []plight{first, second}) })
			})
		}
	}
}

func checkPlights(t *testing.T, of []plight) {
	d := newDesk(t, len(of), slots(1, queue.Settings{}))
	defer d.watch()()
	now := time.Now()
	var want []*backend.Instance
	other := false // one that is not marked is well or busy
	for n, i := range d.pool().Instances {
		other = other || !of[n].marked && !of[n].unfit
		if of[n].busy {
			i.Acquire(now)
		}
		if of[n].unfit {
			i.Breaker.Force(breaker.ForcedOpen, breaker.Hold{}, now)
		}
		if of[n].marked {
			i.Health.Refused(now)
		}
	}
	for n, i := range d.pool().Instances {
		if !of[n].busy && !of[n].unfit && (!of[n].marked || !other) {
			want = append(want, i)
		}
	}
	var s survey.Survey
	s.Take(d.pool(), new(survey.Exclusions), now)
	if !slices.Equal(s.Ready, want) {
		t.Errorf("%d may be picked, want %d", len(s.Ready), len(want))
	}
	if ready := s.Shortest == backend.NoObstacle; ready != (len(want) > 0) {
		t.Errorf("the obstacle is %d, and %d may be picked", s.Shortest, len(want))
	}
	for n, c := range survey.Explain(d.current.Load(), survey.Subject{Door: schema.DoorChat, Model: "m"}, now).Candidates {
		picked := slices.Contains(want, d.pool().Instances[n])
		if picked != (c.Obstacle == backend.NoObstacle) || picked != (c.Chance > 0) || picked != (c.Reason.String() == "") {
			t.Errorf("explained as %d %q with a chance of %v", c.Obstacle, c.Reason, c.Chance)
		}
	}
}

// Nobody else is well: who waits for a slot of a marked instance gets it.
func TestQueueOfAMarkedInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, func(s *config.Service) { slots(1, waiting(5, time.Minute))(s) })
		defer d.watch()()
		running := d.hold(1)
		d.pool().Instances[0].Health.Refused(time.Now())
		next := d.comes(context.Background(), 2)
		running.finish(breaker.Cancelled)
		a := <-next
		if a.err != nil || a.after > 0 {
			t.Errorf("%v after %v", a.err, a.after)
		}
		a.reply.finish(breaker.Cancelled)
	})
}
