package actuator

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// shownClients bounds how many clients of a limit become series.
const shownClients = 50

// world walks the table in force for a scrape.
func (a *API) world() metrics.World {
	now := time.Now()
	table := a.options.Current.Load()
	var world metrics.World
	for _, serviceType := range schema.ServiceTypes() {
		s := table.Service(serviceType)
		if s == nil {
			continue
		}
		world.Services = append(world.Services, serviceView(s, now))
		for _, pool := range s.Pools {
			for _, i := range pool.Instances {
				world.Instances = append(world.Instances, instanceView(i))
			}
		}
	}
	return world
}

func serviceView(s *routing.Service, now time.Time) metrics.ServiceView {
	view := metrics.ServiceView{Service: s.Type}
	for _, pool := range s.Pools {
		view.Waiting += pool.Queue.Len()
	}
	limit := s.LimitSnapshot(now, shownClients)
	view.Remaining, view.PerClient = limit.Remaining, limit.Enabled && limit.PerClient
	for _, c := range limit.Clients {
		view.Clients = append(view.Clients, metrics.ClientView{Client: ratelimit.ClientName(c.Client), Remaining: c.Remaining})
	}
	return view
}

func instanceView(i *backend.Instance) metrics.InstanceView {
	return metrics.InstanceView{
		Service: i.Service, Label: i.Label(), Series: i.Series, InFlight: i.InFlight(),
		Breaker: breakerNumber(i.Breaker.Snapshot().State), Weight: i.Settings.Weight, Healthy: isUp(i),
	}
}

// isUp tells whether an instance is there for traffic.
func isUp(i *backend.Instance) bool { return i.Settings.Enabled && i.Health.Healthy() }

// breakerNumber is the state of a breaker as metrics have it.
func breakerNumber(s breaker.State) int {
	switch s {
	case breaker.Open:
		return 1
	case breaker.HalfOpen:
		return 2
	}
	return 0
}
