// Package files keeps the files that clients upload, and those that are made for them, within
// bounds: their descriptions in a store of documents, their contents in a folder, encrypted
// where there is a master key.
package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/documents"
	"github.com/patchbay-ai/patchbay/internal/durable"
	"github.com/patchbay-ai/patchbay/internal/seal"
)

// Owner is who made a file.
type Owner struct {
	// Key is the id of the API key, empty where none was needed, and Issue tells apart the
	// keys that had this id one after the other.
	Key   string `json:"key,omitzero"`
	Issue string `json:"issue,omitzero"`
	// Tenant is that of the key.
	Tenant string `json:"tenant,omitzero"`
}

// Scope returns who sees what the owner makes: all keys of the tenant, the key alone where it
// has none, and everybody where no keys are needed.
func (o Owner) Scope() string {
	switch {
	case o.Key == "":
		return "open"
	case o.Tenant != "":
		return "tenant " + o.Tenant
	}
	return "key " + o.Key + " " + o.Issue
}

// File describes a file.
type File struct {
	ID       string    `json:"id"`
	Owner    Owner     `json:"owner"`
	Filename string    `json:"filename"`
	Purpose  string    `json:"purpose"`
	Bytes    int64     `json:"bytes"`
	Created  time.Time `json:"created"`
	// Expires is when it is deleted.
	Expires time.Time `json:"expires"`
	// IsHidden says that it is a part of something else, and not listed.
	IsHidden bool `json:"hidden,omitzero"`
}

// Errors of a Store.
var (
	// ErrNotFound means that there is no such file, or that others own it.
	ErrNotFound = errors.New("no such file")
	// ErrTooLarge means that a file is larger than allowed.
	ErrTooLarge = errors.New("the file is too large")
	// ErrTooMany means that the owner has as many files as allowed.
	ErrTooMany = errors.New("there are too many files")
	// ErrNoRoom means that the owner has as much on disk as allowed, and ErrAllFull that
	// all owners together have.
	ErrNoRoom  = errors.New("the files take as much room as one owner may have")
	ErrAllFull = errors.New("the files of all take as much room as there may be")
	// ErrDiskFull means that the disk has no space left.
	ErrDiskFull = errors.New("the disk has no space left")
)

// kind is that of the documents, hiddenKind that of files that are not listed.
const (
	kind       = "file"
	hiddenKind = "part"
)

// Store keeps files.
type Store struct {
	docs     documents.Store
	dir      *durable.Dir
	keys     *seal.Keys
	settings func() Settings
	log      *slog.Logger

	mu sync.Mutex
	// held is the room that is used beside the files, such as by uploads that have not
	// ended, by scope; all is the sum.
	held map[string]int64
	all  int64
}

// Options are what a Store works with.
type Options struct {
	Documents documents.Store
	// Folder is where contents are.
	Folder string
	// Keys encrypt contents; nil encrypts nothing.
	Keys     *seal.Keys
	Settings func() Settings
	Log      *slog.Logger
	// IsShared says that other processes use the folder at the same time, so that what is
	// unfinished there may be theirs.
	IsShared bool
}

// Open returns the store in a folder, which it makes if there is none.
func Open(o Options) (*Store, error) {
	dir, err := openFolder(o.Folder, o.IsShared)
	if err != nil {
		return nil, err
	}
	s := &Store{docs: o.Documents, dir: dir, keys: o.Keys, settings: o.Settings, log: o.Log, held: map[string]int64{}}
	if !o.IsShared {
		err = s.sweep(context.Background(), 0)
	}
	return s, err
}

