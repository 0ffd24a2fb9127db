package manage

import (
	"context"
	"errors"

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
	web.PageQuery
	ownedQuery
}

// owner returns whose files or batches are meant. One owner at most is named, and exactly one
// where that is required.
func (q *ownedQuery) owner(isRequired bool) (files.Owned, error) {
	of := files.Owned{Tenant: q.Tenant, Key: q.Key, IsKeyless: q.Keyless}
	named := 0
	for _, is := range []bool{of.Tenant != "", of.Key != "", of.IsKeyless} {
		if is {
			named++
		}
	}
	if named > 1 || isRequired && named == 0 {
		return of, web.Invalid("tenant", "name one owner, by tenant, key or keyless=true")
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

// storeError returns what is told of an error of the store.
func storeError(err error) error {
	if errors.Is(err, documents.ErrUnavailable) {
		return away("the database of files and batches does not answer; try again shortly")
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

func (a *API) listFiles(c *web.Call, q *filesQuery) (views []managedFile, err error) {
	of, err := q.owner(false)
	if err != nil || a.options.Files == nil {
		return nil, err
	}
	found, _, err := a.options.Files.List(c.Context(), files.Listing{Scope: of.Scope(), Key: of.Key, Limit: mostFiles})
	for _, f := range found {
		views = append(views, viewOfFile(f))
	}
	return views, storeError(err)
}

func (a *API) deleteFile(c *web.Call) (managedFile, error) {
	id := c.PathValue("id")
	missing := web.NotFound("not found: there is no file %q", web.Shorten(id))
	if a.options.Batches == nil {
		return managedFile{}, missing
	}
	file, err := a.options.Batches.Kept().RemoveFile(c.Context(), id, c.DryRun)
	switch {
	case errors.Is(err, files.ErrNotFound):
		return managedFile{}, missing
	case errors.Is(err, keeping.ErrInUse):
		return managedFile{}, web.Invalid("id", "a batch that has not ended needs the file; cancel or delete it first")
	}
	c.Say("The file %s was deleted.", file.ID)
	if c.DryRun {
		c.Say("The file %s would be deleted.", file.ID)
	}
	c.Done("file %s deleted", file.ID)
	return viewOfFile(file), storeError(err)
}

// removedFiles counts what was deleted, or what would be.
type removedFiles struct {
	Files  int   `json:"files"`
	Bytes  int64 `json:"bytes"`
	InUse  int   `json:"inUse" doc:"Files that are left, because a batch that has not ended needs them."`
	DryRun bool  `json:"dryRun,omitzero"`
}

func (a *API) deleteFiles(c *web.Call, q *ownedQuery) (removedFiles, error) {
	of, err := q.owner(true)
	var removed keeping.RemovedFiles
	if err == nil && a.options.Batches != nil {
		removed, err = a.options.Batches.Kept().RemoveFilesOf(c.Context(), of, c.DryRun)
	}
	c.Say("%d files of %s %s; batches that have not ended need %d.", removed.Files, nameOf(of), deletion(c), removed.InUse)
	c.Done("%d files of %s deleted", removed.Files, nameOf(of))
	return removedFiles{removed.Files, removed.Bytes, removed.InUse, c.DryRun}, storeError(err)
}
