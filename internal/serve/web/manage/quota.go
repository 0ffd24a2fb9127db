package manage

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// The codes of the errors of the quota operations, for programs.
const (
	codeInvalidRequest  = "INVALID_REQUEST"
	codeRestartRequired = "RESTART_REQUIRED"
)

// quotaOff is the message of a read while the ledger is off.
const quotaOff = "配额账本未启用"

// quotaConfigView is the configuration of the quota ledger as JSON.
type quotaConfigView struct {
	Enabled               bool              `json:"enabled"`
	FailOpen              bool              `json:"failOpen"`
	Windows               []quota.Window    `json:"windows"`
	FlushIntervalSeconds  int               `json:"flushIntervalSeconds"`
	Retention             quota.Retention   `json:"retention"`
	Distributed           quotaDistribution `json:"distributed"`
	BackendName           string            `json:"backendName" enum:"local,redis"`
	HotEditableFields     []string          `json:"hotEditableFields"`
	RestartRequiredFields []string          `json:"restartRequiredFields"`
}

type quotaDistribution struct {
	Enabled        bool   `json:"enabled"`
	KeyPrefix      string `json:"keyPrefix"`
	TimeoutMs      int64  `json:"timeoutMs"`
	DegradeToLocal bool   `json:"degradeToLocal"`
}

func viewDistribution(d quota.Distributed) quotaDistribution {
	return quotaDistribution{d.Enabled, d.KeyPrefix, d.Timeout.Std().Milliseconds(), d.DegradeToLocal}
}

// quotaRequest describes the body of a change. At least one of these members must be
// given and not null. Members that need a restart are refused unless they are null.
type quotaRequest struct {
	Enabled  *bool          `json:"enabled"`
	FailOpen *bool          `json:"failOpen"`
	Windows  []quota.Window `json:"windows"`
}

// Keywords say that one of the members must be given.
func (quotaRequest) Keywords() map[string]any {
	var choice []any
	for _, name := range hotFields() {
		given := map[string]any{name: map[string]any{"not": map[string]any{"type": "null"}}}
		choice = append(choice, map[string]any{"required": []string{name}, "properties": given})
	}
	return map[string]any{"anyOf": choice}
}

// UsageFilter limits a query of usage to a tenant, a key, a user, a service type and a
// model.
type UsageFilter struct {
	TenantID    string `json:"tenantId"`
	APIKeyID    string `json:"apiKeyId"`
	UserID      string `json:"userId"`
	ServiceType string `json:"serviceType"`
	Model       string `json:"model"`
}

// Question returns the query for the ledger.
func (f UsageFilter) Question() quota.UsageQuery {
	if service, err := schema.ParseServiceType(f.ServiceType); err == nil {
		f.ServiceType = service.String()
	}
	return quota.UsageQuery{Tenant: f.TenantID, APIKey: f.APIKeyID, User: f.UserID, Service: f.ServiceType,
		Model: f.Model}
}

// usageQuery has the filters of the usage list.
type usageQuery struct {
	UsageFilter
	Window quota.Window `json:"window" empty:"true"`
	From   time.Time    `json:"from" empty:"true" doc:"The earliest beginning of a window."`
	To     time.Time    `json:"to" empty:"true" doc:"The latest beginning of a window."`
	web.PageQuery
}

// hotFields returns the fields that can be changed while the gateway runs, and
// restartFields the ones that take effect at the next start.
func hotFields() []string { return []string{"enabled", "failOpen", "windows"} }

func restartFields() []string {
	return []string{
		"distributedEnabled", "distributedKeyPrefix", "distributedTimeoutMs", "distributedDegradeToLocal", "retention",
		"flushIntervalSeconds",
	}
}

func viewQuotaConfig(s quota.Settings) quotaConfigView {
	return quotaConfigView{
		Enabled: s.Enabled, FailOpen: s.FailOpen, Windows: web.NotNil(s.Windows),
		FlushIntervalSeconds: s.FlushIntervalSeconds,
		Retention:            s.Retention, Distributed: viewDistribution(s.Distributed), BackendName: s.CounterKind(),
		HotEditableFields: hotFields(), RestartRequiredFields: restartFields(),
	}
}

func (a *API) quotaConfig(*web.Call) (quotaConfigView, error) {
	return viewQuotaConfig(a.options.Ledger.Settings()), nil
}

