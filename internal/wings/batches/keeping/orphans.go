package keeping

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

// RemoveOrphans removes the files and batches of keys without a tenant that were removed a
// while ago: nobody sees them any more. Files and batches of a tenant stay with the tenant.
func (k *Keeper) RemoveOrphans(ctx context.Context) error {
	if k.o.IsRemoved == nil {
		return nil
	}
	owners, err := k.o.Files.Owners(ctx)
	if err != nil {
		return err
	}
	uses, err := k.o.Documents.Uses(ctx, Kind)
	if err != nil {
		return err
	}
	maps.Copy(owners, uses)
	marks, err := k.o.Documents.Uses(ctx, removedKind)
	if err != nil {
		return err
	}
	for scope := range owners {
		_, isMarked := marks[scope]
		if err := k.judge(ctx, scope, isMarked); err != nil {
			return err
		}
		delete(marks, scope)
	}
	for scope := range marks { // nothing of theirs is left
		if err := k.o.Documents.Delete(ctx, removedKind, markID(scope)); err != nil {
			return err
		}
	}
	return nil
}

// judge notes since when the key of a scope is removed, and removes its files and batches
// when that was long ago.
func (k *Keeper) judge(ctx context.Context, scope string, isMarked bool) error {
	owner, isKey := files.KeyOf(scope)
	if !isKey {
		return nil
	}
	id := markID(scope)
	if !k.o.IsRemoved(owner) {
		if !isMarked {
			return nil
		}
		return k.o.Documents.Delete(ctx, removedKind, id) // it is back
	}
	mark, err := k.o.Documents.Get(ctx, removedKind, id)
	if errors.Is(err, documents.ErrNotFound) {
		_, err = k.o.Documents.Put(ctx, documents.Document{Kind: removedKind, ID: id, Scope: scope,
			Created: time.Now().UTC(), Data: []byte(`{}`)})
		if errors.Is(err, documents.ErrChanged) {
			err = nil // another gateway was first
		}
		return err
	}
	if err != nil || time.Since(mark.Created) < keyGrace {
		return err
	}
	if err := k.removeScope(ctx, scope); err != nil {
		return err
	}
	k.o.Log.Info("the files and batches of a key that was removed are deleted", "key", owner.Key)
	return k.o.Documents.Delete(ctx, removedKind, id)
}

// removeScope removes all batches and files of a scope.
func (k *Keeper) removeScope(ctx context.Context, scope string) error {
	query := documents.Query{Kind: Kind, Scopes: []string{scope}, OnlyNames: true}
	err := documents.Each(ctx, k.o.Documents, query, func(doc documents.Document) (bool, error) {
		return true, k.Remove(ctx, doc.ID)
	})
	if err != nil {
		return err
	}
	return k.o.Files.RemoveAll(ctx, scope)
}

// markID returns the id of the document about the key of a scope.
func markID(scope string) string {
	sum := sha256.Sum256([]byte(scope))
	return hex.EncodeToString(sum[:16])
}
