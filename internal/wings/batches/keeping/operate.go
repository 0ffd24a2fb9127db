package keeping

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// described holds the fields that are read from the description of a batch.
type described struct {
	Owner files.Owner `json:"owner"`
	Input string      `json:"input"`
}

func read(doc documents.Document) (d described, err error) {
	if err = json.Unmarshal(doc.Data, &d); err != nil {
		err = fmt.Errorf("the batch %s: %w", doc.ID, err)
	}
	return d, err
}

// Remove removes a batch of any owner with its results. One that has not ended ends.
func (k *Keeper) Remove(ctx context.Context, id string) error {
	_, err := k.o.Remove(ctx, id, true)
	return err
}

// RemoveOf removes all batches of an owner with their results, and returns how many there
// were. A dry run removes none.
func (k *Keeper) RemoveOf(ctx context.Context, of files.Owned, dryRun bool) (removed int, err error) {
	query := documents.Query{Kind: Kind}
	if scope := of.Scope(); scope != files.AnyScope {
		query.Scopes = []string{scope}
	}
	err = documents.Each(ctx, k.o.Documents, query, func(doc documents.Document) (bool, error) {
		b, err := read(doc)
		if err != nil || of.Key != "" && b.Owner.Key != of.Key {
			return true, err
		}
		removed++
		if dryRun {
			return true, nil
		}
		return true, k.Remove(ctx, doc.ID)
	})
	return removed, err
}

// RemoveFile removes a file of any owner, or returns ErrInUse. A dry run removes none.
func (k *Keeper) RemoveFile(ctx context.Context, id string, dryRun bool) (files.File, error) {
	file, err := k.o.Files.Get(ctx, files.AnyScope, id)
	if err != nil {
		return file, err
	}
	inUse, err := k.Inputs(ctx, file.Owner.Scope())
	if err == nil && inUse[id] {
		err = ErrInUse
	}
	if err != nil || dryRun {
		return file, err
	}
	return file, k.o.Files.Delete(ctx, file)
}

// RemovedFiles counts the removed and the remaining files of an owner.
type RemovedFiles struct {
	Files int
	Bytes int64
	// InUse counts the files that are left because a batch that has not ended needs them.
	InUse int
}

// RemoveFilesOf removes the files of an owner, except files that a running batch needs. A
// dry run removes none.
func (k *Keeper) RemoveFilesOf(ctx context.Context, of files.Owned, dryRun bool) (r RemovedFiles, err error) {
	inUse, err := k.Inputs(ctx, of.Scope())
	if err != nil {
		return r, err
	}
	err = k.o.Files.Each(ctx, of, func(file files.File) error {
		if inUse[file.ID] {
			r.InUse++
			return nil
		}
		r.Files++
		r.Bytes += file.Bytes
		if dryRun {
			return nil
		}
		return k.o.Files.Delete(ctx, file)
	})
	return r, err
}

// Inputs returns the files that batches of a scope need that have not ended.
func (k *Keeper) Inputs(ctx context.Context, scope string) (map[string]bool, error) {
	query := documents.Query{Kind: Kind, OnlyOpen: true}
	if scope != files.AnyScope {
		query.Scopes = []string{scope}
	}
	inUse := map[string]bool{}
	err := documents.Each(ctx, k.o.Documents, query, func(doc documents.Document) (bool, error) {
		b, err := read(doc)
		if err != nil {
			k.o.Log.Error("a batch cannot be read and is passed over", "error", err)
			return true, nil
		}
		inUse[b.Input] = true
		return true, nil
	})
	return inUse, err
}
