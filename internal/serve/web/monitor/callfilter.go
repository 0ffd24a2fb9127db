package monitor

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/url"
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
	Cursor        string    `json:"cursor" doc:"The member next of a page: the page behind it."`
	After         string    `json:"after" doc:"The member latest of a page: only calls recorded after it."`
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

// callFilter holds the conditions of a query.
type callFilter struct {
	query             url.Values
	limit             int
	isBrief, isParts  bool
	from, to          time.Time
	shortest, longest time.Duration
	text, errorText   string
	words             web.Wording // how texts are seen that are searched
	// before and after bound the numbers of the calls; neither is included. beforeID is the
	// id of the call with the number before.
	before, after uint64
	beforeID      string
	// belongs reports whether a call belongs to those that the caller may see; nil means all.
	belongs func(*calls.Record) bool
}

func newCallFilter(c *web.Call, q *CallsQuery) (*callFilter, error) {
	f := &callFilter{
		query: c.URL.Query(), words: c.Words(), limit: cmp.Or(q.Limit, 100), isBrief: q.Brief, isParts: q.Parts,
		from: q.From, to: q.To,
		text: strings.ToLower(q.Q), errorText: strings.ToLower(q.ErrorText), beforeID: q.Before, before: math.MaxUint64,
		longest: math.MaxInt64,
	}
	var err error
	for name, to := range map[string]*uint64{"cursor": &f.before, "after": &f.after} {
		if text := f.query.Get(name); text != "" {
			if *to, err = parseCursor(text); err != nil {
				return nil, web.BadInput(name, "field.cursor")
			}
		}
	}
	for name, to := range map[string]*time.Duration{"minDurationMs": &f.shortest, "maxDurationMs": &f.longest} {
		if text := f.query.Get(name); text != "" {
			milliseconds, err := strconv.ParseFloat(text, 64)
			if err != nil || !(milliseconds >= 0 && milliseconds < 1e12) {
				return nil, web.BadInput(name, "field.ms")
			}
			*to = time.Duration(milliseconds * float64(time.Millisecond))
		}
	}
	if known := endings(); q.Outcome != "" && !slices.Contains(known, string(q.Outcome)) {
		return nil, web.BadInput("outcome", "field.want_one_of", "known", strings.Join(known, ", "))
	}
	return f, nil
}

// Ending chooses calls by their end: an outcome of a call, or one of those below.
type Ending string

const (
	failed   = "failed"
	retried  = "retried"
	troubled = "troubled"
)

// endings returns the names of all endings.
func endings() []string {
	names := []string{failed, retried, troubled}
	for _, outcome := range calls.Outcomes() {
		names = append(names, string(outcome))
	}
	return names
}

// Keywords describes endings in the OpenAPI document.
func (Ending) Keywords() map[string]any { return map[string]any{"enum": append(endings(), "")} }

// has reports whether a call has the outcome that is asked for.
func (f *callFilter) has(c *calls.Record) bool {
	got := c.Outcome()
	isAnswered := got == calls.Answered || got == calls.Rescued
	isFailed := !isAnswered && got != calls.Gone // a caller who goes away is no failure
	switch wanted := f.query.Get("outcome"); wanted {
	case "":
		return true
	case string(calls.Answered):
		return isAnswered
	case failed:
		return isFailed
	case retried:
		return c.Attempts > 1
	case troubled:
		return isFailed || c.Attempts > 1
	default:
		return wanted == string(got)
	}
}

// wants reports whether a call meets the conditions.
func (f *callFilter) wants(c *calls.Record) bool {
	switch {
	case f.belongs != nil && !f.belongs(c):
		return false
	case !f.is("service", c.Service.String()), !f.names("model", c.Model), !f.is("status", string(statusOf(c))),
		!f.is("requestId", c.RequestID), !f.names("errorCode", c.Code), !f.names("keyId", c.KeyID),
		!f.names("tenant", c.Tenant), !f.names("user", c.User), !f.is("run", c.Run):
		return false
	case !f.isAsked(c), !f.isTried(c), !f.isRefused(c), !f.has(c):
		return false
	case f.query.Get("httpStatus") != "" && f.query.Get("httpStatus") != strconv.Itoa(c.Status):
		return false
	case !f.from.IsZero() && c.Started.Before(f.from), !f.to.IsZero() &&
		!c.Started.Before(f.to), c.Ended < f.shortest, c.Ended > f.longest:
		return false
	}
	return (f.text == "" || f.hasName(c)) && (f.errorText == "" || f.isTold(c))
}

func (f *callFilter) is(name, value string) bool {
	return !f.query.Has(name) || f.query.Get(name) == value
}

// names reports whether a name is the one that is asked for, or has it as a part where parts
// are compared.
func (f *callFilter) names(name, value string) bool {
	if !f.isParts || !f.query.Has(name) {
		return f.is(name, value)
	}
	return strings.Contains(strings.ToLower(value), strings.ToLower(f.query.Get(name)))
}

// isAsked compares the name that the caller gave, which is the model's where no other is noted.
func (f *callFilter) isAsked(c *calls.Record) bool {
	if c.Asked == "" {
		return f.names("asked", c.Model)
	}
	return f.names("asked", c.Asked)
}

// isTried reports whether the wanted instance, or an instance of the wanted host, answered,
// or failed before another one did.
func (f *callFilter) isTried(c *calls.Record) bool {
	if f.isAt(c.Instance) {
		return true
	}
	return slices.ContainsFunc(c.Described(), func(try calls.Try) bool { return f.isAt(try.Instance) })
}

func (f *callFilter) isAt(instance string) bool {
	return f.names("instance", instance) && (!f.query.Has("host") || f.names("host", calls.HostOf(instance)))
}

func (f *callFilter) isRefused(c *calls.Record) bool {
	if c.Told == nil {
		return f.names("refusedBy", "")
	}
	return f.names("refusedBy", c.Told.Of)
}

// hasName reports whether a name of the call has the text that is asked for.
func (f *callFilter) hasName(c *calls.Record) bool {
	texts := []string{c.RequestID, c.Model, c.Asked, c.Instance, c.KeyID, c.Tenant, c.User, c.Run, c.Code}
	if c.Told != nil {
		texts = append(texts, c.Told.Of)
	}
	for _, try := range c.Described() {
		texts = append(texts, try.Instance, try.Code)
	}
	return haveText(texts, f.text)
}

// isTold reports whether an error of the call, as it was told or as it happened, has the text that is asked for.
func (f *callFilter) isTold(c *calls.Record) bool {
	var texts []string
	if c.Told != nil {
		text, _ := f.words(c.Told.Said)
		texts = append(texts, text)
	}
	for _, try := range c.Described() {
		text, _ := f.words(try.Sentence())
		texts = append(texts, try.Cause, text)
	}
	return haveText(texts, f.errorText)
}

func haveText(texts []string, wanted string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), wanted) })
}

// cursorVersion begins every cursor. A later release can then change the form.
const cursorVersion = 1

// cursorOf returns the place of a number in the list of calls as clients keep it.
func cursorOf(number uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint([]byte{cursorVersion}, number))
}

// parseCursor returns the number of a cursor.
func parseCursor(text string) (uint64, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) < 2 || data[0] != cursorVersion {
		return 0, strconv.ErrSyntax
	}
	number, size := binary.Uvarint(data[1:])
	if size != len(data)-1 {
		return 0, strconv.ErrSyntax
	}
	return number, nil
}