func (a *API) editQuota(c *web.Call) (quotaConfigView, error) {
	edit, err := readQuotaEdit(c.Content)
	if err != nil {
		return quotaConfigView{}, err
	}
	settings := edit.Apply(a.options.Ledger.Settings())
	c.Say("Dry run: this would be in force; nothing was changed.")
	if !c.DryRun {
		a.options.EditLedger(edit)
		settings = a.options.Ledger.Settings()
		c.Say("The quota ledger is changed until the next restart or reload.")
		if a.options.Control.Values() != nil {
			c.Say("The quota ledger of this gateway is changed until its next restart or reload; " +
				"the others that share the configuration are not, so ask each of them.")
		}
	}
	c.Done("quota: enabled %t, failOpen %t, windows %v", settings.Enabled, settings.FailOpen, settings.Windows)
	return viewQuotaConfig(settings), nil
}

// errRestart means that a request wants to change a field that needs a restart.
var errRestart = say.Error("manage.restart")

// readQuotaEdit parses a change. The order of the checks is part of the API: no body,
// fields that need a restart, unknown fields, no field at all, wrong values.
func readQuotaEdit(body []byte) (quota.Edit, error) {
	var edit quota.Edit
	var fields map[string]jsontext.Value
	if len(strings.TrimSpace(string(body))) == 0 {
		return edit, web.BadInput("body", "field.empty")
	}
	if err := json.Unmarshal(body, &fields); err != nil {
		return edit, web.BadInput("body", "field.json_once")
	}
	if fields == nil {
		return edit, web.BadInput("body", "field.null")
	}
	var fixed, unknown []string
	given := 0
	for name, value := range fields {
		switch {
		case value.Kind() == 'n':
		case slices.Contains(restartFields(), name), name == "distributed":
			fixed = append(fixed, name)
		case slices.Contains(hotFields(), name):
			given++
		default:
			unknown = append(unknown, web.Shorten(name))
		}
	}
	slices.Sort(fixed)
	slices.Sort(unknown)
	switch {
	case len(fixed) > 0:
		return edit, say.About(strings.Join(fixed, ", "), errRestart)
	case len(unknown) > 0:
		return edit, web.BadInput(strings.Join(unknown, ", "),
			"field.unknown", "known", strings.Join(hotFields(), ", "))
	case given == 0:
		return edit, web.BadInput("body", "field.at_least_one", "known", strings.Join(hotFields(), ", "))
	}
	return edit, readHotFields(fields, &edit)
}

func readHotFields(fields map[string]jsontext.Value, edit *quota.Edit) error {
	for name, to := range map[string]any{"enabled": &edit.Enabled, "failOpen": &edit.FailOpen} {
		if value := fields[name]; value != nil && json.Unmarshal(value, to) != nil {
			return web.BadInput(name, "field.switch")
		}
	}
	value := fields["windows"]
	if value == nil || value.Kind() == 'n' {
		return nil
	}
	var names []string
	if json.Unmarshal(value, &names) != nil {
		return web.BadInput("windows", "field.windows")
	}
	edit.Windows = []quota.Window{}
	for _, name := range names {
		var window quota.Window
		if err := window.UnmarshalText([]byte(strings.TrimSpace(name))); err != nil {
			return web.Invalid("windows", say.From(err))
		}
		if !slices.Contains(edit.Windows, window) {
			edit.Windows = append(edit.Windows, window)
		}
	}
	return nil
}

// failQuota answers with an error and its code.
func (a *API) failQuota(w http.ResponseWriter, _ *http.Request, err error) {
	said := saidOf(err)
	fault := web.Fault{Message: say.Join(said), Said: web.SaidTo(w, said...), ErrorCode: codeInvalidRequest}
	status := statusOf(err)
	if errors.Is(err, errRestart) {
		status, fault.ErrorCode = http.StatusBadRequest, codeRestartRequired
	}
	web.WriteJSON(w, status, fault)
}

// quotaStatusView is the state of the quota ledger as JSON.
type quotaStatusView struct {
	Enabled        bool              `json:"enabled"`
	BackendName    string            `json:"backendName" enum:"local,redis"`
	Degraded       bool              `json:"degraded"`
	DegradedReason string            `json:"degradedReason"`
	Said           []say.Sentence    `json:"said,omitzero" doc:"The reason as codes and values."`
	FailOpen       bool              `json:"failOpen"`
	Windows        []quota.Window    `json:"windows"`
	Distributed    quotaDistribution `json:"distributed"`
	RedisProbe     *quotaProbe       `json:"redisProbe,omitzero"`
	CounterMetrics *quotaMetrics     `json:"counterMetrics,omitzero"`
}

