package monitor

import (
	"context"
	"math"
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// maxLooked is the number of calls of the file that one page looks at. A search that finds
// less than a page among them says where it goes on.
const maxLooked = 50_000

// maxBrief is the greatest length of a message in a brief call.
const maxBrief = 160

// CallList is a page of calls.
type CallList struct {
	Calls        []CallView `json:"calls"`
	Next         string     `json:"next,omitzero"`
	Latest       string     `json:"latest,omitzero" doc:"The cursor of the newest call that is kept, for after."`
	Reached      string     `json:"reached,omitzero" format:"date-time" doc:"Where the search stopped, if more follow."`
	Capacity     int        `json:"capacity" doc:"How many calls are remembered."`
	FileDays     int        `json:"fileDays,omitzero" doc:"How many days calls are kept on disk, if they are."`
	SamplingRate float64    `json:"samplingRate" minimum:"0" maximum:"1"`
}

// Docs says more about some members than a tag has room for.
func (CallList) Docs() map[string]string {
	return map[string]string{
		"next": "The cursor of the page behind this one. Left out where there is nothing more; a page may have " +
			"fewer calls than its limit, or none, and still have one behind it.",
	}
}

// found holds the calls that a search has found so far.
type found struct {
	filter  *callFilter
	views   []CallView
	reached string // when the last call began that was looked at
	isFull  bool
}

// look takes a call, and reports whether the search goes on.
func (f *found) look(c *calls.Record) bool {
	f.reached = web.Time(c.Started)
	if f.filter.wants(c) {
		f.views = append(f.views, viewOf(c, f.filter.isBrief, f.filter.words))
		f.isFull = len(f.views) == f.filter.limit
	}
	return !f.isFull
}

// viewOf returns the view of a call, a short one if isBrief is set.
func viewOf(c *calls.Record, isBrief bool, words web.Wording) CallView {
	view := viewOfCall(c, words)
	if !isBrief {
		return view
	}
	view.Timeline, view.Candidates, view.Handle, view.Strategy, view.TraceID = callTimeline{}, nil, "", "", ""
	view.Message = web.CutText(view.Message, maxBrief)
	tries := make([]callTry, 0, len(view.Tries))
	for _, t := range view.Tries {
		if len(view.Tries) > 1 || t.ErrorCode != "" {
			tries = append(tries, callTry{Instance: t.Instance, ErrorCode: t.ErrorCode})
		}
	}
	view.Tries = tries
	return view
}

// search returns a page of the calls that a filter wants: first the calls in memory, then
// the ones on disk. Calls are numbered as they are recorded, and a page ends at a number.
// No call is therefore on two pages, and none between them, however many are recorded
// meanwhile.
func search(ctx context.Context, recorder *calls.Recorder, f *callFilter) (CallList, error) {
	page := CallList{
		Capacity: recorder.Settings().Calls, SamplingRate: recorder.SamplingRate(),
		FileDays: recorder.ArchivedDays(),
	}
	newest, before, isKnown := placeOf(recorder, f.beforeID)
	s := found{filter: f, views: []CallView{}}
	var next uint64
	var err error
	if isKnown {
		query := calls.Query{Before: min(f.before, before), After: f.after, From: f.from, To: f.to, Most: maxLooked}
		next, err = recorder.Search(ctx, query, s.look)
	}
	page.Calls = s.views
	if next > 1 {
		page.Next, page.Reached = cursorOf(next), s.reached
	}
	if newest > 0 {
		page.Latest = cursorOf(newest)
	}
	return page, err
}

// placeOf returns the number of the newest call in memory, and the number of the call with
// a request id. It looks for the id in memory only. An empty id is behind the newest: calls
// that come meanwhile are not on the page.
func placeOf(recorder *calls.Recorder, id string) (newest, number uint64, isKnown bool) {
	number, isKnown = math.MaxUint64, id == ""
	for c := range recorder.Calls() {
		if newest == 0 {
			newest, number = c.Sequence, c.Sequence+1
		}
		if isKnown {
			break
		}
		number, isKnown = c.Sequence, c.RequestID == id
	}
	return newest, number, isKnown
}

// Search returns the calls of a recorder that a query asks for and that belong to the caller.
func Search(c *web.Call, recorder *calls.Recorder, q *CallsQuery, belongs func(*calls.Record) bool) (CallList, error) {
	filter, err := newCallFilter(c, q)
	if err != nil {
		return CallList{}, err
	}
	filter.belongs = belongs
	return search(c.Context(), recorder, filter)
}

const mediaNDJSON = "application/x-ndjson"

// calls answers GET /api/monitoring/calls. It writes one line for each call if the caller
// accepts that.
func (a *API) calls(c *web.Call, q *CallsQuery) (CallList, error) {
	filter, err := newCallFilter(c, q)
	if err != nil {
		return CallList{}, err
	}
	page, err := search(c.Context(), a.recorder, filter)
	if strings.Contains(c.Header.Get("Accept"), mediaNDJSON) {
		c.Instead = page.writeLines
	}
	return page, err
}

func (l *CallList) writeLines(w http.ResponseWriter) {
	w.Header().Set("Content-Type", mediaNDJSON)
	for _, view := range l.Calls {
		line, err := web.Encode(view)
		if err != nil {
			continue // a view can be encoded
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return
		}
	}
}

// callQuery helps to find one call.
type callQuery struct {
	Number uint64 `json:"number" empty:"true" want:"field.call_id"`
}

// Docs says more about some members than a tag has room for.
func (callQuery) Docs() map[string]string {
	return map[string]string{
		"number": "Its number in the list of calls, by which a call that is kept on disk is found at once.",
	}
}

// call returns the call with the id in the path: the latest one, where a client used an
// id more than once.
func (a *API) call(c *web.Call, q *callQuery) (CallView, error) {
	return findCall(a, c, q, func(call *calls.Record) CallView { return viewOfCall(call, c.Words()) })
}

// findCall finds the call with the id in the path and returns the result of view for it.
func findCall[T any](a *API, c *web.Call, q *callQuery, view func(*calls.Record) T) (one T, err error) {
	id, number := c.PathValue("requestId"), q.Number
	isFound := false
	look := func(call *calls.Record) bool {
		if call.RequestID == id && (number == 0 || call.Sequence == number) {
			one, isFound = view(call), true
		}
		return !isFound
	}
	query := calls.Query{Before: math.MaxUint64, Most: maxLooked}
	if number > 0 && number < math.MaxUint64 {
		query.Before, query.After = number+1, number-1
	}
	if _, err := a.recorder.Search(c.Context(), query, look); err != nil {
		return one, err
	}
	if !isFound {
		return one, web.NoSuch("manage.no_call")
	}
	return one, nil
}
