package batches

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/documents"
	"github.com/patchbay-ai/patchbay/internal/files"
)

// remove removes a batch that has ended, with what belongs to it alone.
func (e *Engine) remove(ctx context.Context, b Batch) error {
	if b.IsOwnInput {
		for _, id := range []string{b.Input, b.Output} {
			if err := e.removeFile(ctx, b, id); err != nil {
				return err
			}
		}
	}
	if err := e.clean(ctx, b.ID); err != nil {
		return err
	}
	return e.o.Documents.Delete(ctx, Kind, b.ID)
}

// removeWhole removes a batch with its results. One that has not ended ends with that: its job
// finds that it is gone.
func (e *Engine) removeWhole(ctx context.Context, b Batch) error {
	if !b.State.IsEnd() {
		if err := e.o.Documents.Delete(ctx, Kind, b.ID); err != nil {
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
	file, err := e.o.Files.Part(ctx, id)
	if errors.Is(err, files.ErrNotFound) {
		file, err = e.o.Files.Get(ctx, b.Owner.Scope(), id)
	}
	if errors.Is(err, files.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.o.Files.Delete(ctx, file)
}

// giveWay removes a batch with its results, because they take the room of something new. It
// reports whether it did not because the batch has not ended.
func (e *Engine) giveWay(ctx context.Context, id string) (isOpen bool, err error) {
	b, err := e.get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil || !b.State.IsEnd() {
		return true, err
	}
	e.o.Log.Info("a batch that has ended gives way to something new", "batch", b.ID, "key", b.Owner.Key, "tenant", b.Owner.Tenant, "ended", b.Ended)
	return false, e.removeWhole(ctx, b)
}

// makePlace removes the oldest batches that have ended where an owner has as many as are kept,
// or all owners together have.
func (e *Engine) makePlace(ctx context.Context, scope string) error {
	settings := e.o.Settings()
	own, all, err := e.o.Documents.Use(ctx, Kind, scope)
	if err != nil {
		return err
	}
	over := own.Count + 1 - settings.MaxKept
	if over > 0 {
		removed, err := e.removeOldest(ctx, scope, over)
		if err != nil {
			return err
		}
		if removed < over {
			return ErrTooManyKept
		}
		all.Count -= removed
	}
	over = all.Count + 1 - settings.MaxKeptInAll
	if over <= 0 {
		return nil
	}
	removed, err := e.removeOfMost(ctx, over)
	if err == nil && removed < over {
		err = ErrAllTooMany
	}
	return err
}

// removeOldest removes so many batches of an owner that have ended, the oldest first, and
// returns how many there were.
func (e *Engine) removeOldest(ctx context.Context, scope string, most int) (removed int, err error) {
	if most <= 0 {
		return 0, nil
	}
	query := documents.Query{Kind: Kind, Scopes: []string{scope}, IsAscending: true, OnlyNames: true}
	err = documents.Each(ctx, e.o.Documents, query, func(doc documents.Document) (bool, error) {
		if doc.IsOpen {
			return true, nil
		}
		isOpen, err := e.giveWay(ctx, doc.ID)
		if err == nil && !isOpen {
			removed++
		}
		return removed < most, err
	})
	return removed, err
}

// removeOfMost removes so many batches that have ended of those owners who have the most.
func (e *Engine) removeOfMost(ctx context.Context, most int) (removed int, err error) {
	uses, err := e.o.Documents.Uses(ctx, Kind)
	if err != nil {
		return 0, err
	}
	scopes := slices.SortedFunc(maps.Keys(uses), func(a, b string) int {
		return cmp.Or(cmp.Compare(uses[b].Count, uses[a].Count), strings.Compare(a, b))
	})
	for _, scope := range scopes {
		n, err := e.removeOldest(ctx, scope, most-removed)
		removed += n
		if err != nil || removed >= most {
			return removed, err
		}
	}
	return removed, nil
}

// trim removes what is more than is kept, because more was kept before.
func (e *Engine) trim(ctx context.Context) error {
	settings := e.o.Settings()
	uses, err := e.o.Documents.Uses(ctx, Kind)
	if err != nil {
		return err
	}
	all := 0
	for scope, use := range uses {
		removed, err := e.removeOldest(ctx, scope, use.Count-settings.MaxKept)
		if err != nil {
			return err
		}
		all += use.Count - removed
	}
	if over := all - settings.MaxKeptInAll; over > 0 {
		if _, err := e.removeOfMost(ctx, over); err != nil {
			return err
		}
	}
	return e.o.Files.Trim(ctx)
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
	return documents.Each(ctx, e.o.Documents, documents.Query{Kind: Kind}, func(doc documents.Document) (bool, error) {
		b, err := decode(doc)
		if err == nil && b.State.IsEnd() && time.Since(b.Ended) > e.o.Retention() {
			err = e.remove(ctx, b)
		}
		return true, err
	})
}
