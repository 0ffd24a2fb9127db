package monitor

import (
	"cmp"
	"math"

	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// listedNames is how many names of a kind a summary lists.
const listedNames = 100

// callSummary says how many calls match, and what they name.
type callSummary struct {
	Total    int       `json:"total" doc:"How many of the calls that are kept match."`
	Complete bool      `json:"complete" doc:"False if there are more calls than a summary looks at."`
	Looked   int       `json:"looked" doc:"How many calls were looked at."`
	Oldest   string    `json:"oldest,omitzero" format:"date-time" doc:"When the oldest of these began."`
	Started  string    `json:"startedAt" format:"date-time" doc:"When the gateway began to record."`
	FileDays int       `json:"fileDays,omitzero" doc:"How many days calls are kept on disk, if they are."`
	Names    callNames `json:"names" doc:"What the calls that match name, the most frequent first, 100 of each."`
}

// callNames are the values that filters can have, by the name of the filter.
type callNames struct {
	Model     []calls.Named `json:"model"`
	Asked     []calls.Named `json:"asked"`
	Instance  []calls.Named `json:"instance"`
	Host      []calls.Named `json:"host"`
	Tenant    []calls.Named `json:"tenant"`
	KeyID     []calls.Named `json:"keyId"`
	User      []calls.Named `json:"user"`
	ErrorCode []calls.Named `json:"errorCode"`
}

// summary answers GET /api/monitoring/calls/summary.
func (a *API) summary(c *web.Call, q *CallsQuery) (callSummary, error) {
	filter, err := newCallFilter(q, c.Words())
	if err != nil {
		return callSummary{}, err
	}
	view := callSummary{FileDays: a.Recorder.ArchivedDays(), Started: web.Time(a.sampler.StartedAt())}
	models, asked, instances, hosts := calls.Tally{}, calls.Tally{}, calls.Tally{}, calls.Tally{}
	tenants, keys, users, codes := calls.Tally{}, calls.Tally{}, calls.Tally{}, calls.Tally{}
	look := func(call *calls.Record) bool {
		view.Looked++
		view.Oldest = web.Time(call.Started)
		if filter.wants(call) {
			view.Total++
			models.Add(call.Model)
			asked.Add(cmp.Or(call.Asked, call.Model))
			instances.Add(call.Instance)
			hosts.Add(calls.HostOf(call.Instance))
			tenants.Add(call.Tenant)
			keys.Add(call.KeyID)
			users.Add(call.User)
			codes.Add(call.Code)
		}
		return true
	}
	query := calls.Query{Before: math.MaxUint64, From: q.From, To: q.To, Most: maxLooked}
	next, err := a.Recorder.Search(c.Context(), query, look)
	view.Complete = next <= 1 && err == nil
	view.Names = callNames{models.Most(listedNames), asked.Most(listedNames), instances.Most(listedNames),
		hosts.Most(listedNames), tenants.Most(listedNames), keys.Most(listedNames), users.Most(listedNames),
		codes.Most(listedNames)}
	return view, err
}
