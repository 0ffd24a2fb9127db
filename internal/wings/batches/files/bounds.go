package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// block is how much of the disk a description takes, and the surcharge for it on each file.
const block = 4 << 10

// Blocks returns how much of the disk so many bytes take.
func Blocks(bytes int) int64 { return (int64(bytes) + block - 1) / block * block }

// shortage is that there is too little room: why, and how much is missing.
type shortage struct {
	error
	isOfAll bool // of the room for all owners together
	lacks   documents.Use
}

// Unwrap returns which bound it is.
func (s *shortage) Unwrap() error { return s.error }

// GiveWay registers documents of another kind, with results among the files. They count as
// room that their owners use, and give way to new files: remove removes one with its
// results, and reports whether it did not because it has not ended. It is called before the
// store is used.
func (s *Store) GiveWay(kind string, remove func(ctx context.Context, id string) (isOpen bool, err error)) {
	s.otherKind, s.giveWay = kind, remove
}

// Hold notes that an owner uses more of the disk beside files, or less. For more than
// allowed the oldest results of the owner give way, or those of the owners with the most;
// where there are none, it is ErrNoRoom or ErrAllFull.
func (s *Store) Hold(ctx context.Context, scope string, bytes int64) error {
	if bytes <= 0 {
		s.release(scope, documents.Use{Bytes: -bytes}, 0, false)
		return nil
	}
	err := s.take(ctx, scope, documents.Use{Bytes: bytes})
	if err == nil {
		s.written(bytes)
	}
	return err
}

// take takes places and room for an owner. Results give way to them.
func (s *Store) take(ctx context.Context, scope string, more documents.Use) error {
	for {
		err := s.tryTake(ctx, scope, more)
		var short *shortage
		if !errors.As(err, &short) {
			s.note(err)
			return err
		}
		isMade, failure := s.makeWay(ctx, scope, short)
		if failure != nil {
			return failure
		}
		if !isMade {
			s.note(err)
			return err
		}
	}
}

// tryTake takes places and room for an owner. Where there is too little, the error is a
// shortage or ErrDiskFull.
func (s *Store) tryTake(ctx context.Context, scope string, more documents.Use) error {
	const tries = 10
	for try := 1; ; try++ {
		s.mu.Lock()
		commits := s.commits
		s.mu.Unlock()
		own, all, err := s.use(ctx, scope)
		if err != nil {
			return err
		}
		disk := s.space()
		s.mu.Lock()
		if s.commits != commits && try < tries {
			s.mu.Unlock()
			continue // an upload that was held has become a file that was not counted
		}
		err = s.check(disk, plus(own, s.held[scope]), plus(all, s.all), more)
		if err == nil {
			s.add(scope, more)
		}
		s.mu.Unlock()
		return err
	}
}

// check reports whether there is too little for more.
func (s *Store) check(disk durable.Space, own, all, more documents.Use) error {
	bounds := bounds(s.o.Settings(), disk)
	for _, short := range []shortage{
		{ErrTooMany, false, documents.Use{Count: own.Count + more.Count - bounds.MaxFiles}},
		{ErrAllTooMany, true, documents.Use{Count: all.Count + more.Count - bounds.MaxFilesInAll}},
		{ErrNoRoom, false, documents.Use{Bytes: own.Bytes + more.Bytes - int64(bounds.MaxBytesPerKey)}},
		{ErrAllFull, true, documents.Use{Bytes: all.Bytes + more.Bytes - int64(bounds.MaxBytes)}},
	} {
		if short.lacks.Bytes > 0 || short.lacks.Count > 0 && more.Count > 0 {
			return &short
		}
	}
	if disk.Total > 0 && disk.Free-s.unwritten-more.Bytes < int64(bounds.Reserve) {
		return fmt.Errorf("%w beyond the %s that are reserved for the gateway itself (files.reserve)", ErrDiskFull,
			bounds.Reserve)
	}
	return nil
}

func plus(a, b documents.Use) documents.Use {
	return documents.Use{Count: a.Count + b.Count, Bytes: a.Bytes + b.Bytes}
}

// add adds room to the held room, and none of it is on the disk yet. The lock is held.
func (s *Store) add(scope string, more documents.Use) {
	s.held[scope] = plus(s.held[scope], more)
	s.all = plus(s.all, more)
	s.unwritten += more.Bytes
}

// written notes that so many of the held bytes are on the disk.
func (s *Store) written(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwritten -= bytes
}

// release gives back held room. A part of it was never written. It became a file if isKept.
func (s *Store) release(scope string, held documents.Use, unwritten int64, isKept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(scope, documents.Use{Count: -held.Count, Bytes: -held.Bytes})
	s.unwritten += held.Bytes - unwritten
	if s.held[scope].Count <= 0 && s.held[scope].Bytes <= 0 {
		delete(s.held, scope)
	}
	if isKept {
		s.commits++
	}
}

// use returns the use of an owner, with descriptions, and that of all owners.
func (s *Store) use(ctx context.Context, scope string) (own, all documents.Use, err error) {
	own, all, err = s.o.Documents.Use(ctx, Kind, scope)
	own, all = described(own), described(all)
	if err != nil || s.otherKind == "" {
		return own, all, err
	}
	ownOthers, allOthers, err := s.o.Documents.Use(ctx, s.otherKind, scope)
	own.Bytes += ownOthers.Bytes
	all.Bytes += allOthers.Bytes
	return own, all, err
}

// described adds the size of the descriptions to the use of files.
func described(use documents.Use) documents.Use {
	use.Bytes += int64(use.Count) * block
	return use
}

