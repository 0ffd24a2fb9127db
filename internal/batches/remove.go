package batches

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/patchbay-ai/patchbay/internal/documents"
	"github.com/patchbay-ai/patchbay/internal/files"
)

// remove removes a batch that has ended, with what belongs to it alone.
func (e *Engine) remove(ctx context.Context, b Batch) error {
	if b.IsOwnInput {
		for _, id := range []string{b.Input, b.Output} {
			if err := e.removePart(ctx, id); err != nil {
				return err
			}
		}
	}
	if err := e.clean(ctx, b.ID); err != nil {
		return err
	}
	return e.o.Documents.Delete(ctx, batchKind, b.ID)
}

func (e *Engine) removePart(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	part, err := e.o.Files.Part(ctx, id)
	if errors.Is(err, files.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.o.Files.Delete(ctx, part)
}

// clean removes what only a batch that runs needs.
func (e *Engine) clean(ctx context.Context, id string) error {
	if err := os.RemoveAll(e.folderOf(id)); err != nil {
		return err
	}
	leases, err := e.o.Leases.List(ctx, documents.Query{Kind: leaseKind, Scopes: []string{id}})
	for _, doc := range leases {
		err = errors.Join(err, e.o.Leases.Delete(ctx, leaseKind, doc.ID))
	}
	return err
}

func (e *Engine) folderOf(id string) string { return filepath.Join(e.o.Folder, id) }

// expire removes the files and batches whose time is over.
func (e *Engine) expire(ctx context.Context) error {
	if err := e.o.Files.Expire(ctx); err != nil {
		return err
	}
	docs, err := e.o.Documents.List(ctx, documents.Query{Kind: batchKind})
	if err != nil {
		return err
	}
	for _, doc := range docs {
		b, err := decode(doc)
		if err == nil && b.State.IsEnd() && time.Since(b.Ended) > e.o.Retention() {
			err = e.remove(ctx, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
