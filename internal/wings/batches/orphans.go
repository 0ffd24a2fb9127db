package batches

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

const (
	// keyGrace is how long the files and batches of a key without a tenant are kept after
	// the key was found to be removed.
	keyGrace = 7 * 24 * time.Hour
	// removedKind is the kind of the documents that note since when a key is removed.
	removedKind = "removed-key"
)

// removeOrphans removes the files and batches of keys without a tenant that were removed a
// while ago: nobody sees them any more. Files and batches of a tenant stay with the tenant.
func (e *Engine) removeOrphans(ctx context.Context) error {
	if e.o.IsRemoved == nil {
		return nil
	}
	owners, err := e.o.Files.Owners(ctx)
	if err != nil {
		return err
	}
	uses, err := e.o.Documents.Uses(ctx, kind)
	if err != nil {
		return err
	}
	maps.Copy(owners, uses)
	marks, err := e.o.Documents.Uses(ctx, removedKind)
	if err != nil {
		return err
	}
	for scope := range owners {
		_, isMarked := marks[scope]
		if err := e.judgeKey(ctx, scope, isMarked); err != nil {
			return err
		}
		delete(marks, scope)
	}
	for scope := range marks { // nothing of theirs is left
		if err := e.o.Documents.Delete(ctx, removedKind, markID(scope)); err != nil {
			return err
		}
	}
	return nil
}

// judgeKey notes since when the key of a scope is removed, and removes its files and batches
// when that was long ago.
func (e *Engine) judgeKey(ctx context.Context, scope string, isMarked bool) error {
	owner, isKey := files.KeyOf(scope)
	if !isKey {
		return nil
	}
	id := markID(scope)
	if !e.o.IsRemoved(owner) {
		if !isMarked {
			return nil
		}
		return e.o.Documents.Delete(ctx, removedKind, id) // it is back
	}
	mark, err := e.o.Documents.Get(ctx, removedKind, id)
	if errors.Is(err, documents.ErrNotFound) {
		_, err = e.o.Documents.Put(ctx, documents.Document{Kind: removedKind, ID: id, Scope: scope,
			Created: time.Now().UTC(), Data: []byte(`{}`)})
		if errors.Is(err, documents.ErrChanged) {
			err = nil // another gateway was first
		}
		return err
	}
	if err != nil || time.Since(mark.Created) < keyGrace {
		return err
	}
	if err := e.removeScope(ctx, scope); err != nil {
		return err
	}
	e.o.Log.Info("the files and batches of a key that was removed are deleted", "key", owner.Key)
	return e.o.Documents.Delete(ctx, removedKind, id)
}

// removeScope removes all batches and files of a scope.
func (e *Engine) removeScope(ctx context.Context, scope string) error {
	query := documents.Query{Kind: kind, Scopes: []string{scope}, OnlyNames: true}
	err := documents.Each(ctx, e.o.Documents, query, func(doc documents.Document) (bool, error) {
		return true, e.Remove(ctx, doc.ID)
	})
	if err != nil {
		return err
	}
	return e.o.Files.RemoveAll(ctx, scope)
}

// markID returns the id of the document about the key of a scope.
func markID(scope string) string {
	sum := sha256.Sum256([]byte(scope))
	return hex.EncodeToString(sum[:16])
}