type quotaProbe struct {
	Reachable bool           `json:"reachable"`
	Status    string         `json:"status" enum:"healthy,degraded,error"`
	Reason    string         `json:"reason,omitzero"`
	Said      []say.Sentence `json:"said,omitzero" doc:"The reason as codes and values."`
}

type quotaMetrics struct {
	DegradationCount int64 `json:"degradationCount"`
}

func (a *API) quotaStatus(c *web.Call) (quotaStatusView, error) {
	status := a.options.Ledger.Status(c.Context())
	s := status.Settings
	view := quotaStatusView{
		Enabled: s.Enabled, BackendName: s.CounterKind(), Degraded: status.Reason != "", DegradedReason: status.Reason,
		Said:     status.Said,
		FailOpen: s.FailOpen, Windows: web.NotNil(s.Windows), Distributed: viewDistribution(s.Distributed),
	}
	if status.Probe != nil {
		view.RedisProbe = &quotaProbe{status.Probe.Reachable, status.Probe.Status,
			status.Probe.Reason.String(), say.All(status.Probe.Reason)}
		view.CounterMetrics = &quotaMetrics{status.Degradations}
	}
	if !s.Enabled {
		c.Message = quotaOff
	}
	return view, nil
}

// quotaUsageView is the usage of one key in one window as JSON.
type quotaUsageView struct {
	Dimensions   quotaDimensions `json:"dimensions"`
	Window       quota.Window    `json:"window"`
	WindowStart  time.Time       `json:"windowStart"`
	RequestCount int64           `json:"requestCount"`
	TokenCount   int64           `json:"tokenCount"`
	// PromptTokens and CompletionTokens are parts of TokenCount, where backends told.
	PromptTokens     int64 `json:"promptTokens"`
	CompletionTokens int64 `json:"completionTokens"`
	Cost             int64 `json:"cost" doc:"In millionths of prices.currency, at the prices of each time."`
}

type quotaDimensions struct {
	TenantID    string             `json:"tenantId"`
	APIKeyID    string             `json:"apiKeyId"`
	UserID      string             `json:"userId"`
	ServiceType schema.ServiceType `json:"serviceType"`
	Model       string             `json:"model"`
}

func viewUsage(u *quota.Usage) quotaUsageView {
	return quotaUsageView{
		Dimensions: quotaDimensions{u.Key.Tenant, u.Key.APIKey, u.Key.User, u.Key.Service, u.Key.Model},
		Window:     u.Window, WindowStart: u.Start.UTC(), RequestCount: u.Requests, TokenCount: u.Tokens,
		PromptTokens: u.Prompt, CompletionTokens: u.Completion, Cost: prices.Amount(u.Cost).Micros(),
	}
}

// quotaUsage returns a page of the list, or all of it. The list may be long, so all of it is
// written while it is read.
func (a *API) quotaUsage(c *web.Call, q *usageQuery) (any, error) {
	question := q.Question()
	question.From, question.To = timeOrNil(q.From), timeOrNil(q.To)
	if c.Has("window") {
		question.Window = &q.Window
	}
	each := func(visit func(quotaUsageView) bool) (message string) {
		return UsageMessage(a.options.Ledger.EachUsage(c.Context(), question,
			func(u quota.Usage) bool { return visit(viewUsage(&u)) }))
	}
	p := q.Page()
	if p == nil {
		c.Instead = func(w http.ResponseWriter) { web.StreamJSON(w, streamedList[quotaUsageView](each)) }
		return nil, nil
	}
	content := []quotaUsageView{}
	c.Message = each(func(view quotaUsageView) bool {
		if p.Add() {
			content = append(content, view)
		}
		return true
	})
	return web.PageView[quotaUsageView]{Content: content, Page: *p}, nil
}

// UsageMessage returns the message of a reply that has counts of the ledger.
func UsageMessage(enabled bool, err error) string {
	switch {
	case !enabled:
		return quotaOff
	case errors.Is(err, quota.ErrTruncated):
		return "What was counted; " + quota.ErrTruncated.Error() + "."
	case err != nil:
		return "What this gateway holds; a store did not answer, so the counts of others and of earlier times may be " +
			"missing."
	}
	return "What was counted."
}

// timeOrNil returns nil for a time that was not given.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
