package manage

import (
	"context"
	"errors"
	"fmt"
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
	pageQuery
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

// Batches answers GET /api/batches.
func (a *API) Batches(q *Request) (Reply, error) {
	of, err := ownedOf(q, false)
	if err != nil {
		return Reply{}, err
	}
	var views []managedBatch
	if a.options.Batches != nil {
		found, _, err := a.options.Batches.List(q.Context(), batches.Listing{Scope: of.Scope(), Key: of.Key, Limit: mostBatches})
		if err != nil {
			return Reply{}, storeError(err)
		}
		for _, p := range found {
			views = append(views, viewOfBatch(p, web.WordingFor(q.who.Role)))
		}
	}
	data, err := list(q, views)
	return Reply{message: "The newest batches of all owners.", data: data}, err
}

// CancelBatch answers POST /api/batches/{id}/cancel.
func (a *API) CancelBatch(q *Request) (Reply, error) {
	id := q.PathValue("id")
	if a.options.Batches == nil {
		return Reply{}, noBatch(id)
	}
	find, message := a.options.Batches.Cancel, "The batch "+id+" is being stopped; what was done is kept."
	if q.change.DryRun {
		find, message = a.options.Batches.Get, "The batch "+id+" would be stopped."
	}
	p, err := find(q.Context(), batches.AnyScope, id)
	switch {
	case errors.Is(err, batches.ErrNotFound):
		return Reply{}, noBatch(id)
	case errors.Is(err, batches.ErrEnded):
		return Reply{}, invalidField("id", "the batch has ended")
	case err != nil:
		return Reply{}, storeError(err)
	}
	return Reply{message: message, change: "batch " + p.ID + " cancelled", data: viewOfBatch(p, web.WordingFor(q.who.Role))}, nil
}

// DeleteBatch answers DELETE /api/batches/{id}.
func (a *API) DeleteBatch(q *Request) (Reply, error) {
	id := q.PathValue("id")
	if a.options.Batches == nil {
		return Reply{}, noBatch(id)
	}
	p, err := a.options.Batches.Get(q.Context(), batches.AnyScope, id)
	message := "The batch " + id + " would be deleted with its results."
	if err == nil && !q.change.DryRun {
		err = a.options.Batches.Kept().Remove(q.Context(), id)
		message = "The batch " + id + " was deleted with its results."
	}
	if errors.Is(err, batches.ErrNotFound) {
		return Reply{}, noBatch(id)
	}
	if err != nil {
		return Reply{}, storeError(err)
	}
	return Reply{message: message, change: "batch " + p.ID + " deleted", data: viewOfBatch(p, web.WordingFor(q.who.Role))}, nil
}

// removedBatches counts what was deleted, or what would be.
type removedBatches struct {
	Batches int  `json:"batches"`
	DryRun  bool `json:"dryRun,omitzero"`
}

// DeleteBatches answers DELETE /api/batches.
func (a *API) DeleteBatches(q *Request) (Reply, error) {
	of, err := ownedOf(q, true)
	if err != nil {
		return Reply{}, err
	}
	removed := removedBatches{DryRun: q.change.DryRun}
	if a.options.Batches != nil {
		if removed.Batches, err = a.options.Batches.Kept().RemoveOf(q.Context(), of, q.change.DryRun); err != nil {
			return Reply{}, storeError(err)
		}
	}
	verb := "were deleted"
	if q.change.DryRun {
		verb = "would be deleted"
	}
	return Reply{
		message: fmt.Sprintf("%d batches of %s %s with their results.", removed.Batches, nameOf(of), verb),
		change:  fmt.Sprintf("%d batches of %s deleted", removed.Batches, nameOf(of)), data: removed,
	}, nil
}

func noBatch(id string) error {
	return fmt.Errorf("%w: there is no batch %q", errNotFound, web.Shorten(id))
}
