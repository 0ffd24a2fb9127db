// Package monitor serves the operations under /api/monitoring: how the gateway
// records calls, and what it knows about instances, limits and the latest calls.
// Degradation, cache and circuit breaker in this package are those of recording, not of
// traffic.
package monitor

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/live"
	"github.com/patchbay-ai/patchbay/internal/see/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// API has the operations. Their replies have no envelope; errors are
// {"error": "..."}.
type API struct {
	// budgets returns how much of the budgets is used; nil where nobody has one.
	budgets func() []budget.Use
	// currency returns that of costs.
	currency func() string

	recorder *calls.Recorder
	current  *routing.Current
	version  func() int
	sampler  *live.Sampler
	feed     *live.Feed
}

// New returns the operations on a recorder and the table in force, which has a
// version.
func New(recorder *calls.Recorder, current *routing.Current, version func() int) *API {
	a := &API{recorder: recorder, current: current, version: version, sampler: live.NewSampler(recorder.Registry(), current)}
	recorder.ObserveTenants(a.sampler.Note)
	a.feed = live.NewFeed(a.sampler, a.renderSnapshot)
	return a
}

// Feed returns the live feed, which its owner runs and closes.
func (a *API) Feed() *live.Feed { return a.feed }

// root is the path of the operations.
const root = "/api/monitoring"

// Owns tells whether a path belongs to this surface: all under /api/monitoring
// except those of the quota ledger, which package manage serves.
func Owns(path string) bool {
	const quota = root + "/quota"
	return (path == root || strings.HasPrefix(path, root+"/")) && path != quota && !strings.HasPrefix(path, quota+"/")
}

// wording returns how the caller of a request sees texts about errors.
func wording(r *http.Request) web.Wording { return web.WordingFor(web.IdentityOf(r).Role) }

// An operation answers a request with a value or an error.
type operation[T any] func(*http.Request) (T, error)

// handle returns the HTTP handler of an operation that reads.
func handle[T any](op operation[T]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := op(r)
		if err != nil {
			fail(w, err)
			return
		}
		web.WriteJSON(w, http.StatusOK, value)
	}
}

// handleBody returns the HTTP handler of a change with a body of type B.
func handleBody[B, T any](change func(B) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		handle(func(r *http.Request) (value T, err error) {
			body, err := readChange[B](w, r)
			if err != nil {
				return value, err
			}
			return change(body)
		})(w, r)
	}
}

// handleAction returns the HTTP handler of a change without a body.
func handleAction[T any](act func() T) http.HandlerFunc {
	return handle(func(r *http.Request) (value T, err error) {
		if err := refuseDryRun(r); err != nil {
			return value, err
		}
		return act(), nil
	})
}

// readChange decodes the body of a change. Unknown members are errors.
func readChange[B any](w http.ResponseWriter, r *http.Request) (body B, err error) {
	if err := refuseDryRun(r); err != nil {
		return body, err
	}
	content, err := web.ReadBody(w, r)
	if err != nil {
		return body, err
	}
	if err := json.Unmarshal(content, &body, json.RejectUnknownMembers(true)); err != nil {
		return body, invalid("The body is not the JSON object that is expected here: " + decodingReason(err))
	}
	return body, nil
}

// refuseDryRun returns an error if a request asks for a dry run. These operations have
// none, and the request must not change anything.
func refuseDryRun(r *http.Request) error {
	const name = "dryRun"
	dry, err := web.Flag(r, name)
	switch {
	case err != nil:
		return invalid(name + ": " + err.Error())
	case dry:
		return invalid("dryRun is not available here; nothing was changed")
	}
	return nil
}

// decodingReason returns what is wrong with a body, without the text that the JSON
// library adds.
func decodingReason(err error) string {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return "it is not valid JSON."
	}
	at := string(semantic.JSONPointer)
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return fmt.Sprintf("the member %s is unknown.", at)
	case semantic.Err != nil:
		return fmt.Sprintf("%s: %v.", at, semantic.Err)
	}
	return fmt.Sprintf("the member %q has the wrong type.", at)
}

// requestError is why a request is refused.
type requestError struct {
	status  int
	message string
}

func (e *requestError) Error() string { return e.message }

// invalid returns an error with status 400.
func invalid(message string) error { return &requestError{http.StatusBadRequest, message} }

// missing returns the error for a body without a required member.
func missing(name string) error { return invalid("The member '" + name + "' is required.") }

// monitoringError is the form of errors.
type monitoringError struct {
	Error string         `json:"error"`
	Said  []say.Sentence `json:"said,omitzero" doc:"The error as codes and values; for callers who ask with the header X-Patchbay-Said."`
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	status, ok := web.BodyStatus(err)
	var refused *requestError
	switch {
	case ok:
	case errors.As(err, &refused):
		status = refused.status
	default:
		status = http.StatusInternalServerError
	}
	web.WriteJSON(w, status, monitoringError{err.Error(), web.SaidTo(w, say.Of(err.Error()))})
}

// NotFound answers a path of this surface that does not exist.
func NotFound(w http.ResponseWriter, r *http.Request) {
	fail(w, &requestError{http.StatusNotFound, web.NoOperation(r)})
}

// WrongMethod answers a path of this surface that exists for other methods.
func WrongMethod(w http.ResponseWriter, r *http.Request, allow string) {
	fail(w, &requestError{http.StatusMethodNotAllowed, web.NoMethod(r, allow)})
}
