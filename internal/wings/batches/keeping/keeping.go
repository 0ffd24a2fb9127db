// Package keeping decides which files and batches are kept: so many of each owner and of
// all together, only of existing keys, and none that operators have removed.
package keeping

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// Kind is the kind of the documents of batches.
const Kind = "batch"

// Kinds returns the kinds of documents about batches that a store keeps.
func Kinds() []string { return []string{Kind, removedKind} }

// Errors of a Keeper.
var (
	// ErrTooMany means that an owner has as many batches as are kept, and none of them has
	// ended. ErrAllTooMany means that all owners together have too many, and no owner gives
	// way who has as many as the one who asks.
	ErrTooMany    = errors.New("there are too many batches, and none of them has ended")
	ErrAllTooMany = errors.New("there are too many batches of all owners, and none of them gives way")
	// ErrInUse means that a batch that has not ended needs a file.
	ErrInUse = errors.New("a batch that has not ended needs the file")
)

// Options are the parts that a Keeper works with.
type Options struct {
	Documents documents.Store
	Files     *files.Store
	// Most returns how many batches of an owner are kept, and of all together.
	Most func() (ofOne, inAll int)
	// Remove removes a batch with its results. One that has not ended is removed only by
	// force; isOpen reports that it was not.
	Remove func(ctx context.Context, id string, isForced bool) (isOpen bool, err error)
	// IsRemoved reports whether the key of an owner was removed; nil means that none ever is.
	IsRemoved func(files.Owner) bool
	Log       *slog.Logger
}

// Keeper removes files and batches that are no longer kept.
type Keeper struct{ o Options }

// New returns a keeper. It lets old results give way to new files and batches.
func New(o Options) *Keeper {
	k := &Keeper{o}
	o.Files.GiveWay(Kind, k.giveWay)
	return k
}

// giveWay removes a batch with its results, because they take the room of something new. It
// reports whether it did not because the batch has not ended.
func (k *Keeper) giveWay(ctx context.Context, id string) (isOpen bool, err error) {
	isOpen, err = k.o.Remove(ctx, id, false)
	if err == nil && !isOpen {
		k.o.Log.Debug("a batch that has ended gives way to something new", "batch", id)
	}
	return isOpen, err
}

// MakePlace removes the oldest batches that have ended where an owner has as many as are kept,
// or all owners together have.
func (k *Keeper) MakePlace(ctx context.Context, scope string) error {
	most, inAll := k.o.Most()
	own, all, err := k.o.Documents.Use(ctx, Kind, scope)
	if err != nil {
		return err
	}
	over := own.Count + 1 - most
	if over > 0 {
		removed, err := k.removeOldest(ctx, scope, over)
		if err != nil {
			return err
		}
		if removed < over {
			return ErrTooMany
		}
		all.Count -= removed
	}
	over = all.Count + 1 - inAll
	if over <= 0 {
		return nil
	}
	removed, err := k.removeOfMost(ctx, scope, over)
	if err == nil && removed < over {
		err = ErrAllTooMany
	}
	return err
}

// removeOldest removes so many batches of an owner that have ended, the oldest first, and
// returns how many there were.
func (k *Keeper) removeOldest(ctx context.Context, scope string, most int) (removed int, err error) {
	if most <= 0 {
		return 0, nil
	}
	query := documents.Query{Kind: Kind, Scopes: []string{scope}, IsAscending: true, OnlyNames: true}
	err = documents.Each(ctx, k.o.Documents, query, func(doc documents.Document) (bool, error) {
		if doc.IsOpen {
			return true, nil
		}
		isOpen, err := k.giveWay(ctx, doc.ID)
		if err == nil && !isOpen {
			removed++
		}
		return removed < most, err
	})
	return removed, err
}

// removeOfMost removes so many ended batches of the owners with the most, and with no fewer
// than the one who asks.
func (k *Keeper) removeOfMost(ctx context.Context, asks string, most int) (removed int, err error) {
	uses, err := k.o.Documents.Uses(ctx, Kind)
	if err != nil {
		return 0, err
	}
	own := uses[asks].Count
	maps.DeleteFunc(uses, func(scope string, use documents.Use) bool { return use.Count < own })
	scopes := slices.SortedFunc(maps.Keys(uses), func(a, b string) int {
		return cmp.Or(cmp.Compare(uses[b].Count, uses[a].Count), strings.Compare(a, b))
	})
	for _, scope := range scopes {
		n, err := k.removeOldest(ctx, scope, most-removed)
		removed += n
		if err != nil || removed >= most {
			return removed, err
		}
	}
	return removed, nil
}

// Trim removes the files and batches above the bounds, because earlier bounds were higher.
func (k *Keeper) Trim(ctx context.Context) error {
	most, inAll := k.o.Most()
	uses, err := k.o.Documents.Uses(ctx, Kind)
	if err != nil {
		return err
	}
	all := 0
	for scope, use := range uses {
		removed, err := k.removeOldest(ctx, scope, use.Count-most)
		if err != nil {
			return err
		}
		all += use.Count - removed
	}
	if over := all - inAll; over > 0 {
		if _, err := k.removeOfMost(ctx, files.AnyScope, over); err != nil {
			return err
		}
	}
	return k.o.Files.Trim(ctx)
}
