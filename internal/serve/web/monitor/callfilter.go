package monitor

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// CallsQuery chooses calls; the filters are compared whole, except q and errorText.
type CallsQuery struct {
	Limit         int       `json:"limit" empty:"true" minimum:"1" doc:"100 if left out."`
	Cursor        Cursor    `json:"cursor" empty:"true" want:"field.cursor" doc:"The member next of a page."`
	After         Cursor    `json:"after" empty:"true" want:"field.cursor" doc:"The member latest of a page."`
	Parts         bool      `json:"parts" doc:"Names are compared by a part of them, in any case."`
	Brief         bool      `json:"brief" doc:"Calls without timeline, candidates, handles and times of attempts."`
	Before        string    `json:"before" doc:"A request id: only calls that were recorded before it. Prefer cursor."`
	From          time.Time `json:"from" empty:"true" doc:"Only calls that began then or later."`
	To            time.Time `json:"to" empty:"true" doc:"Only calls that began before then."`
	Service       string    `json:"service"`
	Model         string    `json:"model" doc:"The model that served."`
	Asked         string    `json:"asked" doc:"The name that the caller gave."`
	Instance      string    `json:"instance" doc:"An instance that was tried."`
	Host          string    `json:"host" doc:"The host of an instance that was tried, as problems name it."`
	Status        string    `json:"status"`
	HTTPStatus    int       `json:"httpStatus" empty:"true"`
	Outcome       Ending    `json:"outcome"`
	RequestID     string    `json:"requestId"`
	ErrorCode     string    `json:"errorCode"`
	RefusedBy     string    `json:"refusedBy" doc:"Whose limit or budget refused it, as in a call."`
	KeyID         string    `json:"keyId"`
	Tenant        string    `json:"tenant"`
	User          string    `json:"user"`
	Run           string    `json:"run" doc:"The id of an agent's run, whole."`
	MinDurationMs float64   `json:"minDurationMs" empty:"true" minimum:"0" want:"field.ms"`
	MaxDurationMs float64   `json:"maxDurationMs" empty:"true" minimum:"0" want:"field.ms"`
	Q             string    `json:"q"`
	ErrorText     string    `json:"errorText"`
}

// Docs says more about some members than a tag has room for.
func (CallsQuery) Docs() map[string]string {
	return map[string]string{
		"outcome": "The outcome of a call, with these differences. answered: rescued ones too. failed: lost, refused " +
			"or stopped. retried: more than one attempt. troubled: failed or retried.",
		"q": "A part of the request id, models, instances, key, tenant, user, run, error codes, or of whose limit " +
			"refused it, in any case. The texts of errors, which name other models and instances, are not " +
			"looked at.",
		"errorText": "A part of what the caller was told, or of why an attempt failed, in any case; for VIEWER " +
			"without what backends said.",
	}
}

// callFilter is a checked query with its conditions.
type callFilter struct {
	*CallsQuery
	words      web.Wording // how texts of errors are seen
	conditions []func(*calls.Record) bool
}

// newCallFilter checks a query. It adds only the conditions that are given.
func newCallFilter(q *CallsQuery, words web.Wording) (*callFilter, error) {
	f := &callFilter{CallsQuery: q, words: words}
	f.Limit, f.Cursor = cmp.Or(q.Limit, 100), cmp.Or(q.Cursor, math.MaxUint64)
	f.names(q.Service, false, func(c *calls.Record) string { return c.Service.String() })
	f.names(q.Model, q.Parts, func(c *calls.Record) string { return c.Model })
	f.names(q.Asked, q.Parts, func(c *calls.Record) string { return cmp.Or(c.Asked, c.Model) })
	f.names(q.Status, false, func(c *calls.Record) string { return string(statusOf(c)) })
	f.names(q.RequestID, false, func(c *calls.Record) string { return c.RequestID })
	f.names(q.ErrorCode, q.Parts, func(c *calls.Record) string { return c.Code })
	f.names(q.RefusedBy, q.Parts, refuserOf)
	f.names(q.KeyID, q.Parts, func(c *calls.Record) string { return c.KeyID })
	f.names(q.Tenant, q.Parts, func(c *calls.Record) string { return c.Tenant })
	f.names(q.User, q.Parts, func(c *calls.Record) string { return c.User })
	f.names(q.Run, false, func(c *calls.Record) string { return c.Run })
	if q.Instance != "" || q.Host != "" {
		f.add(f.isTried)
	}
	if q.HTTPStatus != 0 {
		f.add(func(c *calls.Record) bool { return c.Status == q.HTTPStatus })
	}
	if !q.From.IsZero() {
		f.add(func(c *calls.Record) bool { return !c.Started.Before(q.From) })
	}
	if !q.To.IsZero() {
		f.add(func(c *calls.Record) bool { return c.Started.Before(q.To) })
	}
	if q.MinDurationMs != 0 {
		f.add(func(c *calls.Record) bool { return inMilliseconds(c.Ended) >= q.MinDurationMs })
	}
	if q.MaxDurationMs != 0 {
		f.add(func(c *calls.Record) bool { return inMilliseconds(c.Ended) <= q.MaxDurationMs })
	}
	if q.Outcome != "" {
		f.add(q.Outcome.has)
	}
	if q.Q != "" {
		f.add(func(c *calls.Record) bool { return haveText(namesOf(c), q.Q) })
	}
	if q.ErrorText != "" {
		f.add(func(c *calls.Record) bool { return haveText(f.errorTexts(c), q.ErrorText) })
	}
	return f, q.check()
}

