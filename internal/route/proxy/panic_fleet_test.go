package proxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

// A panic leaves no call in the picture of the fleet, whether it comes while the request is
// checked or while it is sent: an engine that has one for ever seems to hang, and is left.
func TestPanicLeavesNoCallInTheFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(fleet.Options{}, time.Now())
		d := newDesk(t, 2, func(*config.Service) {})
		d.current.Follow(f)
		d.edit(func(s *config.Service) { s.LoadBalancer = balance.LeastTime })
		for range 4 { // a desk has no client, so that every call panics
			if d.doAndPanic(context.Background()) == nil {
				t.Fatal("no panic")
			}
		}
		second := d.pool().Instances[1]
		target := *second.Target
		adapter := *target.Adapter
		adapter.Refuse = func(*schema.Request) error { panic("refuse") }
		target.Adapter, second.Target = &adapter, &target
		for range 4 { // one of both is checked after it was chosen
			if d.doAndPanic(context.Background()) == nil {
				t.Fatal("no panic")
			}
		}
		for _, picture := range f.Pictures(time.Now()) {
			if picture.Waiting != 0 || picture.Decoding != 0 {
				t.Errorf("%s has %d calls that wait and %d that are answered", picture.Host, picture.Waiting, picture.Decoding)
			}
		}
	})
}