// sweep removes contents that nobody describes because a crash came before their description,
// if they are at least so old.
func (s *Store) sweep(ctx context.Context, age time.Duration) error {
	names, err := s.dir.Names()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, kind := range []string{kind, hiddenKind} {
		docs, err := s.docs.List(ctx, documents.Query{Kind: kind})
		if err != nil {
			return err
		}
		for _, doc := range docs {
			known[doc.ID] = true
		}
	}
	for _, name := range names {
		info, err := os.Stat(s.dir.Path(name))
		if known[name] || err != nil || time.Since(info.ModTime()) < age {
			continue
		}
		if err := s.dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// NewID returns an id that nobody guesses, after a prefix.
func NewID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// Get returns a file that is seen in a scope.
func (s *Store) Get(ctx context.Context, scope, id string) (File, error) {
	file, err := s.find(ctx, kind, id)
	if err == nil && file.Owner.Scope() != scope {
		return File{}, ErrNotFound
	}
	return file, err
}

// Part returns a file that is not listed. Whoever asks decides whose it is.
func (s *Store) Part(ctx context.Context, id string) (File, error) {
	return s.find(ctx, hiddenKind, id)
}

func (s *Store) find(ctx context.Context, kind, id string) (File, error) {
	doc, err := s.docs.Get(ctx, kind, id)
	if errors.Is(err, documents.ErrNotFound) {
		return File{}, ErrNotFound
	}
	if err != nil {
		return File{}, err
	}
	file, err := decode(doc)
	if err == nil && !time.Now().Before(file.Expires) {
		return File{}, ErrNotFound
	}
	return file, err
}

func decode(doc documents.Document) (File, error) {
	var file File
	if err := json.Unmarshal(doc.Data, &file); err != nil {
		return File{}, fmt.Errorf("the description of %s: %w", doc.ID, err)
	}
	return file, nil
}

// Listing says which files are listed.
type Listing struct {
	Scope string
	// Purpose is that of the files; empty for all.
	Purpose string
	// After is the id of the file after which the list begins; empty for the first.
	After       string
	IsAscending bool
	Limit       int
}

// List returns files in their order, and whether there are more. An unknown after is
// ErrNotFound.
func (s *Store) List(ctx context.Context, l Listing) (found []File, hasMore bool, err error) {
	docs, err := s.docs.List(ctx, documents.Query{Kind: kind, Scopes: []string{l.Scope}, After: l.After, IsAscending: l.IsAscending})
	if errors.Is(err, documents.ErrNotFound) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, false, err
	}
	now := time.Now()
	for _, doc := range docs {
		file, err := decode(doc)
		if err != nil {
			return nil, false, err
		}
		if l.Purpose != "" && file.Purpose != l.Purpose || !now.Before(file.Expires) {
			continue
		}
		if len(found) == l.Limit {
			return found, true, nil
		}
		found = append(found, file)
	}
	return found, false, nil
}

// Delete removes a file and its content. Removing one that is not there is no error.
func (s *Store) Delete(ctx context.Context, file File) error {
	// The content goes first: a description without a content is found and removed later, a
	// content without a description never.
	if err := s.dir.Remove(file.ID); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.docs.Delete(ctx, kindOf(file), file.ID)
}

func kindOf(file File) string {
	if file.IsHidden {
		return hiddenKind
	}
	return kind
}

// Expire removes the files whose time is over.
func (s *Store) Expire(ctx context.Context) error {
	now := time.Now()
	for _, kind := range []string{kind, hiddenKind} {
		docs, err := s.docs.List(ctx, documents.Query{Kind: kind})
		if err != nil {
			return err
		}
		for _, doc := range docs {
			file, err := decode(doc)
			if err == nil && !now.Before(file.Expires) {
				err = s.Delete(ctx, file)
			}
			if err != nil {
				return err
			}
		}
	}
	return s.sweep(ctx, 24*time.Hour)
}

// Hold notes that an owner uses more of the disk beside files, or less. More than allowed is
// ErrNoRoom or ErrAllFull.
func (s *Store) Hold(ctx context.Context, scope string, bytes int64) error {
	if bytes <= 0 {
		s.hold(scope, bytes)
		return nil
	}
	own, all, err := s.use(ctx, scope)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	settings := s.settings()
	switch {
	case own.Bytes+s.held[scope]+bytes > int64(settings.MaxBytesPerKey):
		return ErrNoRoom
	case all.Bytes+s.all+bytes > int64(settings.MaxBytes):
		return ErrAllFull
	}
	s.held[scope] += bytes
	s.all += bytes
	return nil
}

func (s *Store) hold(scope string, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[scope] += bytes
	s.all += bytes
	if s.held[scope] <= 0 {
		delete(s.held, scope)
	}
}

// use returns what the files of a scope take, listed or not, and those of all.
func (s *Store) use(ctx context.Context, scope string) (own, all documents.Use, err error) {
	for _, kind := range []string{kind, hiddenKind} {
		ownHere, allHere, err := s.docs.Use(ctx, kind, scope)
		if err != nil {
			return own, all, err
		}
		own.Bytes += ownHere.Bytes
		all.Bytes += allHere.Bytes
		if kind != hiddenKind {
			own.Count, all.Count = ownHere.Count, allHere.Count
		}
	}
	return own, all, nil
}

// Used returns how many bytes all files take, and what is used beside them.
func (s *Store) Used(ctx context.Context) (int64, error) {
	_, all, err := s.use(ctx, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	return all.Bytes + s.all, err
}

// diskError returns ErrDiskFull for an error that says so.
func diskError(err error) error {
	if durable.IsFull(err) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return err
}
