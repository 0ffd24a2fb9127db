package registry_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/cluster"
	"github.com/patchbay-ai/patchbay/internal/store/cluster/registry"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// TestPostgres: the store lists those who announced themselves, forgets those who leave,
// keeps a bounded number, and works again after an outage.
func TestPostgres(t *testing.T) {
	t.Parallel()
	server := storetest.Postgres(t)
	open := func() cluster.Registry {
		r, err := registry.NewPostgres(server.URL)
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
	// A gateway that stops while it announces itself loses its connection, and leaves all the same.
	announce(b, "b")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := b.Announce(stopped, cluster.Member{ID: "b"}); err == nil {
		t.Error("a gateway that stops was announced")
	}
	if err := b.Leave(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	if ids := announce(a, "a"); !slices.Equal(ids, []string{"a"}) {
		t.Errorf("%v after a gateway left that lost its connection", ids)
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
}
