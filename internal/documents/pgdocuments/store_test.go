package pgdocuments_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/documents"
	"github.com/patchbay-ai/patchbay/internal/documents/documentstest"
	"github.com/patchbay-ai/patchbay/internal/documents/pgdocuments"
	"github.com/patchbay-ai/patchbay/internal/storetest"
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
