package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/queue"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// desk is a proxy without backends: requests are routed and settled by hand.
type desk struct {
	*Proxy
	t   *testing.T
	doc *config.Document
}

// newDesk returns a desk whose chat service has the model m at so many
// instances. Edit changes the service before it is put into force.
func newDesk(t *testing.T, instances int, edit func(*config.Service)) *desk {
	t.Helper()
	doc := config.Default()
	chat := doc.Services[schema.Chat]
	for n := range instances {
		settings := backend.DefaultSettings()
		settings.Name, settings.BaseURL = "m", fmt.Sprintf("http://gpu%d.test", n)
		chat.Instances = append(chat.Instances, settings)
	}
	doc.Services[schema.Chat] = chat
	d := &desk{Proxy: New(new(routing.Current), nil), t: t, doc: doc}
	d.edit(edit)
	return d
}

// edit puts a changed service into force.
func (d *desk) edit(change func(*config.Service)) {
	d.t.Helper()
	d.doc = d.doc.Clone()
	chat := d.doc.Services[schema.Chat]
	change(&chat)
	d.doc.Services[schema.Chat] = chat
	table, err := routing.Compile(d.doc, d.current.Load())
	if err != nil {
		d.t.Fatal(err)
	}
	d.current.Store(table)
}

// slots returns an edit that gives every instance so many slots, and the pool a
// queue.
func slots(each int, q queue.Settings) func(*config.Service) {
	return func(s *config.Service) {
		s.Queue = q
		for n := range s.Instances {
			s.Instances[n].MaxConcurrency = each
		}
	}
}

func waiting(size int, timeout time.Duration) queue.Settings {
	return queue.Settings{Size: size, Timeout: schema.Duration(timeout)}
}

func (d *desk) pool() *routing.Pool { return d.current.Load().Service(schema.Chat).Find("m") }

// ask brings a request as far as its instance: limits, slots, queue.
func (d *desk) ask(ctx context.Context, caller int) (*Reply, error) {
	req := &schema.Request{Service: schema.Chat, Model: []byte("m")}
	r := d.begin(req, &schema.Caller{Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(caller)})})
	r.Model, r.pool = "m", d.pool()
	now := time.Now()
	if err := r.refuseAtOnce(now); err != nil {
		return r, err
	}
	if err := r.limit(now); err != nil {
		return r, err
	}
	return r, r.pick(ctx)
}

// hold asks and fails the test where no instance is given.
func (d *desk) hold(caller int) *Reply {
	d.t.Helper()
	r, err := d.ask(context.Background(), caller)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

func (r *Reply) settle(outcome breaker.Outcome) {
	r.outcome = outcome
	r.Close()
}

// codeOf returns the code of an error for callers, or its text.
func codeOf(err error) string {
	if known, ok := errors.AsType[*schema.Error](err); ok {
		return known.Code
	}
	return fmt.Sprint(err)
}

// Nobody sleeps here, so that on the fake clock no time passes unless somebody
// waits for a place that nobody tells him about. All instances are watched:
// none ever has more than its slots.
func TestNoFreeSlotIsEverForgotten(t *testing.T) {
	for _, row := range []struct{ instances, slots, callers int }{{1, 1, 2}, {1, 1, 20}, {1, 4, 40}, {3, 2, 60}} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, row.instances, slots(row.slots, waiting(1000, time.Minute)))
				var inUse [8]atomic.Int64
				began := time.Now()
				var callers sync.WaitGroup
				for c := range row.callers {
					callers.Go(func() {
						for n := range 200 {
							r, err := d.ask(context.Background(), c%7)
							if err != nil {
								t.Errorf("caller %d, request %d: %v", c, n, err)
								r.Close()
								return
							}
							if now := inUse[r.Instance.Slot].Add(1); now > int64(row.slots) {
								t.Errorf("%d requests at once at an instance with %d slots", now, row.slots)
							}
							for range rand.IntN(3) {
								runtime.Gosched()
							}
							inUse[r.Instance.Slot].Add(-1)
							r.settle(breaker.Success)
						}
					})
				}
				callers.Wait()
				if idle := time.Since(began); idle > 0 {
					t.Errorf("for %v a place was free while somebody waited", idle)
				}
				for _, i := range d.pool().Instances {
					if i.InFlight() != 0 {
						t.Errorf("%d in flight at the end", i.InFlight())
					}
				}
			})
		})
	}
}
