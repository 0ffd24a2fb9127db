package manage

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// Monitoring answers the operations under /api/monitoring. They have no
// envelope; errors are {"error": "..."}. Degradation, cache and circuit breaker
// are those of the recording of calls, never of the traffic.
type Monitoring struct {
	recorder *calls.Recorder
	current  *routing.Current
}

// NewMonitoring returns the monitoring operations on a recorder and the table in
// force.
func NewMonitoring(recorder *calls.Recorder, current *routing.Current) *Monitoring {
	return &Monitoring{recorder, current}
}

func answer(w http.ResponseWriter, value any) { web.WriteJSON(w, http.StatusOK, value) }

// monitoringError is the form of errors.
type monitoringError struct {
	Error string `json:"error"`
}

func complain(w http.ResponseWriter, status int, message string) {
	web.WriteJSON(w, status, monitoringError{message})
}

// isMonitoring tells whether a path is one of those without an envelope: all
// under /api/monitoring but those of the quota ledger.
func isMonitoring(path string) bool {
	const quota = "/api/monitoring/quota"
	return (path == "/api/monitoring" || strings.HasPrefix(path, "/api/monitoring/")) &&
		path != quota && !strings.HasPrefix(path, quota+"/")
}

// isReal tells whether a change is to be made. It answers itself, with false,
// when a dry run is asked for: there is none here, and it must not be taken for a
// change.
func isReal(w http.ResponseWriter, r *http.Request) bool {
	dry, err := flag(r, dryRunFlag)
	switch {
	case err != nil:
		complain(w, http.StatusBadRequest, err.Error())
	case dry:
		complain(w, http.StatusBadRequest, "dryRun is not available here; nothing was changed")
	default:
		return true
	}
	return false
}

// take reads the body of a change into to, strictly. It answers itself, with
// false, when the body is not what it should be.
func take(w http.ResponseWriter, r *http.Request, to any) bool {
	if !isReal(w, r) {
		return false
	}
	body, err := readBody(w, r)
	if err != nil {
		complain(w, statusOf(err), err.Error())
		return false
	}
	if err := json.Unmarshal(body, to, json.RejectUnknownMembers(true)); err != nil {
		complain(w, http.StatusBadRequest, "The body is not the JSON object that is expected here: "+reasonOf(err))
		return false
	}
	return true
}

