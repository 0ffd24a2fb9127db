package managedbatches

import (
	"errors"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// managed returns the operations for people who run the gateway.
func (b *work) managed() []web.Route {
	ofBatch := web.ByReply(func(v *managedBatch) string { return v.Tenant })
	return []web.Route{
		{
			Pattern: "GET /api/batches",
			Does:    web.ListWith(b.listBatches),
			Summary: "The newest thousand batches of all owners, or of one, with their progress",
			Says:    "The newest batches of all owners.", Errors: []int{http.StatusServiceUnavailable},
		},
		{
			Pattern: "POST /api/batches/{id}/cancel", Takes: web.Always,
			Does: web.Do(b.cancelBatch), Concerns: ofBatch,
			Summary: "Stop a batch; requests that run end, and what was done is kept",
			Errors:  []int{http.StatusBadRequest, http.StatusNotFound, http.StatusServiceUnavailable},
		},
		{
			Pattern: "DELETE /api/batches/{id}",
			Does:    web.Do(b.deleteBatch), Concerns: ofBatch,
			Summary: "Delete a batch with its results; one that has not ended ends, and what was done is lost",
			Errors:  []int{http.StatusNotFound, http.StatusServiceUnavailable},
		},
		{
			Pattern: "DELETE /api/batches",
			Does:    web.DoWith(b.deleteBatches), Concerns: b.tenantOfOwner,
			Summary: "Delete all batches of an owner with their results; those that have not ended end",
			Errors:  []int{http.StatusBadRequest, http.StatusServiceUnavailable},
		},
		{
			Pattern: "GET /api/files", Does: web.ListWith(b.listFiles),
			Summary: "The newest thousand files of all owners, or of one, without their contents",
			Says:    "The newest files.", Errors: []int{http.StatusServiceUnavailable},
		},
		{
			Pattern: "DELETE /api/files/{id}",
			Does:    web.Do(b.deleteFile), Concerns: web.ByReply(func(v *managedFile) string { return v.Tenant }),
			Summary: "Delete a file, unless a batch that has not ended needs it",
			Errors:  []int{http.StatusBadRequest, http.StatusNotFound, http.StatusServiceUnavailable},
		},
		{
			Pattern: "DELETE /api/files",
			Does:    web.DoWith(b.deleteFiles), Concerns: b.tenantOfOwner,
			Summary: "Delete all files of an owner but those that a batch needs that has not ended",
			Errors:  []int{http.StatusBadRequest, http.StatusServiceUnavailable},
		},
	}
}

// batchState is the progress of a batch.
type batchState string

// Names returns every state.
func (batchState) Names() []string {
	return []string{"validating", "in_progress", "finalizing", "cancelling", "completed", "failed", "expired",
		"cancelled"}
}

// managedBatch is a batch as operators see it, without the texts of its lines.
type managedBatch struct {
	ID        string         `json:"id"`
	API       string         `json:"api" enum:"openai,anthropic" doc:"In whose shape it was made."`
	Endpoint  string         `json:"endpoint"`
	KeyID     string         `json:"keyId,omitzero" doc:"The key that made it."`
	Tenant    string         `json:"tenant,omitzero"`
	State     batchState     `json:"state"`
	Total     int            `json:"total" doc:"Its lines; 0 until they were checked."`
	Completed int            `json:"completed"`
	Failed    int            `json:"failed"`
	CreatedAt string         `json:"createdAt" format:"date-time"`
	StartedAt *string        `json:"startedAt" format:"date-time"`
	ExpiresAt string         `json:"expiresAt" format:"date-time"`
	EndedAt   *string        `json:"endedAt" format:"date-time"`
	Rate      float64        `json:"linesPerMinute" doc:"On average since it began."`
	EndsAt    *string        `json:"expectedEnd" format:"date-time" doc:"At that rate."`
	Prompt    int64          `json:"promptTokens"`
	Answer    int64          `json:"completionTokens"`
	Cost      string         `json:"cost" doc:"What its lines cost so far, in the currency of the prices."`
	Problem   string         `json:"problem,omitzero" doc:"Why no line runs, as far as this gateway knows."`
	Said      []say.Sentence `json:"said,omitzero" doc:"The problem as codes and values."`
	Fault     string         `json:"fault,omitzero" doc:"Why it failed or was stopped."`
	FaultSaid []say.Sentence `json:"faultSaid,omitzero" doc:"The fault as codes and values."`
}

func viewOfBatch(p batches.Progress, words web.Wording) managedBatch {
	problem, said := words(p.Problem.Cut(500))
	view := managedBatch{
		ID: p.ID, API: string(p.Form), Endpoint: p.Endpoint, KeyID: p.Owner.Key, Tenant: p.Owner.Tenant,
		State: batchState(p.State), Total: p.Lines,
		Completed: p.Counts.Done, Failed: p.Counts.Failed, CreatedAt: web.Time(p.Created),
		StartedAt: web.TimeOrNil(p.Started), ExpiresAt: web.Time(p.Expires),
		EndedAt: web.TimeOrNil(p.Ended), Rate: p.Rate, Prompt: p.Counts.Prompt, Answer: p.Counts.Completion,
		Cost:    prices.Amount(p.Counts.Cost).String(),
		Problem: problem, Said: said,
	}
	if !p.End.IsZero() && !p.State.IsEnd() {
		view.EndsAt = web.TimeOrNil(p.End)
	}
	if took := p.Ended.Sub(p.Started); p.State.IsEnd() && took > 0 && !p.Started.IsZero() {
		view.Rate = float64(p.Counts.Done+p.Counts.Failed) / max(took, time.Second).Minutes()
	}
	if len(p.Faults) > 0 {
		fault := p.Faults[0].Said.Cut(500)
		if line := p.Faults[0].Line; line > 0 {
			fault = say.New("batch.line", "line", line, "fault", fault)
		}
		view.Fault, view.FaultSaid = words(fault)
	}
	return view
}

// mostBatches is how many batches are listed, the newest.
const mostBatches = 1000

func (b *work) listBatches(c *web.Call, q *ownedPage) (views []managedBatch, err error) {
	of, err := q.owner(false)
	if err != nil || b.engine == nil {
		return nil, err
	}
	found, _, err := b.engine.List(c.Context(), batches.Listing{Scope: of.Scope(), Key: of.Key, Limit: mostBatches})
	for _, p := range found {
		views = append(views, viewOfBatch(p, c.Words()))
	}
	return views, storeError(err)
}

func (b *work) cancelBatch(c *web.Call) (managedBatch, error) {
	id := c.PathValue("id")
	if b.engine == nil {
		return managedBatch{}, noBatch(id)
	}
	find := b.engine.Cancel
	c.Say("The batch %s is being stopped; what was done is kept.", id)
	if c.DryRun {
		find = b.engine.Get
		c.Say("The batch %s would be stopped.", id)
	}
	p, err := find(c.Context(), batches.AnyScope, id)
	c.Done("batch %s cancelled", p.ID)
	return viewOfBatch(p, c.Words()), batchError(id, err)
}

func (b *work) deleteBatch(c *web.Call) (managedBatch, error) {
	id := c.PathValue("id")
	if b.engine == nil {
		return managedBatch{}, noBatch(id)
	}
	p, err := b.engine.Get(c.Context(), batches.AnyScope, id)
	c.Say("The batch %s would be deleted with its results.", id)
	if err == nil && !c.DryRun {
		err = b.engine.Remove(c.Context(), id)
		c.Say("The batch %s was deleted with its results.", id)
	}
	c.Done("batch %s deleted", p.ID)
	return viewOfBatch(p, c.Words()), batchError(id, err)
}

// removedBatches counts the deleted batches, or the ones that would be.
type removedBatches struct {
	Batches int  `json:"batches"`
	DryRun  bool `json:"dryRun,omitzero"`
}

func (b *work) deleteBatches(c *web.Call, q *ownedQuery) (removedBatches, error) {
	removed := removedBatches{DryRun: c.DryRun}
	of, err := q.owner(true)
	if err == nil && b.engine != nil {
		removed.Batches, err = b.engine.RemoveOf(c.Context(), of, c.DryRun)
	}
	c.Say("%d batches of %s %s with their results.", removed.Batches, nameOf(of), deletion(c))
	c.Done("%d batches of %s deleted", removed.Batches, nameOf(of))
	return removed, storeError(err)
}

// deletion says whether something was deleted, or would be.
func deletion(c *web.Call) string {
	if c.DryRun {
		return "would be deleted"
	}
	return "were deleted"
}

func noBatch(id string) error {
	return web.NoSuch("batch.unknown", "id", web.Shorten(id))
}

// batchError returns the caller's form of an error about one batch.
func batchError(id string, err error) error {
	switch {
	case errors.Is(err, batches.ErrNotFound):
		return noBatch(id)
	case errors.Is(err, batches.ErrEnded):
		return web.BadInput("id", "batch.ended")
	}
	return storeError(err)
}

// ownedQuery names the owner of files or batches.
type ownedQuery struct {
	Tenant  string `json:"tenant" doc:"Those of all keys of a tenant."`
	Key     string `json:"key" doc:"Those that the key with this id made."`
	Keyless bool   `json:"keyless" doc:"Those that were made while no key was needed."`
}

// ownedPage asks for a page of the files or batches of an owner, or of all.
type ownedPage struct {
	web.PageQuery
	ownedQuery
}

// owner returns the owner of the files or batches in question. One owner at most is named,
// and exactly one where that is required.
func (q *ownedQuery) owner(isRequired bool) (files.Owned, error) {
	of := files.Owned{Tenant: q.Tenant, Key: q.Key, IsKeyless: q.Keyless}
	named := 0
	for _, is := range []bool{of.Tenant != "", of.Key != "", of.IsKeyless} {
		if is {
			named++
		}
	}
	if named > 1 || isRequired && named == 0 {
		return of, web.BadInput("tenant", "field.one_owner")
	}
	return of, nil
}

// tenantOfOwner is the web.Route.Concerns of operations on all objects of an owner.
func (b *work) tenantOfOwner(r *http.Request, _ any) string {
	var q ownedQuery
	if web.ReadQuery(r, &q) != nil || q.Key == "" {
		return q.Tenant
	}
	return b.core.Credentials.TenantOf(q.Key)
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

// storeError returns the caller's form of an error of the store.
func storeError(err error) error {
	if errors.Is(err, documents.ErrUnavailable) {
		return web.Away(say.New("batch.away"))
	}
	return err
}

// managedFile is a file as operators see it, without its content.
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

func (b *work) listFiles(c *web.Call, q *ownedPage) (views []managedFile, err error) {
	of, err := q.owner(false)
	if err != nil || b.engine == nil {
		return nil, err
	}
	found, _, err := b.files.List(c.Context(), files.Listing{Scope: of.Scope(), Key: of.Key, Limit: mostFiles})
	for _, f := range found {
		views = append(views, viewOfFile(f))
	}
	return views, storeError(err)
}

func (b *work) deleteFile(c *web.Call) (managedFile, error) {
	id := c.PathValue("id")
	missing := web.NoSuch("manage.no_file", "file", web.Shorten(id))
	if b.engine == nil {
		return managedFile{}, missing
	}
	file, err := b.engine.RemoveFile(c.Context(), id, c.DryRun)
	switch {
	case errors.Is(err, files.ErrNotFound):
		return managedFile{}, missing
	case errors.Is(err, batches.ErrInUse):
		return managedFile{}, web.BadInput("id", "field.file_needed")
	}
	c.Say("The file %s was deleted.", file.ID)
	if c.DryRun {
		c.Say("The file %s would be deleted.", file.ID)
	}
	c.Done("file %s deleted", file.ID)
	return viewOfFile(file), storeError(err)
}

// removedFiles counts the deleted files, or the ones that would be.
type removedFiles struct {
	Files  int   `json:"files"`
	Bytes  int64 `json:"bytes"`
	InUse  int   `json:"inUse" doc:"Files that are left, because a batch that has not ended needs them."`
	DryRun bool  `json:"dryRun,omitzero"`
}

func (b *work) deleteFiles(c *web.Call, q *ownedQuery) (removedFiles, error) {
	of, err := q.owner(true)
	var removed batches.RemovedFiles
	if err == nil && b.engine != nil {
		removed, err = b.engine.RemoveFilesOf(c.Context(), of, c.DryRun)
	}
	c.Say("%d files of %s %s; batches that have not ended need %d.", removed.Files, nameOf(of), deletion(c),
		removed.InUse)
	c.Done("%d files of %s deleted", removed.Files, nameOf(of))
	return removedFiles{removed.Files, removed.Bytes, removed.InUse, c.DryRun}, storeError(err)
}
