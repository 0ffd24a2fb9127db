package monitor

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// callsQuery narrows the list of calls; the filters are compared whole, except q.
type callsQuery struct {
	Limit         int     `json:"limit" empty:"true" minimum:"1" doc:"100 if left out."`
	Before        string  `json:"before" doc:"A request id: only calls that were recorded before it, for the next page."`
	From          string  `json:"from" empty:"true" format:"date-time" doc:"Only calls that began then or later."`
	To            string  `json:"to" empty:"true" format:"date-time" doc:"Only calls that began before then."`
	Service       string  `json:"service"`
	Model         string  `json:"model"`
	Instance      string  `json:"instance"`
	Status        string  `json:"status"`
	RequestID     string  `json:"requestId"`
	ErrorCode     string  `json:"errorCode"`
	KeyID         string  `json:"keyId"`
	User          string  `json:"user"`
	MinDurationMs float64 `json:"minDurationMs" empty:"true" minimum:"0"`
	Q             string  `json:"q" doc:"A part of the request id, model, instance, key, user, code or text of an error, in any case."`
}

// callFilter is what a query asks for.
type callFilter struct {
	query     url.Values
	limit     int
	from, to  time.Time
	shortest  time.Duration
	text      string
	before    string
	isReached bool // the call was passed before which the page begins
}

func newCallFilter(r *http.Request) (*callFilter, error) {
	query := r.URL.Query()
	f := &callFilter{query: query, text: strings.ToLower(query.Get("q")), before: query.Get("before")}
	f.isReached = f.before == ""
	var err error
	if f.limit, err = limitOf(r, 100); err != nil {
		return nil, err
	}
	for name, to := range map[string]*time.Time{"from": &f.from, "to": &f.to} {
		if text := query.Get(name); text != "" {
			if *to, err = time.Parse(time.RFC3339, text); err != nil {
				return nil, invalid(name + ": want a time such as 2026-01-02T15:04:05Z")
			}
		}
	}
	if text := query.Get("minDurationMs"); text != "" {
		milliseconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(milliseconds >= 0 && milliseconds < 1e12) {
			return nil, invalid("minDurationMs: want a number of milliseconds from 0 on")
		}
		f.shortest = time.Duration(milliseconds * float64(time.Millisecond))
	}
	return f, nil
}

// wants tells whether a call is asked for.
func (f *callFilter) wants(c *calls.Record) bool {
	if !f.isReached {
		f.isReached = c.RequestID == f.before
		return false
	}
	switch {
	case !f.is("service", c.Service.String()), !f.is("model", c.Model), !f.is("instance", c.Instance), !f.is("status", string(statusOf(c))),
		!f.is("requestId", c.RequestID), !f.is("errorCode", c.Code), !f.is("keyId", c.KeyID), !f.is("user", c.User):
		return false
	case !f.from.IsZero() && c.Started.Before(f.from), !f.to.IsZero() && !c.Started.Before(f.to), c.Ended < f.shortest:
		return false
	}
	return f.text == "" || f.mentions(c)
}

func (f *callFilter) is(name, value string) bool {
	return !f.query.Has(name) || f.query.Get(name) == value
}

func (f *callFilter) mentions(c *calls.Record) bool {
	texts := []string{c.RequestID, c.Model, c.Instance, c.KeyID, c.User, c.Code}
	for _, try := range c.Described() {
		texts = append(texts, try.Instance, try.Code, try.Cause, try.Text)
	}
	for _, text := range texts {
		if strings.Contains(strings.ToLower(text), f.text) {
			return true
		}
	}
	return false
}

// found returns the calls that are asked for, the newest first.
func (a *API) found(f *callFilter) []callView {
	found := []callView{}
	for c := range a.recorder.Calls() {
		if f.wants(c) {
			found = append(found, viewOfCall(c))
		}
		if len(found) == f.limit {
			break
		}
	}
	return found
}

const mediaNDJSON = "application/x-ndjson"

// calls answers GET /api/monitoring/calls: with one line for each call where that
// is what the caller accepts.
func (a *API) calls(w http.ResponseWriter, r *http.Request) {
	filter, err := newCallFilter(r)
	if err != nil {
		fail(w, err)
		return
	}
	found := a.found(filter)
	if !strings.Contains(r.Header.Get("Accept"), mediaNDJSON) {
		web.WriteJSON(w, http.StatusOK, callList{found, a.recorder.Settings().Calls, a.recorder.SamplingRate()})
		return
	}
	w.Header().Set("Content-Type", mediaNDJSON)
	for _, view := range found {
		line, err := web.Encode(view)
		if err != nil {
			continue // a view can be encoded
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return
		}
	}
}
