package batches

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// Whoever writes to the database of gateways without a master key makes them remove no folder,
// and one description that cannot be read stops neither lists nor other batches.
func TestADescriptionThatNamesAnotherPlaceIsPassedOver(t *testing.T) {
	h := newHouse(t)
	h.docs, h.leases = documents.NewMemory(), documents.NewMemory()
	e := h.open(newBackend())
	made := h.submit(e, linesOf(1))
	victim := filepath.Join(h.folder, "victim")
	h.check(os.Mkdir(victim, 0o700))
	h.check(os.WriteFile(filepath.Join(victim, "file"), []byte("x"), 0o600))
	long := time.Now().Add(-1000 * time.Hour).UTC().Format(time.RFC3339)
	for _, doc := range []documents.Document{
		{Kind: kind, ID: "batch_1", Data: fmt.Appendf(nil, `{"id":"../victim","owner":{"key":"alice","tenant":"blue"},"state":"completed","ended":%q}`, long)},
		{Kind: kind, ID: "batch_2", IsOpen: true, Data: []byte(`{"id":7}`)},
		{Kind: kind, ID: "batch_3", IsOpen: true, Data: []byte(`[]`)},
		{Kind: "file", ID: "file-1", Data: fmt.Appendf(nil, `{"id":"../victim/file","owner":{"key":"alice","tenant":"blue"},"expires":%q}`, long)},
	} {
		doc.Scope, doc.Created = owner.Scope(), time.Now()
		_, err := h.docs.Put(context.Background(), doc)
		h.check(err)
	}
	h.check(e.expire(context.Background()))
	h.check(e.poll(context.Background()))
	if _, err := os.Stat(filepath.Join(victim, "file")); err != nil {
		t.Error(err)
	}
	if listed, _, err := e.List(context.Background(), Listing{Scope: owner.Scope(), Limit: 10}); err != nil || len(listed) != 1 || listed[0].ID != made.ID {
		t.Errorf("listed are %v, %v", listed, err)
	}
	if listed, _, err := e.o.Files.List(context.Background(), files.Listing{Scope: owner.Scope(), Limit: 10}); err != nil || len(listed) != 1 {
		t.Errorf("listed are %v, %v", listed, err)
	}
	e.end()
}
