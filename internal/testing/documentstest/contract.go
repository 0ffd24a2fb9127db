// Package documentstest is for tests: it checks the contract that every store of
// documents keeps.
package documentstest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
)

// Run checks that an empty store keeps the contract.
func Run(t *testing.T, store documents.Store) {
	t.Helper()
	ctx := t.Context()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 5 {
		doc := documents.Document{
			Kind: "box", ID: fmt.Sprintf("id-%d", i), Scope: fmt.Sprint("scope ", i%2),
			Created: began.Add(time.Duration(i/2) * time.Second), IsOpen: i > 2,
			Bytes: int64(i), Data: fmt.Appendf(nil, `{"n":%d}`, i),
		}
		if version, err := store.Put(ctx, doc); version != 1 || err != nil {
			t.Fatalf("a new document has the version %d, %v", version, err)
		}
		if _, err := store.Put(ctx, doc); !errors.Is(err, documents.ErrChanged) {
			t.Errorf("a document is made twice: %v", err)
		}
	}
	for _, c := range []struct {
		query documents.Query
		want  string
	}{
		{documents.Query{Kind: "box"}, "[id-4 id-3 id-2 id-1 id-0]"},
		{documents.Query{Kind: "box", IsAscending: true, Limit: 2}, "[id-0 id-1]"},
		{documents.Query{Kind: "box", After: "id-3", Limit: 2}, "[id-2 id-1]"},
		{documents.Query{Kind: "box", After: "id-1", IsAscending: true}, "[id-2 id-3 id-4]"},
		{documents.Query{Kind: "box", Scopes: []string{"scope 1"}}, "[id-3 id-1]"},
		{documents.Query{Kind: "box", OnlyOpen: true}, "[id-4 id-3]"},
		{documents.Query{Kind: "other"}, "[]"},
	} {
		found, err := store.List(ctx, c.query)
		ids := []string{}
		for _, doc := range found {
			ids = append(ids, doc.ID)
		}
		if fmt.Sprint(ids) != c.want || err != nil {
			t.Errorf("%+v lists %v, %v, want %s", c.query, ids, err, c.want)
		}
	}
	if _, err := store.List(ctx, documents.Query{Kind: "box", After: "nobody"}); !errors.Is(err,
		documents.ErrNotFound) {
		t.Errorf("a list after nobody gives %v", err)
	}
	own, all, err := store.Use(ctx, "box", "scope 1")
	if own != (documents.Use{Count: 2, Bytes: 4}) || all != (documents.Use{Count: 5, Bytes: 10}) || err != nil {
		t.Errorf("in use are %+v and %+v, %v", own, all, err)
	}
	uses, err := store.Uses(ctx, "box")
	if want := (map[string]documents.Use{"scope 0": {Count: 3, Bytes: 6},
		"scope 1": {Count: 2, Bytes: 4}}); !maps.Equal(uses, want) || err != nil {
		t.Errorf("the scopes use %v, %v", uses, err)
	}
	if found, err := store.List(ctx, documents.Query{Kind: "box", OnlyNames: true, Limit: 1}); len(found) != 1 ||
		found[0].ID != "id-4" || len(found[0].Data) > 0 || err != nil {
		t.Errorf("the names are %v, %v", found, err)
	}
	testChange(t, store)
	testDeletedPlace(t, store, began)
	testEach(t, store, began)
}

// testDeletedPlace checks that a list continues after a deleted document.
func testDeletedPlace(t *testing.T, store documents.Store, began time.Time) {
	t.Helper()
	ctx := t.Context()
	var ids []string
	for i := range 4 {
		created := began.Add(time.Duration(i) * time.Second)
		ids = append(ids, documents.NewID("place-", created))
		if _, err := store.Put(ctx, documents.Document{Kind: "place", ID: ids[i], Created: created,
			Data: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Delete(ctx, "place", ids[1]); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		query documents.Query
		want  []string
	}{
		{documents.Query{After: ids[1]}, []string{ids[0]}},
		{documents.Query{After: ids[1], IsAscending: true}, []string{ids[2], ids[3]}},
		{documents.Query{After: "gone", AfterCreated: began.Add(time.Second), IsAscending: true},
			[]string{ids[2], ids[3]}},
	} {
		c.query.Kind = "place"
		found, err := store.List(ctx, c.query)
		var got []string
		for _, doc := range found {
			got = append(got, doc.ID)
		}
		if !slices.Equal(got, c.want) || err != nil {
			t.Errorf("%+v lists %v, %v, want %v", c.query, got, err, c.want)
		}
	}
}

// testEach checks that Each visits all documents although each visit deletes one.
func testEach(t *testing.T, store documents.Store, began time.Time) {
	t.Helper()
	ctx := t.Context()
	const many = 250
	for i := range many {
		if _, err := store.Put(ctx, documents.Document{Kind: "many", ID: fmt.Sprint(i), Created: began,
			Data: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	err := documents.Each(ctx, store, documents.Query{Kind: "many"}, func(doc documents.Document) (bool, error) {
		seen++
		return true, store.Delete(ctx, doc.Kind, doc.ID)
	})
	if seen != many || err != nil {
		t.Errorf("%d of %d documents were seen, %v", seen, many, err)
	}
}

func testChange(t *testing.T, store documents.Store) {
	t.Helper()
	ctx := t.Context()
	doc, err := store.Get(ctx, "box", "id-3")
	if err != nil || string(doc.Data) != `{"n":3}` || doc.Version != 1 || !doc.IsOpen || doc.Scope != "scope 1" ||
		doc.Age < 0 || doc.Age > time.Minute {
		t.Fatalf("the document is %+v, %v", doc, err)
	}
	doc.Bytes, doc.IsOpen, doc.Data = 30, false, []byte(`{"n":33}`)
	if version, err := store.Put(ctx, doc); version != 2 || err != nil {
		t.Errorf("a change gives version %d, %v", version, err)
	}
	if _, err := store.Put(ctx, doc); !errors.Is(err, documents.ErrChanged) {
		t.Errorf("a change of an old version gives %v", err)
	}
	if own, _, _ := store.Use(ctx, "box", "scope 1"); own.Bytes != 31 {
		t.Errorf("in use are %+v", own)
	}
	if err := store.Delete(ctx, "box", "id-3"); err != nil {
		t.Error(err)
	}
	if err := store.Delete(ctx, "box", "id-3"); err != nil {
		t.Errorf("deleting it again gives %v", err)
	}
	if _, err := store.Get(ctx, "box", "id-3"); !errors.Is(err, documents.ErrNotFound) {
		t.Errorf("a deleted document gives %v", err)
	}
	if _, err := store.Put(ctx, doc); !errors.Is(err, documents.ErrChanged) {
		t.Errorf("a change of a deleted document gives %v", err)
	}
	if _, err := store.Put(ctx, documents.Document{Kind: "box", ID: "../x", Data: []byte(`{}`)}); err == nil {
		t.Error("a document has the name of another folder")
	}
}
