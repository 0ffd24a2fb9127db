package gateway

import (
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/store/cluster"
)

// openResidency makes what loads models for requests and puts them to sleep.
func (g *Gateway) openResidency() {
	g.Residency = residency.New(residency.Options{Heard: g.heard, Log: g.log})
	g.Current.Keep(g.Residency, g.sleeperOf)
}

// sleeperOf returns what loads the model of an instance and gives it up, nil where nothing
// can. An engine that forgets models by itself is told to keep them for longer than the
// gateway does, so that the gateway decides while it is there.
func (g *Gateway) sleeperOf(i *backend.Instance, how residency.Settings) residency.Sleeper {
	keep := 2 * how.SleepAfter.Std()
	if i.Settings.Pinned {
		keep = -1
	}
	return backend.NewSleeper(i, g.Transport, keep)
}

// heard returns since when this gateway has known what others use that share its backends.
// It takes all for such that share its configuration, its limits or its counts: these are
// heard through Redis, and each one that is there has to be.
func (g *Gateway) heard(time.Time) (since time.Time, ok bool) {
	if g.Document.Store.Config == "" && !g.Document.NamesRedis && !g.sharesInRedis() {
		return time.Time{}, true
	}
	since, others := g.Exchange.Hears()
	if since.IsZero() {
		return since, false
	}
	for _, member := range g.Cluster.View().Members {
		if member.ID != g.id && member.State != cluster.Away && !slices.Contains(others, member.ID) {
			return since, false
		}
	}
	return since, true
}
