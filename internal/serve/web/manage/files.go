package manage

import (
	"context"
	"errors"
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/keeping"
)

// Files are the files of all owners.
type Files interface {
	List(ctx context.Context, l files.Listing) (found []files.File, hasMore bool, err error)
}

// ownedQuery says whose files or batches are meant.
type ownedQuery struct {
	Tenant  string `json:"tenant" doc:"Those of all keys of a tenant."`
	Key     string `json:"key" doc:"Those that the key with this id made."`
	Keyless bool   `json:"keyless" doc:"Those that were made while no key was needed."`
}

// filesQuery asks for files of an owner, or of all.
type filesQuery struct {
	pageQuery
	ownedQuery
}

// ownedOf reads whose files or batches are meant. One owner at most is named, and exactly one
// where that is required.
func ownedOf(q *Request, isRequired bool) (files.Owned, error) {
	query := q.URL.Query()
	of := files.Owned{Tenant: query.Get("tenant"), Key: query.Get("key")}
	var err error
	if of.IsKeyless, err = flag(q.Request, "keyless"); err != nil {
		return of, err
	}
	named := 0
	for _, is := range []bool{of.Tenant != "", of.Key != "", of.IsKeyless} {
		if is {
			named++
		}
	}
	if named > 1 || isRequired && named == 0 {
		return of, invalidField("tenant", "name one owner, by tenant, key or keyless=true")
	}
	return of, nil
}

// nameOf returns an owner in words.
func nameOf(of files.Owned) string {
	switch {
	case of.Tenant != "":
		return "tenant " + web.Shorten(of.Tenant)
	case of.Key != "":
		return "key " + web.Shorten(of.Key)
	}
	return "callers without a key"
}

// errStoreAway means that the database of files and batches does not answer.
var errStoreAway = errors.New("the database of files and batches does not answer; try again shortly")

// storeError returns what is told of an error of the store.
func storeError(err error) error {
	if errors.Is(err, documents.ErrUnavailable) {
		return errStoreAway
	}
	return err
}

// managedFile is a file as people who run the gateway see it. What it says is not in it.
type managedFile struct {
	ID        string `json:"id"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose" enum:"batch,batch_output"`
	Bytes     int64  `json:"bytes"`
	KeyID     string `json:"keyId,omitzero" doc:"The key that made it."`
	Tenant    string `json:"tenant,omitzero"`
	CreatedAt string `json:"createdAt" format:"date-time"`
	ExpiresAt string `json:"expiresAt" format:"date-time"`
}

func viewOfFile(f files.File) managedFile {
	return managedFile{
		ID: f.ID, Filename: f.Filename, Purpose: f.Purpose, Bytes: f.Bytes, KeyID: f.Owner.Key, Tenant: f.Owner.Tenant,
		CreatedAt: web.Time(f.Created), ExpiresAt: web.Time(f.Expires),
	}
}

// mostFiles is how many files are listed, the newest.
const mostFiles = 1000

// Files answers GET /api/files.
func (a *API) Files(q *Request) (Reply, error) {
	of, err := ownedOf(q, false)
	if err != nil {
		return Reply{}, err
	}
	var views []managedFile
	if a.options.Files != nil {
		found, _, err := a.options.Files.List(q.Context(), files.Listing{Scope: of.Scope(), Key: of.Key, Limit: mostFiles})
		if err != nil {
			return Reply{}, storeError(err)
		}
		for _, f := range found {
			views = append(views, viewOfFile(f))
		}
	}
	data, err := list(q, views)
	return Reply{message: "The newest files.", data: data}, err
}

// DeleteFile answers DELETE /api/files/{id}.
func (a *API) DeleteFile(q *Request) (Reply, error) {
	id := q.PathValue("id")
	missing := fmt.Errorf("%w: there is no file %q", errNotFound, web.Shorten(id))
	if a.options.Batches == nil {
		return Reply{}, missing
	}
	file, err := a.options.Batches.Kept().RemoveFile(q.Context(), id, q.change.DryRun)
	switch {
	case errors.Is(err, files.ErrNotFound):
		return Reply{}, missing
	case errors.Is(err, keeping.ErrInUse):
		return Reply{}, invalidField("id", "a batch that has not ended needs the file; cancel or delete it first")
	case err != nil:
		return Reply{}, storeError(err)
	}
	message := "The file " + file.ID + " was deleted."
	if q.change.DryRun {
		message = "The file " + file.ID + " would be deleted."
	}
	return Reply{message: message, change: "file " + file.ID + " deleted", data: viewOfFile(file)}, nil
}

// removedFiles counts what was deleted, or what would be.
type removedFiles struct {
	Files  int   `json:"files"`
	Bytes  int64 `json:"bytes"`
	InUse  int   `json:"inUse" doc:"Files that are left, because a batch that has not ended needs them."`
	DryRun bool  `json:"dryRun,omitzero"`
}

// DeleteFiles answers DELETE /api/files.
func (a *API) DeleteFiles(q *Request) (Reply, error) {
	of, err := ownedOf(q, true)
	if err != nil {
		return Reply{}, err
	}
	var removed keeping.RemovedFiles
	if a.options.Batches != nil {
		if removed, err = a.options.Batches.Kept().RemoveFilesOf(q.Context(), of, q.change.DryRun); err != nil {
			return Reply{}, storeError(err)
		}
	}
	verb := "were deleted"
	if q.change.DryRun {
		verb = "would be deleted"
	}
	return Reply{
		message: fmt.Sprintf("%d files of %s %s; batches that have not ended need %d.", removed.Files, nameOf(of), verb, removed.InUse),
		change:  fmt.Sprintf("%d files of %s deleted", removed.Files, nameOf(of)),
		data:    removedFiles{removed.Files, removed.Bytes, removed.InUse, q.change.DryRun},
	}, nil
}
