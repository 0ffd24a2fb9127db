package documents_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/testing/documentstest"
)

func keysOf(t *testing.T, key, previous string) *seal.Keys {
	t.Helper()
	keys, err := seal.New(strings.Repeat(key, seal.MinKeyLength), strings.Repeat(previous, seal.MinKeyLength))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func signing(t *testing.T, inner documents.Store) documents.Store {
	t.Helper()
	return documents.NewSigned(inner, keysOf(t, "k", ""), slog.New(slog.DiscardHandler))
}

func TestASignedStoreKeepsTheContract(t *testing.T) {
	documentstest.Run(t, signing(t, documents.NewMemory()))
}

func file(id, scope, data string) documents.Document {
	return documents.Document{Kind: "file", ID: id, Scope: scope, Created: time.Now(), Bytes: 3, Data: []byte(data)}
}

func mustPut(t *testing.T, store documents.Store, doc documents.Document) {
	t.Helper()
	if _, err := store.Put(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
}

// change edits a document in the store below, as one UPDATE would.
func change(t *testing.T, store documents.Store, id string, edit func(*documents.Document)) {
	t.Helper()
	doc, err := store.Get(t.Context(), "file", id)
	if err != nil {
		t.Fatal(err)
	}
	edit(&doc)
	mustPut(t, store, doc)
}

// isThere reports whether a document is found, and listed with the others.
func isThere(t *testing.T, store documents.Store, id string) bool {
	t.Helper()
	_, err := store.Get(t.Context(), "file", id)
	if err != nil && !errors.Is(err, documents.ErrNotFound) {
		t.Fatal(err)
	}
	docs, listed := must(store.List(t.Context(), documents.Query{Kind: "file"}))(t), false
	for _, doc := range docs {
		listed = listed || doc.ID == id
	}
	if listed != (err == nil) {
		t.Errorf("%s: listed is %t, found %v", id, listed, err)
	}
	return err == nil
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// A document that was given to another scope, changed, moved or made by somebody without the
// master key is not there, and hides no others.
func TestForgedDocumentsAreRefused(t *testing.T) {
	inner := documents.NewMemory()
	store := signing(t, inner)
	forgeries := map[string]func(*documents.Document){
		"scope":     func(d *documents.Document) { d.Scope = "tenant beta" },
		"owner":     func(d *documents.Document) { d.Data = []byte(strings.Replace(string(d.Data), "acme", "beta", 1)) },
		"size":      func(d *documents.Document) { d.Bytes = 1 },
		"unsigned":  func(d *documents.Document) { d.Data = []byte(`{"owner":"beta"}`) },
		"another's": func(d *documents.Document) { d.Data = must(inner.Get(t.Context(), "file", "good"))(t).Data },
		"damaged":   func(d *documents.Document) { d.Data = d.Data[:len(d.Data)-1] },
	}
	mustPut(t, store, file("good", "tenant acme", `{"owner":"acme"}`))
	for name, forge := range forgeries {
		id := "id-" + strings.Trim(name, "'s")
		mustPut(t, store, file(id, "tenant acme", `{"owner":"acme","name":"a\",\"signature\":\"b"}`))
		if !isThere(t, store, id) {
			t.Fatalf("%s is not there before", id)
		}
		change(t, inner, id, forge)
		if isThere(t, store, id) {
			t.Errorf("a document with a forged %s is there", name)
		}
	}
	mustPut(t, store, file("last", "tenant acme", `{}`))
	for _, limit := range []int{1, 2} {
		docs, err := store.List(t.Context(), documents.Query{Kind: "file", IsAscending: true, Limit: limit})
		if err != nil || len(docs) != limit {
			t.Errorf("of two that are good %d are listed, %v", len(docs), err)
		}
	}
	if doc, err := store.Get(t.Context(), "file", "good"); err != nil || string(doc.Data) != `{"owner":"acme"}` || strings.Contains(string(doc.Data), "signature") {
		t.Errorf("it is %s, %v", doc.Data, err)
	}
}

// A document is signed with another key only if the key before has signed it, or if there was none and it has no
// signature. One of an unsigned backup stays one.
func TestADocumentGetsAnotherKey(t *testing.T) {
	old, next := keysOf(t, "a", ""), keysOf(t, "b", "a")
	plain := file("x", "s", `{"a":1}`)
	forged := documents.Sign(old, plain)
	forged.Scope = "other"
	for name, test := range map[string]struct {
		doc           documents.Document
		mayBeUnsigned bool
		restore       string
		want          bool
	}{
		"signed before":               {documents.Sign(old, plain), false, "", true},
		"signed already":              {documents.Sign(next, plain), false, "", true},
		"signed already, and first":   {documents.Sign(next, plain), true, "", true},
		"unsigned, and first":         {plain, true, "", true},
		"unsigned":                    {plain, false, "", false},
		"forged":                      {forged, false, "", false},
		"forged, and first":           {forged, true, "", false},
		"of another key":              {documents.Sign(keysOf(t, "c", ""), plain), true, "", false},
		"of a backup":                 {documents.SignRestored(old, "r", plain), false, "r", true},
		"of another backup":           {documents.SignRestored(old, "q", plain), false, "r", false},
		"of a backup that is unknown": {documents.SignRestored(old, "r", plain), true, "", false},
	} {
		got, isChanged, err := documents.Rekeyed(next, test.doc, test.mayBeUnsigned, test.restore, func(*documents.Document) error { return nil })
		if (err == nil) != test.want {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := documents.Sign(keysOf(t, "b", ""), plain)
		if test.restore != "" {
			want = documents.SignRestored(keysOf(t, "b", ""), test.restore, plain)
		}
		if err == nil && (string(got.Data) != string(want.Data) || isChanged != (string(test.doc.Data) != string(want.Data))) {
			t.Errorf("%s: it is %s, changed %t", name, got.Data, isChanged)
		}
	}
}
