package monitor

import (
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
	Next         Cursor     `json:"next,omitzero"`
	Latest       Cursor     `json:"latest,omitzero" doc:"The cursor of the newest call that is kept, for after."`
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

// Search returns a page of the calls that a query asks for and that belong to the caller; nil means
// that all do. It looks at the calls in memory first, then at those on disk. Calls are numbered as
// they are recorded, and a page ends at a number. No call is therefore on two pages, and none between
// them, however many are recorded meanwhile.
func Search(c *web.Call, recorder *calls.Recorder, q *CallsQuery, belongs func(*calls.Record) bool) (CallList, error) {
	filter, err := newCallFilter(q, c.Words())
	if err != nil {
		return CallList{}, err
	}
	page := CallList{
		Calls: []CallView{}, Capacity: recorder.Settings().Calls, SamplingRate: recorder.SamplingRate(),
		FileDays: recorder.ArchivedDays(),
	}
	newest, before, isKnown := placeOf(recorder, q.Before)
	page.Latest = Cursor(newest)
	if !isKnown {
		return page, nil
	}
	var reached string
	next, err := recorder.Search(c.Context(), calls.Query{
		Before: min(uint64(filter.Cursor), before), After: uint64(q.After),
		From: q.From, To: q.To, Most: maxLooked}, func(call *calls.Record) bool {
		reached = web.Time(call.Started)
		if (belongs == nil || belongs(call)) && filter.wants(call) {
			page.Calls = append(page.Calls, viewOf(call, q.Brief, filter.words))
		}
		return len(page.Calls) < filter.Limit
	})
	if next > 1 {
		page.Next, page.Reached = Cursor(next), reached
	}
	return page, err
}

// placeOf returns the number of the newest call in memory, and the number of the call with
// a request id. It looks for the id in memory only. An empty id is behind the newest: calls
// that are recorded meanwhile are not on the page.
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

const mediaNDJSON = "application/x-ndjson"

// calls answers GET /api/monitoring/calls. It writes one line for each call if the caller
// accepts that.
func (a *API) calls(c *web.Call, q *CallsQuery) (CallList, error) {
	page, err := Search(c, a.Recorder, q, nil)
	if err == nil && strings.Contains(c.Header.Get("Accept"), mediaNDJSON) {
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
	if _, err := a.Recorder.Search(c.Context(), query, look); err != nil {
		return one, err
	}
	if !isFound {
		return one, web.NoSuch("manage.no_call")
	}
	return one, nil
}