// makeWay removes results until there is no shortage, the oldest first. It removes none
// where that would not be enough. In a shortage of all, only owners give way who have no
// less than the one who asks: nobody takes the room of owners who have less.
func (s *Store) makeWay(ctx context.Context, scope string, short *shortage) (bool, error) {
	if s.giveWay == nil {
		return false, nil
	}
	scopes := []string{scope}
	if short.isOfAll {
		var err error
		if scopes, err = s.thoseWithMore(ctx, scope, short); err != nil {
			return false, err
		}
	}
	found, err := s.results(ctx, scopes...)
	if err != nil || !short.isMet(sumOf(found)) {
		return false, err
	}
	return s.removeResults(ctx, found, short)
}

// thoseWithMore returns the owners who use no less of the short resource than the given
// one, the one with the most first.
func (s *Store) thoseWithMore(ctx context.Context, scope string, short *shortage) ([]string, error) {
	uses, err := s.Owners(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	uses[scope] = plus(uses[scope], s.held[scope])
	s.mu.Unlock()
	if short.lacks.Count > 0 {
		return MostFirst(uses, scope, func(use documents.Use) int64 { return int64(use.Count) }), nil
	}
	return MostFirst(uses, scope, func(use documents.Use) int64 { return use.Bytes }), nil
}

// MostFirst returns the owners who use no less than the one who asks, the one with the most first.
func MostFirst(uses map[string]documents.Use, asks string, amount func(documents.Use) int64) []string {
	own := amount(uses[asks])
	maps.DeleteFunc(uses, func(_ string, use documents.Use) bool { return amount(use) < own })
	return slices.SortedFunc(maps.Keys(uses), func(a, b string) int {
		return cmp.Or(cmp.Compare(amount(uses[b]), amount(uses[a])), strings.Compare(a, b))
	})
}

// Owners returns the use of the files of each owner, by scope.
func (s *Store) Owners(ctx context.Context) (map[string]documents.Use, error) {
	uses, err := s.o.Documents.Uses(ctx, Kind)
	for scope, use := range uses {
		uses[scope] = described(use)
	}
	return uses, err
}

// sumOf returns the use of files, with their descriptions.
func sumOf(docs []documents.Document) (sum documents.Use) {
	for _, doc := range docs {
		sum = plus(sum, described(documents.Use{Count: 1, Bytes: doc.Bytes}))
	}
	return sum
}

// removeResults removes results in their order until a shortage is met, and reports whether it
// is.
func (s *Store) removeResults(ctx context.Context, found []documents.Document,
	short *shortage) (isEnough bool, err error) {
	for _, doc := range found {
		if short.lacks.Count <= 0 && short.lacks.Bytes <= 0 {
			break
		}
		isOpen, err := s.giveWay(ctx, batchOf(doc.ID))
		if err != nil {
			return false, err
		}
		if isOpen {
			continue
		}
		if err := s.Delete(ctx, File{ID: doc.ID}); err != nil {
			return false, err
		}
		short.lacks.Count--
		short.lacks.Bytes -= doc.Bytes + block
	}
	return short.lacks.Count <= 0 && short.lacks.Bytes <= 0, nil
}

// isMet reports whether so much is enough.
func (s *shortage) isMet(by documents.Use) bool {
	return by.Count >= s.lacks.Count && by.Bytes >= s.lacks.Bytes
}

// results returns the results of batches that owners have, without data: the results of the
// first owner first, and of each the oldest first.
func (s *Store) results(ctx context.Context, scopes ...string) ([]documents.Document, error) {
	var all []documents.Document
	for _, scope := range scopes {
		docs, err := s.o.Documents.List(ctx,
			documents.Query{Kind: Kind, Scopes: []string{scope}, IsAscending: true, OnlyNames: true})
		if err != nil {
			return nil, err
		}
		all = append(all, slices.DeleteFunc(docs,
			func(doc documents.Document) bool { return batchOf(doc.ID) == "" })...)
	}
	return all, nil
}

// ResultID returns the id of the results of a batch. The same parts give the same id.
func ResultID(created time.Time, batch, name string, number int64) string {
	return fmt.Sprintf("%s-%s-%s-%d", documents.Dated("file-", created), batch, name, number)
}

// batchOf returns the batch that has results with an id, empty for the id of another file.
func batchOf(id string) string {
	for _, prefix := range []string{"-batch_", "-msgbatch_"} {
		if at := strings.Index(id, prefix); at >= 0 {
			batch, _, _ := strings.Cut(id[at+1:], "-")
			return batch
		}
	}
	return ""
}

// Trim removes results where owners have more files than allowed, because the bounds were
// larger before.
func (s *Store) Trim(ctx context.Context) error {
	if s.giveWay == nil {
		return nil
	}
	uses, err := s.Owners(ctx)
	if err != nil {
		return err
	}
	settings := s.o.Settings()
	inAll := 0
	for scope, use := range uses {
		inAll += use.Count
		if over := use.Count - settings.MaxFiles; over > 0 {
			short := &shortage{ErrTooMany, false, documents.Use{Count: over}}
			if err := s.trim(ctx, short, scope); err != nil {
				return err
			}
			inAll -= over - short.lacks.Count
		}
	}
	over := inAll - settings.MaxFilesInAll
	if over <= 0 {
		return nil
	}
	short := &shortage{ErrAllTooMany, true, documents.Use{Count: over}}
	scopes, err := s.thoseWithMore(ctx, AnyScope, short)
	if err != nil {
		return err
	}
	return s.trim(ctx, short, scopes...)
}

// trim removes results of owners until a shortage is met, or there are none.
func (s *Store) trim(ctx context.Context, short *shortage, scopes ...string) error {
	found, err := s.results(ctx, scopes...)
	if err == nil {
		_, err = s.removeResults(ctx, found, short)
	}
	return err
}
