package routing_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// named describes an instance of any model.
func named(model, host string) backend.Settings {
	s := at(host)
	s.Name = model
	return s
}

// twoServices has the models m and n for chat, and m and e for embeddings; no
// other service type is configured.
func twoServices(t *testing.T, since routing.Since) *routing.Table {
	t.Helper()
	doc := config.Default()
	chat, embedding := doc.Services[schema.Chat], doc.Services[schema.Embedding]
	chat.Instances = []backend.Settings{named("n", "a"), named("m", "b"), named("m", "c")}
	embedding.Instances = []backend.Settings{named("m", "d"), named("e", "d")}
	clear(doc.Services)
	doc.Services[schema.Chat], doc.Services[schema.Embedding] = chat, embedding
	table, err := routing.Compile(doc.Routed(), nil, since)
	if err != nil {
		t.Fatal(err)
	}
	new(routing.Current).Store(table) // service types that are not configured are passed over
	return table
}

func TestModelsOfSeveralServices(t *testing.T) {
	names := func(models []routing.Model) string {
		var all []string
		for _, m := range models {
			all = append(all, m.Service.String()+"/"+m.ID)
		}
		return strings.Join(all, " ")
	}
	table := twoServices(t, nil)
	if got := names(table.Entries()); got != "chat/m chat/n embedding/e embedding/m" {
		t.Errorf("entries %s", got)
	}
}

func TestModelIsAsOldAsItsFirstInstance(t *testing.T) {
	year := func(n int) time.Time { return time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC) }
	table := twoServices(t, routing.Since{schema.Chat: {"m@http://b.test": year(2025), "m@http://c.test": year(2024)}})
	for _, m := range table.Entries() {
		if m.Service == schema.Chat && m.ID == "m" {
			if !m.Created.Equal(year(2024)) {
				t.Errorf("created %v", m.Created)
			}
		} else if time.Since(m.Created) > time.Hour {
			t.Errorf("%s %s, which was added now, is from %v", m.Service, m.ID, m.Created)
		}
	}
}

func TestInstancesOfEveryService(t *testing.T) {
	var ids []string
	for _, i := range twoServices(t, nil).Instances() {
		ids = append(ids, i.ID)
	}
	slices.Sort(ids)
	want := []string{"e@http://d.test", "m@http://b.test", "m@http://c.test", "m@http://d.test", "n@http://a.test"}
	if !slices.Equal(ids, want) {
		t.Errorf("instances %v", ids)
	}
}

func TestPoolsAreFoundByModel(t *testing.T) {
	table := twoServices(t, nil)
	for _, row := range []struct {
		service schema.ServiceType
		model   string
		hosts   int
	}{
		{schema.Chat, "m", 2}, {schema.Chat, "n", 1}, {schema.Chat, "e", 0}, {schema.Embedding, "m", 1},
		{schema.Rerank, "m", 0}, // not configured
	} {
		s := table.Service(row.service)
		pool := s.Find(row.model)
		if got := s.FindBytes([]byte(row.model)); got != pool {
			t.Errorf("%s %s: the name in a request finds another pool", row.service, row.model)
		}
		hosts := 0
		if pool != nil {
			hosts = len(pool.Instances)
		}
		if hosts != row.hosts {
			t.Errorf("%s %s: %d instances, want %d", row.service, row.model, hosts, row.hosts)
		}
	}
	if table.Service(schema.Rerank).Instance("m@http://d.test") != nil {
		t.Error("a service type that is not configured has an instance")
	}
}

func TestInstanceThatCannotBeMadeIsNamed(t *testing.T) {
	doc := config.Default()
	chat := doc.Services[schema.Chat]
	chat.Instances = []backend.Settings{at("a"), at("b")}
	chat.Instances[1].Adapter = "no such dialect"
	doc.Services[schema.Chat] = chat
	if _, err := routing.Compile(doc.Routed(), nil, nil); err == nil || !strings.HasPrefix(err.Error(), "services.chat: instances[1]: ") {
		t.Errorf("error %v", err)
	}
}

// The limit of a service is shown by the limiter that has the least left.
func TestLimitSnapshotShowsTheLimiterWithTheLeastLeft(t *testing.T) {
	b := newBoard(t)
	b.edit(func(s *config.Service) {
		s.Instances = append(s.Instances, named("n", "c"), named("o", "d"))
		s.RateLimit.Enabled, s.RateLimit.Capacity, s.RateLimit.RefillRate = true, 10, 1
	})
	now := time.Now()
	spend := func(l *ratelimit.Limiter, times int) {
		for range times {
			l.Allow(netip.Addr{}, now)
		}
	}
	for _, row := range []struct {
		scope ratelimit.Scope
		spend func()
		want  int
	}{
		{ratelimit.PerService, func() { spend(b.service().Limiter, 4) }, 6},
		{ratelimit.PerModel, func() {
			spend(b.pool().Limiter, 2)
			spend(b.service().Find("n").Limiter, 5)
			spend(b.service().Find("o").Limiter, 3)
		}, 5},
		{ratelimit.PerInstance, func() {
			spend(b.instance("a").Limiter, 3)
			spend(b.instance("b").Limiter, 7)
			spend(b.service().Find("o").Instances[0].Limiter, 1)
		}, 3},
	} {
		b.edit(func(s *config.Service) { s.RateLimit.Scope = row.scope })
		row.spend()
		if s := b.service().LimitSnapshot(now, 0); s.Remaining != row.want || s.Capacity != 10 || !s.Enabled {
			t.Errorf("scope %s: %d of %d left, want %d", row.scope, s.Remaining, s.Capacity, row.want)
		}
	}
	b.edit(func(s *config.Service) { s.RateLimit.Enabled = false })
	if s := b.service().LimitSnapshot(now, 0); s.Enabled {
		t.Errorf("a limit that is off is shown as %+v", s)
	}
}

// Among limiters that have the same left, it is that of the first model.
func TestLimitSnapshotOfEqualsShowsTheFirstModel(t *testing.T) {
	b := newBoard(t)
	b.edit(func(s *config.Service) {
		s.Instances = append(s.Instances, named("n", "c"))
		s.RateLimit.Enabled, s.RateLimit.ClientIPEnable, s.RateLimit.Scope = true, true, ratelimit.PerModel
	})
	now := time.Now()
	b.pool().Limiter.Allow(netip.MustParseAddr("192.0.2.1"), now)
	b.service().Find("n").Limiter.Allow(netip.MustParseAddr("192.0.2.2"), now)
	clients := b.service().LimitSnapshot(now, 9).Clients
	if len(clients) != 1 || clients[0].Client.String() != "192.0.2.1/32" {
		t.Errorf("clients %+v", clients)
	}
}

// While all weights are 0 there is no round; the next one begins in order.
func TestRoundBeginsAnewAfterAllWeightsWereZero(t *testing.T) {
	b := newBoard(t)
	b.edit(func(s *config.Service) { s.Instances = append(s.Instances, at("c")) })
	for _, weight := range []float64{0, 1} {
		b.edit(func(s *config.Service) {
			for n := range s.Instances {
				s.Instances[n].Weight = weight
			}
		})
	}
	var picks strings.Builder
	for range 6 {
		picks.WriteString(b.pool().Balancer.Pick(b.pool().Instances, balance.Asked{}).ID[len("m@http://"):][:1])
	}
	if picks.String() != "abcabc" {
		t.Errorf("picks %s", picks.String())
	}
}
