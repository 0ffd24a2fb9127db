package gateway

import (
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/cluster"
	"github.com/patchbay-ai/patchbay/internal/store/cluster/registry"
)

// newCluster returns the watch of the gateways that share the configuration with this one.
func (g *Gateway) newCluster(started time.Time) (*cluster.Watch, error) {
	options := cluster.Options{Self: func() cluster.Member { return g.member(started) }, Log: g.log}
	if address := g.Document.Store.Config; address != "" {
		list, err := registry.NewPostgres(address)
		if err != nil {
			return nil, err
		}
		options.Registry = list
	}
	return cluster.New(options), nil
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
