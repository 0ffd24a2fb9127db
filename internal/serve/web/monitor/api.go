// Package monitor serves the operations under /api/monitoring: how the gateway records
// calls, and its knowledge of instances, limits and the latest calls. Degradation, cache
// and circuit breaker in this package belong to recording, not to traffic.
package monitor

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/live"
	"github.com/patchbay-ai/patchbay/internal/serve/problems"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// API has the operations. Their replies have no envelope; errors are
// {"error": "..."}.
type API struct {
	Options
	sampler *live.Sampler
	feed    *live.Feed
}

// Options are the parts that an API depends on.
type Options struct {
	Recorder *calls.Recorder
	Problems *problems.Keeper
	// Current holds the table in force, and Version returns its version.
	Current *routing.Current
	Version func() int
	// Budgets returns how much of the budgets is used, and Currency the currency of costs.
	Budgets  func() []budget.Use
	Currency func() string
}

// New returns the operations.
func New(options Options) *API {
	a := &API{Options: options, sampler: live.NewSampler(options.Recorder.Registry(), options.Current)}
	a.Recorder.Observe(a.sampler.Note)
	a.feed = live.NewFeed(a.sampler, a.renderSnapshot)
	return a
}

// Feed returns the live feed, which its owner runs and closes.
func (a *API) Feed() *live.Feed { return a.feed }

// Sampler returns the history of the counts.
func (a *API) Sampler() *live.Sampler { return a.sampler }

// root is the path of the operations.
const root = "/api/monitoring"

// Owns reports whether a path belongs to this surface: all under /api/monitoring except the
// paths of the quota ledger, which package manage serves.
func Owns(path string) bool {
	const quota = root + "/quota"
	return (path == root || strings.HasPrefix(path, root+"/")) && path != quota && !strings.HasPrefix(path, quota+"/")
}

// surface returns the properties that all operations have in common. They make no versions
// and have no dry runs.
func surface() *web.Surface {
	return &web.Surface{
		Error: monitoringError{}, Fail: fail,
		Decode: func(c *web.Call, to any) error {
			if err := json.Unmarshal(c.Content, to, json.RejectUnknownMembers(true)); err != nil {
				return web.BadInput("", "manage.bad_object", "why", decodingReason(err))
			}
			return nil
		},
		Missing: func(name string, _ say.Code) error { return web.BadInput("", "manage.member", "name", name) },
		Write:   func(w http.ResponseWriter, c *web.Call, value any) { web.WriteJSON(w, c.Status, value) },
	}
}

// decodingReason returns the fault of a body, without the text that the JSON library adds.
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

// monitoringError is the form of errors.
type monitoringError struct {
	Error string         `json:"error"`
	Said  []say.Sentence `json:"said,omitzero" doc:"The error as codes and values, for requests with X-Patchbay-Said."`
}

// fail answers with an error.
func fail(w http.ResponseWriter, _ *http.Request, err error) {
	status := http.StatusInternalServerError
	var refused *web.RequestError
	if errors.As(err, &refused) {
		status = refused.Status
	}
	web.WriteJSON(w, status, monitoringError{err.Error(), web.SaidTo(w, say.From(err))})
}

// NotFound answers a path of this surface that does not exist.
func NotFound(w http.ResponseWriter, r *http.Request) {
	fail(w, r, web.NotFound(web.NoOperation(r)))
}

// WrongMethod answers a path of this surface that exists for other methods.
func WrongMethod(w http.ResponseWriter, r *http.Request, allow string) {
	fail(w, r, &web.RequestError{Status: http.StatusMethodNotAllowed, Why: web.NoMethod(r, allow)})
}
