package gateway

import (
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/store/cluster"
)

// openResidency makes the keeper that loads models for requests and unloads idle ones.
func (g *Gateway) openResidency() {
	g.Residency = residency.New(residency.Options{Heard: g.heard, Log: g.log})
	g.Current.Keep(g.Residency, g.sleeperOf)
}

// sleeperOf returns the means to load and unload the model of an instance, nil where
// there is none. An engine that forgets models by itself is told to keep them for longer
// than the gateway does: the gateway decides while it runs.
func (g *Gateway) sleeperOf(i *backend.Instance, how residency.Settings) residency.Sleeper {
	keep := 2 * how.SleepAfter.Std()
	if i.Settings.Pinned {
		keep = -1
	}
	return backend.NewSleeper(i, g.Transport, keep)
}

// heard returns since when this gateway has known the use of its backends by other
// gateways. Any gateway that shares its configuration, its limits or its counts may use
// the same backends. Such gateways report through Redis, and all that run must have been
// heard.
func (g *Gateway) heard(time.Time) (since time.Time, ok bool) {
	if g.Document.Store.Config == "" && !g.Document.NamesRedis && !g.sharesInRedis() {
		return time.Time{}, true
	}
	since, others := g.Exchange.Hears()
	if since.IsZero() || 1+len(others) < g.Shared.Members() {
		return since, false
	}
	for _, member := range g.Cluster.View().Members {
		if member.ID != g.ID && member.State != cluster.Away && !slices.Contains(others, member.ID) {
			return since, false
		}
	}
	return since, true
}
