package monitor

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// monitoringView is the monitoring configuration.
type monitoringView struct {
	Enabled            bool                `json:"enabled"`
	Prefix             string              `json:"prefix"`
	CollectionInterval metrics.Interval    `json:"collectionInterval"`
	EnabledCategories  []metrics.Category  `json:"enabledCategories"`
	CustomTags         map[string]string   `json:"customTags"`
	Sampling           metrics.Sampling    `json:"sampling"`
	Performance        metrics.Performance `json:"performance"`
	Capture            metrics.Capture     `json:"capture" doc:"What is kept of requests beside their records."`
}

// monitoringSnapshot is the monitoring configuration with the time of the reply.
type monitoringSnapshot struct {
	monitoringView `json:",inline"`
	CapturedAt     string `json:"capturedAt" format:"date-time"`
	Version        int64  `json:"version"`
}

func (a *API) view() monitoringView {
	s := a.Recorder.Settings()
	return monitoringView{s.Enabled, s.Prefix, s.CollectionInterval, s.EnabledCategories, s.CustomTags, s.Sampling,
		s.Performance, s.Capture}
}

func (a *API) snapshot(*web.Call) (monitoringSnapshot, error) {
	return monitoringSnapshot{a.view(), web.Time(time.Now()), a.Recorder.Version()}, nil
}

// update changes the settings and returns all of them.
func (a *API) update(change func(*metrics.Settings)) (monitoringView, error) {
	if err := a.Recorder.Update(change); err != nil {
		return monitoringView{}, web.Invalid("", say.From(err))
	}
	return a.view(), nil
}

// setCapture writes the new value of the setting into the line of the audit log.
func (a *API) setCapture(c *web.Call, body *captureRequest) (monitoringView, error) {
	var before, next metrics.Capture
	if err := next.UnmarshalText([]byte(*body.Capture)); err != nil {
		return monitoringView{}, web.Invalid("capture", say.From(err))
	}
	view, err := a.update(func(s *metrics.Settings) { before, s.Capture = s.Capture, next })
	c.Done("capture %s -> %s", before, next)
	return view, err
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
		Interval *isoDuration `json:"interval" required:"true" example:"PT30S" doc:"An ISO 8601 duration."`
	}
	categoriesRequest struct {
		Categories *[]string `json:"categories" required:"true" enum:"request,system,custom" uniqueItems:"true"`
	}
	captureRequest struct {
		Capture *string `json:"capture" required:"true" enum:"none,headers,content"`
	}
	tagsRequest struct {
		CustomTags customTags `json:"customTags" required:"true" maxLength:"256"`
	}
)

// Docs says more about some members than a tag has room for.
func (tagsRequest) Docs() map[string]string {
	return map[string]string{
		"customTags": "Names that the gateway itself uses for labels are refused.",
	}
}

// isoDuration is a length of time as ISO 8601 writes it.
type isoDuration string

// Keywords say which of them are taken.
func (isoDuration) Keywords() map[string]any {
	return map[string]any{"pattern": "^(P([1-9][0-9]{0,3}D)?T([1-9][0-9]{0,3}H)?([1-9][0-9]{0,3}M)?[1-9][0-9]{0,4}S" +
		"|P[1-9][0-9]{0,3}D|PT[1-9][0-9]{0,4}[HM])$"}
}

// customTags are tags of every series, by their names.
type customTags map[string]*string

// Keywords describe the names, and how many there may be.
func (customTags) Keywords() map[string]any {
	names := map[string]any{"pattern": "^([A-Za-z]|_[A-Za-z0-9])[A-Za-z0-9_]*$"}
	return map[string]any{"propertyNames": names, "maxProperties": 32}
}

func (a *API) setEnabled(_ *web.Call, body *enabledRequest) (monitoringView, error) {
	return a.update(func(s *metrics.Settings) { s.Enabled = *body.Enabled })
}

func (a *API) setPrefix(_ *web.Call, body *prefixRequest) (monitoringView, error) {
	return a.update(func(s *metrics.Settings) { s.Prefix = *body.Prefix })
}

func (a *API) setInterval(_ *web.Call, body *intervalRequest) (monitoringView, error) {
	interval, err := metrics.ParseISO8601(string(*body.Interval))
	if err != nil {
		return monitoringView{}, web.Invalid("interval", say.From(err))
	}
	return a.update(func(s *metrics.Settings) { s.CollectionInterval = interval })
}

func (a *API) setCategories(_ *web.Call, body *categoriesRequest) (monitoringView, error) {
	categories := make([]metrics.Category, len(*body.Categories))
	for i, name := range *body.Categories {
		if err := categories[i].UnmarshalText([]byte(name)); err != nil {
			return monitoringView{}, web.Invalid("", say.From(err))
		}
	}
	return a.update(func(s *metrics.Settings) { s.EnabledCategories = categories })
}

func (a *API) setTags(_ *web.Call, body *tagsRequest) (monitoringView, error) {
	tags := make(map[string]string, len(body.CustomTags))
	for name, value := range body.CustomTags {
		if value == nil {
			return monitoringView{}, web.BadInput("customTags", "field.tag_null", "name", web.Shorten(name))
		}
		tags[name] = *value
	}
	return a.update(func(s *metrics.Settings) { s.CustomTags = tags })
}
