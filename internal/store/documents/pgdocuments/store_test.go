package pgdocuments_test

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
	"github.com/patchbay-ai/patchbay/internal/testing/documentstest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

func TestPostgresKeepsTheContract(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	store, err := pgdocuments.New(database.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	documentstest.Run(t, store)
	other, err := pgdocuments.New(database.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if all, err := other.List(t.Context(), documents.Query{Kind: "box"}); err != nil || len(all) != 4 {
		t.Errorf("another gateway sees %v, %v", all, err)
	}
}

// A database that takes connections and never answers is told as one that does not answer, to
// all who ask at the same time, and none of them waits for the others.
func TestADatabaseThatHangsIsToldSoon(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	store, err := pgdocuments.New("postgres://u@" + listener.Addr().String() + "/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	began := time.Now()
	var asking sync.WaitGroup
	for range 5 {
		asking.Go(func() {
			if _, err := store.Get(t.Context(), "k", "a"); !errors.Is(err, documents.ErrUnavailable) {
				t.Errorf("it gives %v", err)
			}
		})
	}
	asking.Wait()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("that took %s", took)
	}
}
