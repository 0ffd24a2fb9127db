package documents_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/store/takeover"
	"github.com/patchbay-ai/patchbay/internal/testing/documentstest"
)

// signing returns a store around another one, as a gateway with a master key and a data
// directory opens it.
func signing(t *testing.T, inner documents.Store, dir, key, previous string, change ...func(*takeover.Options)) *documents.Signed {
	t.Helper()
	keys, err := seal.New(strings.Repeat(key, seal.MinKeyLength), strings.Repeat(previous, seal.MinKeyLength))
	if err != nil {
		t.Fatal(err)
	}
	options := takeover.Options{Keys: keys, Data: durable.At(dir), Log: slog.New(slog.DiscardHandler)}
	for _, one := range change {
		one(&options)
	}
	records, err := takeover.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	store := documents.NewSigned(inner, documents.SignedOptions{
		Keys: keys, Takeovers: records, WritesBefore: options.AcceptUnsigned, Kinds: []string{"file", "batch"}, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(store.Close)
	return store
}

func accepting(o *takeover.Options) { o.AcceptUnsigned = true }

func TestASignedStoreKeepsTheContract(t *testing.T) {
	documentstest.Run(t, signing(t, documents.NewMemory(), t.TempDir(), "k", ""))
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
	store := signing(t, inner, t.TempDir(), "k", "")
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

// What the release before has written is taken over once.
func TestUnsignedDocumentsAreTakenOverOnce(t *testing.T) {
	inner, dir := documents.NewMemory(), t.TempDir()
	mustPut(t, inner, file("old", "tenant acme", `{"owner":"acme"}`))
	store := signing(t, inner, dir, "k", "")
	if !isThere(t, store, "old") {
		t.Error("what there was is not taken over")
	}
	mustPut(t, inner, file("late", "tenant acme", `{"owner":"acme"}`))
	for name, store := range map[string]documents.Store{"this process": store, "the next start": signing(t, inner, dir, "k", "")} {
		if isThere(t, store, "late") || !isThere(t, store, "old") {
			t.Errorf("%s: late %t, old %t", name, isThere(t, store, "late"), isThere(t, store, "old"))
		}
	}
	// During a roll both are read, and what was read is signed.
	if !isThere(t, signing(t, inner, dir, "k", "", accepting), "late") || !isThere(t, signing(t, inner, dir, "k", ""), "late") {
		t.Error("with security.accept-unsigned it is not there")
	}
}

// The release before reads what is signed, as it passes over what it does not know.
func TestASignedDocumentIsReadByTheReleaseBefore(t *testing.T) {
	inner := documents.NewMemory()
	mustPut(t, signing(t, inner, t.TempDir(), "k", ""), file("new", "tenant acme", `{"owner":"acme"}`))
	doc := must(inner.Get(t.Context(), "file", "new"))(t)
	if !strings.HasPrefix(string(doc.Data), `{"owner":"acme","signature":"`) || doc.Scope != "tenant acme" {
		t.Errorf("it is %+v, %s", doc, doc.Data)
	}
}

// After a change of the master key what the earlier one has signed is signed anew, so that
// the earlier one can go.
func TestSignaturesFollowTheMasterKey(t *testing.T) {
	inner, dir := documents.NewMemory(), t.TempDir()
	mustPut(t, signing(t, inner, dir, "a", ""), file("old", "tenant acme", `{}`))
	signing(t, inner, dir, "b", "a")
	if !isThere(t, signing(t, inner, dir, "b", ""), "old") {
		t.Error("it is not signed with the new key")
	}
	if isThere(t, signing(t, inner, dir, "c", ""), "old") {
		t.Error("a foreign key reads it")
	}
}
