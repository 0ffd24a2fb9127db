package managedbatches

import (
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// The folders of a gateway that shares none.
const (
	descriptions = store.Shared + "documents/"
	contents     = store.Shared + "contents/"
	answers      = store.Shared + "answers/"
)

// kept declares files and batches. A restored batch is leased anew.
func kept() []store.Kept {
	return []store.Kept{{
		Name: "files of clients and results of batches", Part: store.Files, Kinds: []string{files.Kind},
		Folder: descriptions,
		Signed: []string{files.Kind}, Sealed: func(r *store.Rekeying, doc *documents.Document) error {
			return files.Seal(r, contents, doc)
		},
		Contents: contents, Yields: true, Bound: "`files.max-bytes-per-key`",
		Ends: "`files.retention`, or 7 days after their key",
	}, {
		Name: "batches, also those that have not ended, with the answers so far", Part: store.Batches,
		Kinds: batches.Kinds(), Passing: []string{batches.LeaseKind}, Folder: descriptions, Files: []string{answers},
		Signed: batches.Kinds(), Rekey: batches.Rekey(answers),
		Yields: true, Bound: "`batches.max-kept`", Ends: "`files.retention` after their end, or 7 days after their key",
	}}
}
