package gateway

import (
	"context"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/cluster"
	"github.com/patchbay-ai/patchbay/internal/store/cluster/registry"
)

// The stores where gateways announce themselves.
const (
	inPostgres = "postgres"
	inRedis    = "redis"
)

// newCluster returns the watch of the gateways that share something with this one.
func (g *Gateway) newCluster(started time.Time) *cluster.Watch {
	doc := g.Document
	return cluster.New(cluster.Options{
		Self:   func() cluster.Member { return g.member(started) },
		Source: g.clusterSource,
		Open: func(_ context.Context, source string) (cluster.Registry, error) {
			if source == inPostgres {
				return registry.NewPostgres(doc.Store.Config)
			}
			return registry.NewRedis(g.Shared), nil
		},
		Log: g.log,
	})
}

// clusterSource returns the store where gateways announce themselves: the database of the
// shared configuration, else the Redis with their shared counts, if there is any.
func (g *Gateway) clusterSource() string {
	switch {
	case g.Document.Store.Config != "":
		return inPostgres
	case g.sharesInRedis():
		return inRedis
	}
	return ""
}

// sharesInRedis reports whether gateways share limits, budgets or the ledger there.
func (g *Gateway) sharesInRedis() bool { return g.Shared.Stats().Limits > 0 || g.sharesCounts() }

// sharesBudgets reports whether gateways share the budgets or the limits of runs.
func (g *Gateway) sharesBudgets() bool { return g.book.IsShared() || g.runsBook.Load().IsShared() }

// sharesCounts reports whether gateways share the ledger, the budgets or the limits of runs.
func (g *Gateway) sharesCounts() bool {
	if g.sharesBudgets() {
		return true
	}
	if g.Ledger == nil {
		return false
	}
	s := g.Ledger.Stats()
	return s.Enabled && s.Distributed
}

// member describes this gateway as it is now.
func (g *Gateway) member(started time.Time) cluster.Member {
	m := cluster.Member{ID: g.ID, Address: reachable(g.Address()), Version: g.build.Version, StartedAt: started.UTC(),
		Stores: map[string]bool{}}
	m.Draining = g.Actuator != nil && g.Actuator.IsDraining()
	if g.Control != nil {
		m.ConfigVersion, m.Revision = g.Control.Version(), g.Control.Revision()
		if database := g.Control.Following(); database != nil {
			m.Stores["configDatabase"] = database.Failure() == nil
		}
	}
	if s := g.Shared.Stats(); s.Limits > 0 {
		m.Stores["sharedLimits"] = s.Failure == nil
	}
	if g.sharesBudgets() {
		m.Stores["sharedBudgets"] = g.Shared.Stats().Failure == nil
	}
	if g.Ledger != nil {
		if s := g.Ledger.Stats(); s.Enabled {
			m.Stores["ledgerDatabase"] = s.StoreFailure == nil
			if s.Distributed {
				m.Stores["redis"] = s.CounterFailure == nil
			}
		}
	}
	return m
}

// reachable returns an address. It replaces a host that means all addresses by the name
// of this machine.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return net.JoinHostPort(name, port)
		}
	}
	return address
}
