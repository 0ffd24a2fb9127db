package registry_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/cluster"
	"github.com/patchbay-ai/patchbay/internal/cluster/registry"
	"github.com/patchbay-ai/patchbay/internal/storetest"
)

// TestRegistries: both stores list those who announced themselves, forget those who
// leave, keep a bounded number, and work again after an outage.
func TestRegistries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server func(testing.TB) *storetest.Server
		open   func(ctx context.Context, url string) (cluster.Registry, error)
	}{
		"postgres": {storetest.Postgres, func(_ context.Context, url string) (cluster.Registry, error) { return registry.NewPostgres(url) }},
		"redis": {func(t testing.TB) *storetest.Server { return storetest.Redis(t) }, func(ctx context.Context, url string) (cluster.Registry, error) {
			return registry.OpenRedis(ctx, url, "test")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := c.server(t)
			open := func() cluster.Registry {
				r, err := c.open(t.Context(), server.URL)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(r.Close)
				return r
			}
			a, b := open(), open()
			announce := func(r cluster.Registry, id string) []string {
				t.Helper()
				seen, err := r.Announce(t.Context(), cluster.Member{
					ID: id, Address: "10.0.0.1:8080", Version: "1", ConfigVersion: 3, Revision: 9,
					StartedAt: time.Unix(1_800_000_000, 0).UTC(), Stores: map[string]bool{"redis": true},
				})
				if err != nil {
					t.Fatal(err)
				}
				var ids []string
				for _, s := range seen {
					if s.Ago < 0 || s.Version != "1" || s.ConfigVersion != 3 || s.Revision != 9 || !s.Stores["redis"] || s.StartedAt.Unix() != 1_800_000_000 {
						t.Errorf("%+v", s)
					}
					ids = append(ids, s.ID)
				}
				slices.Sort(ids)
				return ids
			}
			announce(a, "a")
			announce(b, "b")
			if ids := announce(a, "a"); !slices.Equal(ids, []string{"a", "b"}) {
				t.Errorf("%v", ids)
			}
			if err := b.Leave(t.Context(), "b"); err != nil {
				t.Error(err)
			}
			if ids := announce(a, "a"); !slices.Equal(ids, []string{"a"}) {
				t.Errorf("%v", ids)
			}
			for n := range cluster.MaxMembers + 5 {
				announce(a, fmt.Sprint("crowd", n))
			}
			if ids := announce(a, "a"); len(ids) > cluster.MaxMembers || !slices.Contains(ids, "a") {
				t.Errorf("%d members", len(ids))
			}
			server.Kill()
			short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, err := a.Announce(short, cluster.Member{ID: "a"}); err == nil {
				t.Error("there is no error without the store")
			}
			server.Start()
			for deadline := time.Now().Add(time.Minute); ; {
				if _, err := a.Announce(t.Context(), cluster.Member{ID: "a"}); err == nil {
					break
				} else if time.Now().After(deadline) {
					t.Fatal(err)
				}
				<-time.After(20 * time.Millisecond)
			}
		})
	}
}
