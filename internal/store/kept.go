// Package store declares what a gateway keeps. The owner of stored data describes each kind of it once,
// in its own package; backups, restores, checks and the documentation are derived from that.
package store

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
)

// Part is a part of a backup.
type Part string

// The parts. Every backup has the configuration; batches come with files, which have their lines and
// results.
const (
	Configuration Part = "configuration"
	Ledger        Part = "ledger"
	Files         Part = "files"
	Batches       Part = "batches"
)

// Kept declares one kind of stored data.
type Kept struct {
	// Name describes the data, Bound how much of it is kept for one owner or in all, and Ends when it is
	// removed.
	Name, Bound, Ends string
	// Part is the part of a backup that has the data; if it is empty no backup has it, for the reason
	// Without.
	Part    Part
	Without string
	// Yields reports whether nothing of it is written while the disk has no space but the reserved one.
	Yields bool
	// IsSecret reports whether whoever reads the data could act for somebody else.
	IsSecret bool
	// Files are its files in the data directory. The name of a folder ends with a slash. One with * is
	// a pattern, and a restore leaves these files where they are.
	Files []string
	// Tables are its tables in a database, and Values the beginnings of the names of its values in the
	// database of a shared configuration. Redis are the beginnings of its keys in Redis.
	Tables, Values, Redis []string
	// Kinds are the kinds of its documents, and Passing those of which a backup has none: a restore
	// removes them with the others.
	Kinds, Passing []string
	// IsMerged reports whether a restore adds the documents to those of the place. Of two with the same
	// name the one that was created later stays. Otherwise the documents of the place are replaced.
	IsMerged bool
	// Folder is the folder of the documents in a data directory, and Contents that of a file for each of
	// them.
	Folder, Contents string
	// Read and Write translate the file that a data directory has in place of that folder, the first of
	// Files; nil if there is none.
	Read  func(content []byte) ([]documents.Document, error)
	Write func([]documents.Document) ([]byte, error)
	// Signed are the kinds of the documents that are signed with the master key, and Sealed seals what belongs to
	// such a document anew and may change the document; nil if nothing does.
	Signed []string
	Sealed func(r *Rekeying, doc *documents.Document) error
	// Rekey signs and seals the files with the current key, and Entry the fields of a key in Redis, or the field ""
	// of one that has a text; nil if nothing of them is signed or sealed.
	Rekey func(*Rekeying) error
	Entry func(r *Rekeying, key string, fields map[string]string) error
	// Restored notes, in the database or else in the data directory, when a backup was restored there
	// and when it was made; nil if the owner need not know.
	Restored func(ctx context.Context, dataDir string, tx *sql.Tx, at, made string) error
}

// Names returns the files and folders that a restore replaces.
func (k *Kept) Names() []string {
	return slices.DeleteFunc(append([]string{k.Folder, k.Contents}, k.Files...), func(name string) bool {
		return name == "" || strings.Contains(name, "*")
	})
}

// Shared is the folder in the data directory in place of which gateways may share another one.
const Shared = "batches/"

// Path returns the path of a file or folder of a data directory; shared is the folder in place of Shared,
// if there is one.
func Path(name, dataDir, shared string) string {
	if rest, is := strings.CutPrefix(name, Shared); is && shared != "" {
		return filepath.Join(shared, rest)
	}
	return filepath.Join(dataDir, name)
}

// Of returns the declaration of a kind of documents, nil if there is none.
func Of(all []Kept, kind string) *Kept {
	for i := range all {
		if slices.Contains(all[i].Kinds, kind) {
			return &all[i]
		}
	}
	return nil
}
