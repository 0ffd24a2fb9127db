package batches

import (
	"context"
	"errors"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// Kinds returns the kinds of the documents about batches that a store keeps.
func Kinds() []string { return []string{kind, removedKind} }

var (
	// ErrTooManyKept means that an owner has as many batches as are kept, and none of them has ended.
	ErrTooManyKept = errors.New("there are too many batches, and none of them has ended")
	// ErrAllTooManyKept means that all owners together have too many batches, and no owner with at
	// least as many as the caller gives way.
	ErrAllTooManyKept = errors.New("there are too many batches of all owners, and none of them gives way")
	// ErrInUse means that a batch that has not ended needs a file.
	ErrInUse = errors.New("a batch that has not ended needs the file")
)

// giveWay removes a batch with its results, because they take the room of something new. It
// reports whether it did not because the batch has not ended.
func (e *Engine) giveWay(ctx context.Context, id string) (isOpen bool, err error) {
	isOpen, err = e.discard(ctx, id, false)
	if err == nil && !isOpen {
		e.o.Log.Debug("a batch that has ended gives way to something new", "batch", id)
	}
	return isOpen, err
}

// makePlace removes the oldest batches that have ended if an owner has as many as are kept, or all
// owners together have.
func (e *Engine) makePlace(ctx context.Context, scope string) error {
	settings := e.o.Settings()
	own, all, err := e.o.Documents.Use(ctx, kind, scope)
	if err != nil {
		return err
	}
	over := max(own.Count+1-settings.MaxKept, 0)
	removed, err := e.removeOldest(ctx, scope, over)
	if err == nil && removed < over {
		err = ErrTooManyKept
	}
	if err != nil {
		return err
	}
	over = max(all.Count+1-removed-settings.MaxKeptInAll, 0)
	removed, err = e.removeOfMost(ctx, scope, over)
	if err == nil && removed < over {
		err = ErrAllTooManyKept
	}
	return err
}

// removeOldest removes so many batches of an owner that have ended, the oldest first, and
// returns how many there were.
func (e *Engine) removeOldest(ctx context.Context, scope string, most int) (removed int, err error) {
	if most <= 0 {
		return 0, nil
	}
	query := documents.Query{Kind: kind, Scopes: []string{scope}, IsAscending: true, OnlyNames: true}
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

// removeOfMost removes so many ended batches of the owners with the most, and with no fewer
// than the one who asks.
func (e *Engine) removeOfMost(ctx context.Context, asks string, most int) (removed int, err error) {
	if most <= 0 {
		return 0, nil
	}
	uses, err := e.o.Documents.Uses(ctx, kind)
	if err != nil {
		return 0, err
	}
	for _, scope := range files.MostFirst(uses, asks, func(use documents.Use) int64 { return int64(use.Count) }) {
		n, err := e.removeOldest(ctx, scope, most-removed)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// trim removes the files and batches above the bounds, because earlier bounds were higher.
func (e *Engine) trim(ctx context.Context) error {
	settings := e.o.Settings()
	uses, err := e.o.Documents.Uses(ctx, kind)
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
	if _, err := e.removeOfMost(ctx, AnyScope, all-settings.MaxKeptInAll); err != nil {
		return err
	}
	return e.o.Files.Trim(ctx)
}

// Remove removes a batch of any owner with its results. One that has not ended ends.
func (e *Engine) Remove(ctx context.Context, id string) error {
	_, err := e.discard(ctx, id, true)
	return err
}

// RemoveOf removes all batches of an owner with their results, and returns how many there
// were. A dry run removes none.
func (e *Engine) RemoveOf(ctx context.Context, of files.Owned, dryRun bool) (removed int, err error) {
	err = e.each(ctx, documents.Query{}, of.Scope(), func(b Batch) (bool, error) {
		if of.Key != "" && b.Owner.Key != of.Key {
			return true, nil
		}
		removed++
		if dryRun {
			return true, nil
		}
		return true, e.Remove(ctx, b.ID)
	})
	return removed, err
}

// RemoveFile removes a file of any owner, or returns ErrInUse. A dry run removes none.
func (e *Engine) RemoveFile(ctx context.Context, id string, dryRun bool) (files.File, error) {
	file, err := e.o.Files.Get(ctx, AnyScope, id)
	if err != nil {
		return file, err
	}
	inUse, err := e.inputs(ctx, file.Owner.Scope())
	if err == nil && inUse[id] {
		err = ErrInUse
	}
	if err != nil || dryRun {
		return file, err
	}
	return file, e.o.Files.Delete(ctx, file)
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
func (e *Engine) RemoveFilesOf(ctx context.Context, of files.Owned, dryRun bool) (r RemovedFiles, err error) {
	inUse, err := e.inputs(ctx, of.Scope())
	if err != nil {
		return r, err
	}
	err = e.o.Files.Each(ctx, of, func(file files.File) error {
		if inUse[file.ID] {
			r.InUse++
			return nil
		}
		r.Files++
		r.Bytes += file.Bytes
		if dryRun {
			return nil
		}
		return e.o.Files.Delete(ctx, file)
	})
	return r, err
}

// inputs returns the files that batches of a scope need that have not ended.
func (e *Engine) inputs(ctx context.Context, scope string) (map[string]bool, error) {
	inUse := map[string]bool{}
	err := e.each(ctx, documents.Query{OnlyOpen: true}, scope, func(b Batch) (bool, error) {
		inUse[b.Input] = true
		return true, nil
	})
	return inUse, err
}