// reasonOf says what is wrong with a body, without what the library says around it.
func reasonOf(err error) string {
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

// monitoringView is the monitoring configuration.
type monitoringView struct {
	Enabled            bool                `json:"enabled"`
	Prefix             string              `json:"prefix"`
	CollectionInterval metrics.Interval    `json:"collectionInterval"`
	EnabledCategories  []metrics.Category  `json:"enabledCategories"`
	CustomTags         map[string]string   `json:"customTags"`
	Sampling           metrics.Sampling    `json:"sampling"`
	Performance        metrics.Performance `json:"performance"`
}

// monitoringSnapshot is the monitoring configuration at a moment.
type monitoringSnapshot struct {
	monitoringView `json:",inline"`
	CapturedAt     string `json:"capturedAt" format:"date-time"`
	Version        int64  `json:"version"`
}

func (m *Monitoring) view() monitoringView {
	s := m.recorder.Settings()
	return monitoringView{s.Enabled, s.Prefix, s.CollectionInterval, s.EnabledCategories, s.CustomTags, s.Sampling, s.Performance}
}

// Config answers GET /api/monitoring/config.
func (m *Monitoring) Config(w http.ResponseWriter, _ *http.Request) { answer(w, m.view()) }

// Snapshot answers GET /api/monitoring/config/snapshot.
func (m *Monitoring) Snapshot(w http.ResponseWriter, _ *http.Request) {
	answer(w, monitoringSnapshot{m.view(), instant(time.Now()), m.recorder.Version()})
}

// update changes the configuration and answers with all of it.
func (m *Monitoring) update(w http.ResponseWriter, change func(*metrics.Settings)) {
	if err := m.recorder.Update(change); err != nil {
		complain(w, http.StatusBadRequest, err.Error())
		return
	}
	answer(w, m.view())
}

// missing answers a body that lacks what it is about.
func missing(w http.ResponseWriter, name string) {
	complain(w, http.StatusBadRequest, "The member '"+name+"' is required.")
}

// The bodies of changes. A pointer is nil where its member is left out or null.
type (
	enabledRequest struct {
		Enabled *bool `json:"enabled" required:"true"`
	}
	prefixRequest struct {
		Prefix *string `json:"prefix" required:"true" pattern:"^[A-Za-z_][A-Za-z0-9_]{0,63}$"`
	}
	intervalRequest struct {
		Interval *string `json:"interval" required:"true" pattern:"^PT([1-9][0-9]{0,3}H)?([1-9][0-9]{0,3}M)?[1-9][0-9]{0,3}S$" example:"PT30S" doc:"An ISO 8601 duration; a length of time with a unit, such as 30s, is read, too."`
	}
	categoriesRequest struct {
		Categories *[]string `json:"categories" required:"true" enum:"request,system,custom" uniqueItems:"true"`
	}
	tagsRequest struct {
		CustomTags map[string]*string `json:"customTags" required:"true" keys:"^([A-Za-z]|_[A-Za-z0-9])[A-Za-z0-9_]*$" maxProperties:"32" pattern:"^[^\\x00]*$" maxLength:"64" doc:"Names that the gateway itself uses for labels are refused."`
	}
)

// PutEnabled answers PUT /api/monitoring/config/enabled.
func (m *Monitoring) PutEnabled(w http.ResponseWriter, r *http.Request) {
	var body enabledRequest
	if !take(w, r, &body) {
		return
	}
	if body.Enabled == nil {
		missing(w, "enabled")
		return
	}
	m.update(w, func(s *metrics.Settings) { s.Enabled = *body.Enabled })
}

// PutPrefix answers PUT /api/monitoring/config/prefix.
func (m *Monitoring) PutPrefix(w http.ResponseWriter, r *http.Request) {
	var body prefixRequest
	if !take(w, r, &body) {
		return
	}
	if body.Prefix == nil {
		missing(w, "prefix")
		return
	}
	m.update(w, func(s *metrics.Settings) { s.Prefix = *body.Prefix })
}

// PutInterval answers PUT /api/monitoring/config/collection-interval.
func (m *Monitoring) PutInterval(w http.ResponseWriter, r *http.Request) {
	var body intervalRequest
	if !take(w, r, &body) {
		return
	}
	if body.Interval == nil {
		missing(w, "interval")
		return
	}
	var interval metrics.Interval
	if err := interval.UnmarshalText([]byte(*body.Interval)); err != nil {
		complain(w, http.StatusBadRequest, "interval: "+err.Error())
		return
	}
	m.update(w, func(s *metrics.Settings) { s.CollectionInterval = interval })
}

// PutCategories answers PUT /api/monitoring/config/categories.
func (m *Monitoring) PutCategories(w http.ResponseWriter, r *http.Request) {
	var body categoriesRequest
	if !take(w, r, &body) {
		return
	}
	if body.Categories == nil {
		missing(w, "categories")
		return
	}
	categories := make([]metrics.Category, len(*body.Categories))
	for i, name := range *body.Categories {
		if err := categories[i].UnmarshalText([]byte(name)); err != nil {
			complain(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	m.update(w, func(s *metrics.Settings) { s.EnabledCategories = categories })
}

// PutTags answers PUT /api/monitoring/config/custom-tags.
func (m *Monitoring) PutTags(w http.ResponseWriter, r *http.Request) {
	var body tagsRequest
	if !take(w, r, &body) {
		return
	}
	if body.CustomTags == nil {
		missing(w, "customTags")
		return
	}
	tags := make(map[string]string, len(body.CustomTags))
	for name, value := range body.CustomTags {
		if value == nil {
			complain(w, http.StatusBadRequest, "customTags: the value of "+strconv.Quote(shorten(name))+" is null; leave out what should not be there")
			return
		}
		tags[name] = *value
	}
	m.update(w, func(s *metrics.Settings) { s.CustomTags = tags })
}

// instant writes a moment in UTC.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// instantOrNull is instant for moments that may not have come.
func instantOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := instant(t)
	return &text
}

// shout writes a name as monitoring has it.
func shout(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
