// Package files keeps the files that clients upload, and files made for them, within
// bounds: their descriptions in a store of documents, their contents in a folder, encrypted
// where there is a master key.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Owner is the maker of a file.
type Owner struct {
	// Key is the id of the API key, empty where none was needed, and Issue tells apart the
	// keys that had this id one after the other.
	Key   string `json:"key,omitzero"`
	Issue string `json:"issue,omitzero"`
	// Tenant is the tenant of the key.
	Tenant string `json:"tenant,omitzero"`
	// Claims is the content of the token in place of a key, with which a batch was made.
	Claims string `json:"claims,omitzero"`
}

// Plain returns the owner without claims, which files do not need.
func (o Owner) Plain() Owner {
	o.Claims = ""
	return o
}

// Scope returns who sees the owner's files: all keys of the tenant, the key alone where it
// has none, and everybody where no keys are needed.
func (o Owner) Scope() string {
	switch {
	case o.Key == "":
		return "open"
	case o.Tenant != "":
		return "tenant " + o.Tenant
	}
	return keyScope + o.Key + " " + o.Issue
}

// keyScope begins the scope of a key without a tenant.
const keyScope = "key "

// KeyOf returns the key without a tenant that has a scope; false for any other scope.
func KeyOf(scope string) (Owner, bool) {
	text, isKey := strings.CutPrefix(scope, keyScope)
	at := strings.LastIndexByte(text, ' ')
	if !isKey || at < 0 {
		return Owner{}, false
	}
	return Owner{Key: text[:at], Issue: text[at+1:]}, true
}

// Owned names an owner of files and batches: a tenant, a key, or callers without a key.
type Owned struct {
	Tenant, Key string
	IsKeyless   bool
}

// Scope returns the scope that all of them are in, AnyScope where it is not known.
func (o Owned) Scope() string {
	switch {
	case o.Tenant != "":
		return Owner{Key: "any", Tenant: o.Tenant}.Scope()
	case o.IsKeyless:
		return Owner{}.Scope()
	}
	return AnyScope
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
	// IsHidden says that it is a part of another object, and not listed.
	IsHidden bool `json:"hidden,omitzero"`
	// IsSealed says that its content is encrypted: a plain content is not taken for it.
	IsSealed bool `json:"sealed,omitzero"`
}

// Errors of a Store.
var (
	// ErrNotFound means that there is no such file, or that others own it.
	ErrNotFound = errors.New("no such file")
	// ErrTooLarge means that a file is larger than allowed.
	ErrTooLarge = errors.New("the file is too large")
	// ErrTooMany means that the owner has as many files as allowed, and ErrAllTooMany that
	// all owners together have.
	ErrTooMany    = errors.New("there are too many files")
	ErrAllTooMany = errors.New("there are too many files of all owners")
	// ErrNoRoom means that the owner has as much on disk as allowed, and ErrAllFull that
	// all owners together have.
	ErrNoRoom  = errors.New("the files take as much room as one owner may have")
	ErrAllFull = errors.New("the files of all take as much room as there may be")
	// ErrDiskFull means that the disk has no space left, or only the space reserved for
	// writes of the gateway itself.
	ErrDiskFull = errors.New("the disk has no space left")
)

// Kind is the kind of the documents that describe files.
const Kind = "file"

// Store keeps files.
type Store struct {
	o   Options
	dir *durable.Dir
	// otherKind is the kind of documents that take room beside the files, and giveWay
	// removes one of them with its results.
	otherKind string
	giveWay   func(ctx context.Context, id string) (isOpen bool, err error)

	mu sync.Mutex
	// held is the room used beside the files, such as by uploads that have not ended, by
	// scope; all is the sum.
	held map[string]documents.Use
	all  documents.Use
	// unwritten is how much of it is not on the disk yet.
	unwritten int64
	// commits counts the uploads that became files.
	commits  int
	refusals refusals
}

// Options are the parts that a Store works with.
type Options struct {
	Documents documents.Store
	// Folder is the folder of the contents.
	Folder string
	// Keys encrypt contents; nil encrypts nothing.
	Keys     *seal.Keys
	Settings func() Settings
	Log      *slog.Logger
	// IsShared says that other processes use the folder at the same time, and unfinished
	// files there may be theirs.
	IsShared bool
	// Space tells of the disk with a folder; nil asks the operating system.
	Space func(path string) (durable.Space, error)
}

