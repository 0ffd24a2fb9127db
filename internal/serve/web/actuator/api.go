// Package actuator answers the operational endpoints under /actuator, in the
// shapes that tools made for Spring Boot's actuator expect.
package actuator

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store/cluster"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// API answers the operational endpoints.
type API struct {
	options    Options
	exposition *metrics.Exposition
	disk       diskWatch
	env        environment
	draining   atomic.Bool
}

// Options name the parts of the gateway that the API shows.
type Options struct {
	Current  *routing.Current
	Recorder *calls.Recorder
	Levels   *logs.Levels
	// Document is the static configuration. The API checks the free space of the disk with
	// its DataDir.
	Document *config.Document
	// Ready reports whether the gateway has all that it needs to serve; nil means that it
	// has.
	Ready func() bool
	// Ledger returns the counters of the quota ledger; nil means that there is none.
	Ledger func() quota.Stats
	// Budgets returns how much of the budgets is used; nil means that there are none.
	Budgets func() []budget.Use
	// BudgetLedger returns the counters of the ledger of budgets; nil means that there is
	// none.
	BudgetLedger func() quota.Stats
	// Shared returns the state of the rate limits that gateways share; nil means that
	// there are none.
	Shared func() tally.Stats
	// Models returns the models that are kept in memory; nil means that none are.
	Models func(now time.Time) []residency.State
	// State adds the figures of wings to a scrape, and Components their health; nil means
	// that there are none.
	State      func(to *metrics.State, now time.Time)
	Families   []metrics.Family // of wings
	Components func(to map[string]Component)
	// Exchange returns the state of the news about the fleet that gateways exchange; nil
	// means that they exchange none.
	Exchange func() fleet.ExchangeStats
	// Cluster returns a view of the gateways that share the configuration; nil means that they
	// share nothing.
	Cluster func() cluster.View
	// Config returns the state of the sources of the configuration; nil means that
	// there are none.
	Config func() ConfigSources
	// LinesDropped counts the lines of the log that were dropped; nil means none.
	LinesDropped func() int64
	// Panics counts the panics that were caught; nil means none.
	Panics func() int64
	Build  Build
	// Demo says that the backends are simulated.
	Demo bool
}

// Build is the version of the program, and the hash, the time (RFC 3339) and the branch of
// its commit. Unknown parts are empty.
type Build struct{ Version, Commit, Date, Branch string }

// New returns the operational endpoints.
func New(options Options) (*API, error) {
	a := &API{options: options}
	a.disk.path = options.Document.Server.DataDir
	a.Describe(nil, nil)
	var err error
	a.exposition, err = metrics.NewExposition(metrics.Options{
		Registry: options.Recorder.Registry(), State: a.state,
		Build:    metrics.Build{Version: options.Build.Version, Commit: options.Build.Commit, GoVersion: goVersion()},
		Families: options.Families,
		Failed: func() {
			options.Recorder.NoteFault("prometheusRegistry", "gather", "some series could not be gathered")
		},
	})
	return a, err
}

// Exposition returns the metrics that the scrape shows.
func (a *API) Exposition() *metrics.Exposition { return a.exposition }

// Drain makes the gateway report that it is not ready. Load balancers then send new
// requests elsewhere while the running ones end.
func (a *API) Drain() { a.draining.Store(true) }

// IsDraining reports whether Drain was called.
func (a *API) IsDraining() bool { return a.draining.Load() }

const (
	mediaJSON   = "application/json"
	mediaVendor = "application/vnd.spring-boot.actuator.v3+json"
	mediaOlder  = "application/vnd.spring-boot.actuator.v2+json"
)

// reply answers with a value as JSON, with one of Spring Boot's media types if the client
// accepts it.
func reply(w http.ResponseWriter, r *http.Request, status int, value any) {
	body, err := web.Encode(value)
	if err != nil {
		web.WriteJSON(w, http.StatusInternalServerError, value) // fails, too, and answers with an error
		return
	}
	media := mediaJSON
	accept := r.Header.Get("Accept")
	for _, vendor := range [...]string{mediaVendor, mediaOlder} {
		if strings.Contains(accept, vendor) {
			media = vendor
			break
		}
	}
	header := w.Header()
	header.Set("Content-Type", media)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left does not need it
}

// actuatorError is the error body of the surface.
type actuatorError struct {
	Timestamp string `json:"timestamp"`
	Status    int    `json:"status"`
	Error     string `json:"error"`
	Path      string `json:"path"`
	Message   string `json:"message,omitzero"`
}

// surface returns the properties that all endpoints have in common.
func surface() *web.Surface {
	return &web.Surface{
		Error: actuatorError{}, Fail: fail,
		Write: func(w http.ResponseWriter, c *web.Call, value any) { reply(w, c.Request, c.Status, value) },
	}
}

// refuse returns an error. Its text needs no code: errors of the actuator are for programs.
func refuse(status int, text string) error {
	return &web.RequestError{Status: status, Why: say.Plain(text)}
}

// fail answers with an error.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	const longest = 200
	refused := &web.RequestError{Status: http.StatusInternalServerError}
	errors.As(err, &refused)
	path := r.URL.Path
	if len(path) > longest {
		path = path[:longest]
	}
	reply(w, r, refused.Status, actuatorError{
		Timestamp: web.Time(time.Now()), Status: refused.Status, Error: http.StatusText(refused.Status),
		Path: strings.ToValidUTF8(path, "?"), Message: refused.Error(),
	})
}

// NotFound answers a path that does not exist.
func NotFound(w http.ResponseWriter, r *http.Request) { fail(w, r, refuse(http.StatusNotFound, "")) }

// WrongMethod answers a path that exists for other methods.
func WrongMethod(w http.ResponseWriter, r *http.Request, allow string) {
	fail(w, r, refuse(http.StatusMethodNotAllowed, "Allowed are "+allow+"."))
}

// Fail answers a request that cannot be handled.
func Fail(w http.ResponseWriter, r *http.Request, err *schema.Error) {
	fail(w, r, refuse(err.HTTPStatus(), err.Message))
}
