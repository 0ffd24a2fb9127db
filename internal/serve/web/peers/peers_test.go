package peers_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// members is what GET /api/cluster shows.
type members struct {
	Source  string   `json:"source"`
	Reached bool     `json:"reached"`
	Self    string   `json:"self"`
	Members []member `json:"members"`
}

type member struct {
	ID            string          `json:"id"`
	Address       string          `json:"address"`
	Version       string          `json:"version"`
	ConfigVersion int             `json:"configVersion"`
	State         string          `json:"state"`
	Stores        map[string]bool `json:"stores"`
}

func membersOf(r *gatewaytest.Gateway) members {
	r.T.Helper()
	return gatewaytest.DataOf[members](r.T, r.API(http.MethodGet, "/api/cluster", "").Is(r.T, http.StatusOK))
}

// TestGatewaysOfOneConfigurationKnowEachOther: gateways that share the configuration list each other;
// one that stops is not listed any more. Gateways that share none list only themselves.
func TestGatewaysOfOneConfigurationKnowEachOther(t *testing.T) {
	t.Parallel()
	shared := "store: {config: " + gatewaytest.Quote(storetest.Postgres(t).URL) + "}\n"
	a, b := gatewaytest.Start(t, shared), gatewaytest.Start(t, shared+"server: {shutdown-delay: 1h}\n")
	// A busy machine delays the signs of life, and one that is late is not up meanwhile.
	isUp := func(m member) bool { return m.State == "up" && m.ConfigVersion == 1 && len(m.Stores) > 0 }
	areUp := func(r *gatewaytest.Gateway) bool {
		all := membersOf(r).Members
		return len(all) == 2 && isUp(all[0]) && isUp(all[1])
	}
	for _, r := range []*gatewaytest.Gateway{a, b} {
		gatewaytest.Eventually(t, "both are known and up", func() bool { return areUp(r) })
	}
	known := membersOf(a)
	addresses := map[string]bool{}
	for _, m := range known.Members {
		addresses[m.Address] = true
		if m.Version != gatewaytest.Version {
			t.Errorf("%+v", m)
		}
	}
	if known.Source != "postgres" || !known.Reached || !addresses[a.Address()] || !addresses[b.Address()] || known.Self == membersOf(b).Self {
		t.Errorf("%+v", known)
	}
	gatewaytest.Eventually(t, "the health counts two gateways", func() bool {
		health := a.Do(http.MethodGet, "/actuator/health/cluster", "").Succeeds(t).Body
		return strings.Contains(health, `"up":2`) && strings.Contains(health, `"UP"`)
	})
	gatewaytest.Eventually(t, "the metrics count two gateways", func() bool {
		return strings.Contains(a.Do(http.MethodGet, "/actuator/prometheus", "").Succeeds(t).Body, `model_router_cluster_members{state="up"} 2`)
	})
	ctx, end := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); b.Stop(ctx) }()
	gatewaytest.Eventually(t, "the one that stops is draining", func() bool {
		return slices.ContainsFunc(membersOf(a).Members, func(m member) bool { return m.Address == b.Address() && m.State == "draining" })
	})
	end()
	<-stopped
	gatewaytest.Eventually(t, "the one that stopped is forgotten", func() bool { return len(membersOf(a).Members) == 1 })
	redis := "services: {chat: {rate-limit: {shared: true}}}\nredis: {url: " + gatewaytest.Quote(storetest.Redis(t).URL) + "}\n"
	c, d := gatewaytest.Start(t, redis), gatewaytest.Start(t, redis)
	gatewaytest.Eventually(t, "both take part in the shared limit", func() bool {
		return c.Shared.Stats().Gateways == 2 && d.Shared.Stats().Gateways == 2
	})
	for _, alone := range []*gatewaytest.Gateway{c, gatewaytest.Start(t, "")} {
		if known := membersOf(alone); known.Source != "none" || len(known.Members) != 1 || known.Members[0].ID != known.Self {
			t.Errorf("%+v", known)
		}
	}
}

// TestGatewayKeepsItsID: a restart does not make another gateway of it.
func TestGatewayKeepsItsID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir})
	id := membersOf(first).Self
	first.Halt()
	if next := membersOf(gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir})).Self; next != id || id == "" {
		t.Errorf("%q after %q", next, id)
	}
}