// Open returns the store in a folder, which it makes if there is none.
func Open(o Options) (*Store, error) {
	dir, err := openFolder(o.Folder, o.IsShared)
	if err != nil {
		return nil, err
	}
	if o.Space == nil {
		o.Space = durable.SpaceOf
	}
	s := &Store{o: o, dir: dir, held: map[string]documents.Use{}}
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
	docs, err := s.o.Documents.List(ctx, documents.Query{Kind: Kind, OnlyNames: true})
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(docs))
	for _, doc := range docs {
		known[doc.ID] = true
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

// Get returns a listed file of a scope.
func (s *Store) Get(ctx context.Context, scope, id string) (File, error) {
	file, err := s.Find(ctx, scope, id)
	if err == nil && file.IsHidden {
		return File{}, ErrNotFound
	}
	return file, err
}

// Find returns a file of a scope, listed or not.
func (s *Store) Find(ctx context.Context, scope, id string) (File, error) {
	file, err := s.Input(ctx, scope, id)
	if err == nil && !time.Now().Before(file.Expires) {
		return File{}, ErrNotFound
	}
	return file, err
}

// Input returns a file of a scope for a batch that has not ended: listed or not, and also if it has
// expired, see Expire.
func (s *Store) Input(ctx context.Context, scope, id string) (File, error) {
	doc, err := s.o.Documents.Get(ctx, Kind, id)
	if errors.Is(err, documents.ErrNotFound) {
		return File{}, ErrNotFound
	}
	if err != nil {
		return File{}, err
	}
	file, err := decode(doc)
	if err == nil && scope != AnyScope && file.Owner.Scope() != scope {
		return File{}, ErrNotFound
	}
	return file, err
}

func decode(doc documents.Document) (File, error) {
	var file File
	if err := json.Unmarshal(doc.Data, &file); err != nil {
		return File{}, fmt.Errorf("the description of %s: %w", doc.ID, err)
	}
	if file.ID != doc.ID || documents.CheckName(doc.Kind, doc.ID) != nil { // it names a file on the disk
		return File{}, fmt.Errorf("the description of %s: it is that of %q", doc.ID, file.ID)
	}
	return file, nil
}

// AnyScope asks for files of all owners.
const AnyScope = ""

// Listing says which files are listed.
type Listing struct {
	// Scope is the scope of their owners, or AnyScope, and Key the key that made them;
	// empty for all.
	Scope, Key string
	// Purpose is the purpose of the files; empty for all.
	Purpose string
	// After is the id of the file before the first of the list; empty to begin at the
	// first.
	After       string
	IsAscending bool
	Limit       int
}

// List returns files in their order, and whether there are more. An after that tells no place
// is ErrNotFound.
func (s *Store) List(ctx context.Context, l Listing) (found []File, hasMore bool, err error) {
	now := time.Now()
	query := documents.Query{After: l.After, IsAscending: l.IsAscending}
	err = s.each(ctx, query, l.Scope, func(file File) (bool, error) {
		if file.IsHidden || l.Purpose != "" && file.Purpose != l.Purpose || l.Key != "" && file.Owner.Key != l.Key ||
			!now.Before(file.Expires) {
			return true, nil
		}
		if hasMore = len(found) == l.Limit; !hasMore {
			found = append(found, file)
		}
		return !hasMore, nil
	})
	if errors.Is(err, documents.ErrNotFound) {
		err = ErrNotFound
	}
	return found, hasMore, err
}

// Delete removes a file and its content. Removing one that is not there is no error.
func (s *Store) Delete(ctx context.Context, file File) error {
	// The content goes first: a description without a content is found and removed later, a
	// content without a description never.
	if err := s.dir.Remove(file.ID); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.o.Documents.Delete(ctx, Kind, file.ID)
}

// Expire removes the files that have expired, except files in use.
func (s *Store) Expire(ctx context.Context, inUse map[string]bool) error {
	now := time.Now()
	err := s.each(ctx, documents.Query{}, AnyScope, func(file File) (bool, error) {
		if now.Before(file.Expires) || inUse[file.ID] {
			return true, nil
		}
		return true, s.Delete(ctx, file)
	})
	if err != nil {
		return err
	}
	return s.sweep(ctx, 24*time.Hour)
}

// Each calls a function with the files of an owner that are listed.
func (s *Store) Each(ctx context.Context, of Owned, visit func(File) error) error {
	return s.each(ctx, documents.Query{}, of.Scope(), func(file File) (bool, error) {
		if file.IsHidden || of.Key != "" && file.Owner.Key != of.Key {
			return true, nil
		}
		return true, visit(file)
	})
}

// RemoveAll removes all files of a scope, listed or not.
func (s *Store) RemoveAll(ctx context.Context, scope string) error {
	return s.each(ctx, documents.Query{}, scope, func(file File) (bool, error) { return true, s.Delete(ctx, file) })
}

// each calls a function with the files of a query and a scope until it returns false or an error.
// A description that cannot be read does not keep others from being found.
func (s *Store) each(ctx context.Context, query documents.Query, scope string,
	visit func(File) (more bool, err error)) error {
	query.Kind = Kind
	if scope != AnyScope {
		query.Scopes = []string{scope}
	}
	return documents.Each(ctx, s.o.Documents, query, func(doc documents.Document) (bool, error) {
		file, err := decode(doc)
		if err != nil {
			s.o.Log.Error("the description of a file cannot be read and is passed over", "error", err)
			return true, nil
		}
		return visit(file)
	})
}

// diskError returns ErrDiskFull for an error that says so.
func diskError(err error) error {
	if durable.IsFull(err) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return err
}