// check returns an error for a value that cannot be.
func (q *CallsQuery) check() error {
	for name, ms := range map[string]float64{"minDurationMs": q.MinDurationMs, "maxDurationMs": q.MaxDurationMs} {
		if !(ms >= 0 && ms < 1e12) { // this way round it catches NaN too
			return web.BadInput(name, "field.ms")
		}
	}
	if known := endings(); q.Outcome != "" && !slices.Contains(known, string(q.Outcome)) {
		return web.BadInput("outcome", "field.want_one_of", "known", strings.Join(known, ", "))
	}
	return nil
}

func (f *callFilter) add(condition func(*calls.Record) bool) {
	f.conditions = append(f.conditions, condition)
}

// names adds the condition that a name is the wanted one, or has it as a part.
func (f *callFilter) names(wanted string, isPart bool, of func(*calls.Record) string) {
	if wanted != "" {
		f.add(func(c *calls.Record) bool { return isNamed(of(c), wanted, isPart) })
	}
}

// isNamed reports whether a name is the wanted one, or has it as a part in any case.
func isNamed(name, wanted string, isPart bool) bool {
	return name == wanted || isPart && haveText([]string{name}, wanted)
}

// wants reports whether a call meets all conditions.
func (f *callFilter) wants(c *calls.Record) bool {
	return !slices.ContainsFunc(f.conditions, func(is func(*calls.Record) bool) bool { return !is(c) })
}

// Ending chooses calls by their end: an outcome of a call, or one of those below.
type Ending string

const (
	failed   Ending = "failed"
	retried  Ending = "retried"
	troubled Ending = "troubled"
)

// endings returns the names of all endings.
func endings() []string {
	names := []string{string(failed), string(retried), string(troubled)}
	for _, outcome := range calls.Outcomes() {
		names = append(names, string(outcome))
	}
	return names
}

// Keywords describes endings in the OpenAPI document.
func (Ending) Keywords() map[string]any { return map[string]any{"enum": append(endings(), "")} }

// has reports whether a call ended so.
func (e Ending) has(c *calls.Record) bool {
	got := c.Outcome()
	isAnswered := got == calls.Answered || got == calls.Rescued
	isFailed := !isAnswered && got != calls.Gone // a caller who disconnects is no failure
	switch e {
	case Ending(calls.Answered):
		return isAnswered
	case failed:
		return isFailed
	case retried:
		return c.Attempts > 1
	case troubled:
		return isFailed || c.Attempts > 1
	}
	return e == Ending(got)
}

// isTried reports whether the wanted instance, or an instance of the wanted host, answered,
// or failed before another one did.
func (f *callFilter) isTried(c *calls.Record) bool {
	isAt := func(instance string) bool {
		return (f.Instance == "" || isNamed(instance, f.Instance, f.Parts)) &&
			(f.Host == "" || isNamed(calls.HostOf(instance), f.Host, f.Parts))
	}
	return isAt(c.Instance) ||
		slices.ContainsFunc(c.Described(), func(try calls.Try) bool { return isAt(try.Instance) })
}

// refuserOf returns whose limit or budget refused a call.
func refuserOf(c *calls.Record) string {
	if c.Told == nil {
		return ""
	}
	return c.Told.Of
}

// namesOf returns the names that a call has.
func namesOf(c *calls.Record) []string {
	names := []string{c.RequestID, c.Model, c.Asked, c.Instance, c.KeyID, c.Tenant, c.User, c.Run, c.Code, refuserOf(c)}
	for _, try := range c.Described() {
		names = append(names, try.Instance, try.Code)
	}
	return names
}

// errorTexts returns the errors of a call: what the caller was told, and why attempts failed.
func (f *callFilter) errorTexts(c *calls.Record) (texts []string) {
	if c.Told != nil {
		text, _ := f.words(c.Told.Said)
		texts = append(texts, text)
	}
	for _, try := range c.Described() {
		text, _ := f.words(try.Sentence())
		texts = append(texts, try.Cause, text)
	}
	return texts
}

// haveText reports whether one of some texts has a part, in any case.
func haveText(texts []string, part string) bool {
	part = strings.ToLower(part)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), part) })
}

// Cursor is the number of a call, which is its place in the list of calls. For clients it is a text.
type Cursor uint64

// MarshalText writes the number.
func (c Cursor) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(c), 10), nil }

// UnmarshalText reads the number.
func (c *Cursor) UnmarshalText(text []byte) error {
	number, err := strconv.ParseUint(string(text), 10, 64)
	*c = Cursor(number)
	return err
}
