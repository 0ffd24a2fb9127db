package problems

import (
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// maxFound bounds the findings about instances.
const maxFound = 20

// The kinds of findings.
const (
	// Down is a model or a service that no instance can serve.
	Down Kind = "down"
	// Replaced is a model that no instance can serve, and that another one answers for.
	Replaced Kind = "replaced"
	// Troubled is an instance that takes no requests, of a model that others serve.
	Troubled Kind = "troubled"
	// UsedUp is an account with a budget that is used up.
	UsedUp Kind = "budget"
	// FarSlower is an instance that is far slower than its peers.
	FarSlower Kind = "slow"
)

// availability is which services can be served.
type availability struct {
	services, down []schema.ServiceType
	found          []Finding
}

// assess looks at the state of all instances.
func assess(table *routing.Table, now time.Time) availability {
	var all availability
	for _, serviceType := range schema.ServiceTypes() {
		service := table.Service(serviceType)
		if service == nil || len(service.Pools) == 0 {
			continue
		}
		all.services = append(all.services, serviceType)
		var down []Finding
		isServed := false
		for _, pool := range service.Pools {
			found, serves := lookAt(service, pool, now)
			isServed = isServed || serves
			for _, one := range found {
				if one.Service = serviceType; one.Kind == Down {
					down = append(down, one)
				} else {
					all.found = append(all.found, one)
				}
			}
		}
		if !isServed && len(down) > 1 {
			down = []Finding{{Kind: Down, Service: serviceType, Since: down[0].Since,
				Said: say.New("found.service_down", "service", serviceType, "count", len(down))}}
		}
		if !isServed && len(down) > 0 {
			all.down = append(all.down, serviceType)
		}
		all.found = append(all.found, down...)
	}
	all.found = all.found[:min(len(all.found), maxFound)]
	return all
}

// lookAt returns what is wrong with the instances of a model, and whether one of them can serve.
// A model that a person switched off is not at fault.
func lookAt(service *routing.Service, pool *routing.Pool, now time.Time) (found []Finding, serves bool) {
	isWanted := false
	var out []Finding
	for _, i := range pool.Instances {
		if !i.Settings.Enabled || i.Settings.Weight <= 0 {
			continue
		}
		isWanted = true
		obstacle := i.Obstacle(now)
		if !isOut(obstacle) {
			serves = true
			continue
		}
		why := i.WhyNot(obstacle, now)
		if obstacle == backend.Faulty {
			why = i.Fault
		}
		out = append(out, Finding{Kind: Troubled, Model: pool.Model, Instance: i.ID, Since: i.FailingSince(),
			Said: say.New("found.troubled", "instance", i.ID, "why", why)})
	}
	if serves {
		return out, true
	}
	for _, other := range service.Fallbacks(pool.Model, naming.Unavailable) {
		if canServe(service, other.Model, now) {
			return []Finding{{Kind: Replaced, Model: pool.Model,
				Said: say.New("found.replaced", "model", pool.Model, "by", other.Model)}}, false
		}
	}
	if !isWanted {
		return nil, false
	}
	first := out[0]
	return []Finding{{Kind: Down, Model: pool.Model, Since: first.Since,
		Said: say.New("found.model_down", "model", pool.Model, "why", first.Said.Inner["why"])}}, false
}

// isOut reports whether an obstacle stays until something is mended.
func isOut(o backend.Obstacle) bool {
	return o == backend.Unhealthy || o == backend.BreakerOpen || o == backend.Faulty
}

// canServe reports whether an instance can serve a model.
func canServe(service *routing.Service, model string, now time.Time) bool {
	for _, pool := range service.Pools {
		if pool.Model != model {
			continue
		}
		return slices.ContainsFunc(pool.Instances, func(i *backend.Instance) bool {
			o := i.Obstacle(now)
			return !isOut(o) && o != backend.Disabled && o != backend.NoWeight
		})
	}
	return false
}
