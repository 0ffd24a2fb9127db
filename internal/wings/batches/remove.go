package batches

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// remove removes a batch that has ended, with the files that belong to it alone.
func (e *Engine) remove(ctx context.Context, b Batch) error {
	if b.Form == Anthropic {
		for _, id := range []string{b.Input, b.Output} {
			if err := e.removeFile(ctx, b, id); err != nil {
				return err
			}
		}
	}
	if err := e.clean(ctx, b.ID); err != nil {
		return err
	}
	return e.o.Documents.Delete(ctx, kind, b.ID)
}

// removeWhole removes a batch with its results. One that has not ended ends with that: its job
// finds that it is gone.
func (e *Engine) removeWhole(ctx context.Context, b Batch) error {
	if !b.State.IsEnd() {
		if err := e.o.Documents.Delete(ctx, kind, b.ID); err != nil {
			return err
		}
		e.forget(b.ID)
	}
	for _, id := range []string{b.Output, b.Errors} {
		if err := e.removeFile(ctx, b, id); err != nil {
			return err
		}
	}
	return e.remove(ctx, b)
}

// forget ends the job of a batch that is gone.
func (e *Engine) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.jobs[id]; j != nil {
		j.cancel()
	}
}

// removeFile removes a file of a batch, if it is there.
func (e *Engine) removeFile(ctx context.Context, b Batch, id string) error {
	if id == "" {
		return nil
	}
	file, err := e.o.Files.Find(ctx, b.Owner.Scope(), id)
	if errors.Is(err, files.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.o.Files.Delete(ctx, file)
}

// discard removes a batch with its results. One that has not ended is removed only by force;
// isOpen reports that it was not.
func (e *Engine) discard(ctx context.Context, id string, isForced bool) (isOpen bool, err error) {
	b, err := e.get(ctx, id)
	if errors.Is(err, ErrNotFound) { // or somebody else wrote it, and it is refused
		return false, e.o.Documents.Delete(ctx, kind, id)
	}
	if err != nil || !isForced && !b.State.IsEnd() {
		return true, err
	}
	return false, e.removeWhole(ctx, b)
}

// clean removes the files that only a running batch needs.
func (e *Engine) clean(ctx context.Context, id string) error {
	if err := os.RemoveAll(e.folderOf(id)); err != nil {
		return err
	}
	leases, err := e.o.Leases.List(ctx, documents.Query{Kind: LeaseKind, Scopes: []string{id}})
	for _, doc := range leases {
		err = errors.Join(err, e.o.Leases.Delete(ctx, LeaseKind, doc.ID))
	}
	return err
}

func (e *Engine) folderOf(id string) string { return filepath.Join(e.o.Folder, id) }

// expire removes the files and batches that have expired.
func (e *Engine) expire(ctx context.Context) error {
	inUse, err := e.inputs(ctx, AnyScope)
	if err != nil {
		return err
	}
	if err := e.o.Files.Expire(ctx, inUse); err != nil {
		return err
	}
	return e.each(ctx, documents.Query{}, AnyScope, func(b Batch) (more bool, err error) {
		if b.State.IsEnd() && time.Since(b.Ended) > e.o.Retention() {
			err = e.remove(ctx, b)
		}
		return true, err
	})
}
