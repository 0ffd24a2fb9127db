package manage

import (
	"context"
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/prices"
	"github.com/patchbay-ai/patchbay/internal/see/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/batches"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/keeping"
)

// Batches are the batches of all owners.
type Batches interface {
	List(ctx context.Context, l batches.Listing) (found []batches.Progress, hasMore bool, err error)
	Get(ctx context.Context, scope, id string) (batches.Progress, error)
	Cancel(ctx context.Context, scope, id string) (batches.Progress, error)
	// Kept removes them.
	Kept() *keeping.Keeper
}

// batchesQuery asks for batches of an owner, or of all.
type batchesQuery struct {
	web.PageQuery
	ownedQuery
}

// batchState is how far a batch is.
type batchState string

// Names returns every state.
func (batchState) Names() []string {
	return []string{"validating", "in_progress", "finalizing", "cancelling", "completed", "failed", "expired", "cancelled"}
}

// managedBatch is a batch as people who run the gateway see it. What its lines say is not in it.
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
	problem := words(web.CutText(p.Problem, 500))
	view := managedBatch{
		ID: p.ID, API: string(p.Form), Endpoint: p.Endpoint, KeyID: p.Owner.Key, Tenant: p.Owner.Tenant, State: batchState(p.State), Total: p.Lines,
		Completed: p.Counts.Done, Failed: p.Counts.Failed, CreatedAt: web.Time(p.Created), StartedAt: web.TimeOrNil(p.Started), ExpiresAt: web.Time(p.Expires),
		EndedAt: web.TimeOrNil(p.Ended), Rate: p.Rate, Prompt: p.Counts.Prompt, Answer: p.Counts.Completion, Cost: prices.Amount(p.Counts.Cost).String(),
		Problem: problem, Said: say.Of(problem),
	}
	if !p.End.IsZero() && !p.State.IsEnd() {
		view.EndsAt = web.TimeOrNil(p.End)
	}
	if took := p.Ended.Sub(p.Started); p.State.IsEnd() && took > 0 && !p.Started.IsZero() {
		view.Rate = float64(p.Counts.Done+p.Counts.Failed) / max(took, time.Second).Minutes()
	}
	if len(p.Faults) > 0 {
		view.Fault = web.CutText(p.Faults[0].Message, 500)
		if line := p.Faults[0].Line; line > 0 {
			view.Fault = say.Text("batch.line", "line", line, "fault", view.Fault)
		}
	}
	view.Fault = words(view.Fault)
	view.FaultSaid = say.Of(view.Fault)
	return view
}

// mostBatches is how many batches are listed, the newest.
const mostBatches = 1000

func (a *API) listBatches(c *web.Call, q *batchesQuery) (views []managedBatch, err error) {
	of, err := q.owner(false)
	if err != nil || a.options.Batches == nil {
		return nil, err
	}
	found, _, err := a.options.Batches.List(c.Context(), batches.Listing{Scope: of.Scope(), Key: of.Key, Limit: mostBatches})
	for _, p := range found {
		views = append(views, viewOfBatch(p, c.Words()))
	}
	return views, storeError(err)
}

func (a *API) cancelBatch(c *web.Call) (managedBatch, error) {
	id := c.PathValue("id")
	if a.options.Batches == nil {
		return managedBatch{}, noBatch(id)
	}
	find := a.options.Batches.Cancel
	c.Say("The batch %s is being stopped; what was done is kept.", id)
	if c.DryRun {
		find = a.options.Batches.Get
		c.Say("The batch %s would be stopped.", id)
	}
	p, err := find(c.Context(), batches.AnyScope, id)
	c.Done("batch %s cancelled", p.ID)
	return viewOfBatch(p, c.Words()), batchError(id, err)
}

func (a *API) deleteBatch(c *web.Call) (managedBatch, error) {
	id := c.PathValue("id")
	if a.options.Batches == nil {
		return managedBatch{}, noBatch(id)
	}
	p, err := a.options.Batches.Get(c.Context(), batches.AnyScope, id)
	c.Say("The batch %s would be deleted with its results.", id)
	if err == nil && !c.DryRun {
		err = a.options.Batches.Kept().Remove(c.Context(), id)
		c.Say("The batch %s was deleted with its results.", id)
	}
	c.Done("batch %s deleted", p.ID)
	return viewOfBatch(p, c.Words()), batchError(id, err)
}

// removedBatches counts what was deleted, or what would be.
type removedBatches struct {
	Batches int  `json:"batches"`
	DryRun  bool `json:"dryRun,omitzero"`
}

func (a *API) deleteBatches(c *web.Call, q *ownedQuery) (removedBatches, error) {
	removed := removedBatches{DryRun: c.DryRun}
	of, err := q.owner(true)
	if err == nil && a.options.Batches != nil {
		removed.Batches, err = a.options.Batches.Kept().RemoveOf(c.Context(), of, c.DryRun)
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
	return web.NotFound("not found: there is no batch %q", web.Shorten(id))
}

// batchError returns what is told of an error about one batch.
func batchError(id string, err error) error {
	switch {
	case errors.Is(err, batches.ErrNotFound):
		return noBatch(id)
	case errors.Is(err, batches.ErrEnded):
		return web.Invalid("id", "the batch has ended")
	}
	return storeError(err)
}
