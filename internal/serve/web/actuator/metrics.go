package actuator

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

func (a *API) metrics(*web.Call) (metricNames, error) {
	names := map[string]bool{}
	for _, f := range a.exposition.Families() {
		if !isCompanion(f.Name) {
			names[f.Dotted] = true
		}
	}
	gathered, _ := a.exposition.Gather() // returns the gathered families, even with an error
	for _, f := range gathered {
		if dotted := a.dottedName(f.GetName()); dotted != "" {
			names[dotted] = true
		}
	}
	return metricNames{slices.Sorted(maps.Keys(names))}, nil
}

// isCompanion reports whether a family holds the maximum of another one.
func isCompanion(name string) bool { return strings.HasSuffix(name, "_seconds_max") }

// dottedName returns the name of a family on this surface, with dots in place of
// underscores, or "" for a companion.
func (a *API) dottedName(name string) string {
	if isCompanion(name) {
		return ""
	}
	for _, f := range a.exposition.Families() {
		if f.Name == name {
			return f.Dotted
		}
	}
	return strings.ReplaceAll(name, "_", ".")
}

type metricNames struct {
	Names []string `json:"names"`
}

// metricQuery narrows a metric to the series that have all the tags.
type metricQuery struct {
	Tag []string `json:"tag" pattern:"^[^:]*:" doc:"key:value; may be repeated."`
}

type metricView struct {
	Name          string        `json:"name"`
	Description   string        `json:"description,omitzero"`
	BaseUnit      string        `json:"baseUnit" doc:"Empty where the metric has no unit."`
	Measurements  []measurement `json:"measurements"`
	AvailableTags []tagView     `json:"availableTags"`
}

type measurement struct {
	Statistic string  `json:"statistic" enum:"COUNT,VALUE,TOTAL_TIME,MAX"`
	Value     float64 `json:"value"`
}

type tagView struct {
	Tag    string   `json:"tag"`
	Values []string `json:"values"`
}

func (a *API) metric(c *web.Call) (view metricView, err error) {
	filter, ok := readTags(c.URL.Query()["tag"])
	if !ok {
		return view, refuse(http.StatusBadRequest, "Each tag parameter must be in the form 'key:value'.")
	}
	name := c.PathValue("name")
	view = metricView{Name: name, Measurements: []measurement{}, AvailableTags: []tagView{}}
	gathered, _ := a.exposition.Gather() // returns the gathered families, even with an error
	var family, companion *dto.MetricFamily
	for _, f := range gathered {
		if a.dottedName(f.GetName()) == name {
			family = f
		}
	}
	if family == nil {
		defined := a.definition(name)
		if defined == nil || len(filter) > 0 {
			return view, refuse(http.StatusNotFound, "")
		}
		// The family is known and has no series yet.
		view.Description, view.BaseUnit = defined.Help, defined.Unit
		view.Measurements = emptyOf(defined)
		return view, nil
	}
	for _, f := range gathered {
		if f.GetName() == family.GetName()+"_max" {
			companion = f
		}
	}
	view.Description = family.GetHelp()
	if defined := a.definition(name); defined != nil {
		view.BaseUnit = defined.Unit
	}
	matching := match(family, filter)
	if len(matching) == 0 {
		return view, refuse(http.StatusNotFound, "")
	}
	view.Measurements = measure(family.GetType(), matching, match(companion, filter))
	view.AvailableTags = tagsOf(matching, filter)
	return view, nil
}

func (a *API) definition(dotted string) *metrics.Family {
	for _, f := range a.exposition.Families() {
		if f.Dotted == dotted && !isCompanion(f.Name) {
			return &f
		}
	}
	return nil
}

func emptyOf(f *metrics.Family) []measurement {
	switch f.Kind {
	case metrics.KindCounter:
		return []measurement{{"COUNT", 0}}
	case metrics.KindGauge:
		return []measurement{{"VALUE", 0}}
	}
	return []measurement{{"COUNT", 0}, {"TOTAL_TIME", 0}, {"MAX", 0}}
}

// readTags parses filters of the form name:value. Values may contain further colons.
func readTags(given []string) (map[string]string, bool) {
	filter := map[string]string{}
	for _, pair := range given {
		key, value, ok := strings.Cut(pair, ":")
		if !ok {
			return nil, false
		}
		if before, twice := filter[key]; twice && before != value {
			value = before + "\x00" + value // matches nothing: no series has two values of a tag
		}
		filter[key] = value
	}
	return filter, true
}

// match returns the series that have all the tags.
func match(f *dto.MetricFamily, filter map[string]string) []*dto.Metric {
	var found []*dto.Metric
	for _, m := range f.GetMetric() {
		has := 0
		for _, label := range m.Label {
			if want, asked := filter[label.GetName()]; asked && label.GetValue() == want {
				has++
			}
		}
		if has == len(filter) {
			found = append(found, m)
		}
	}
	return found
}

// measure merges series: sums, and the largest of the maxima where there are any.
func measure(kind dto.MetricType, series, maxima []*dto.Metric) []measurement {
	var value, count, total float64
	unlimited := len(series) > 0
	for _, m := range series {
		if m.GetGauge().GetValue() >= 0 { // a negative value means that there is no bound
			value += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			unlimited = false
		}
		count += float64(m.GetHistogram().GetSampleCount() + m.GetSummary().GetSampleCount())
		total += m.GetHistogram().GetSampleSum() + m.GetSummary().GetSampleSum()
	}
	switch kind {
	case dto.MetricType_COUNTER:
		return []measurement{{"COUNT", value}}
	case dto.MetricType_HISTOGRAM, dto.MetricType_SUMMARY, dto.MetricType_GAUGE_HISTOGRAM:
		measured := []measurement{{"COUNT", count}, {"TOTAL_TIME", total}}
		if largest := largestOf(series, maxima); largest >= 0 {
			measured = append(measured, measurement{"MAX", largest})
		}
		return measured
	}
	if unlimited {
		value = -1
	}
	return []measurement{{"VALUE", value}}
}

// largestOf returns the largest of the maxima, or of the quantiles 1 (the Go runtime has
// them for its latest pauses). A result below 0 means that there is neither.
func largestOf(series, maxima []*dto.Metric) float64 {
	largest := -1.0
	for _, m := range maxima {
		largest = max(largest, m.GetGauge().GetValue())
	}
	for _, m := range series {
		for _, q := range m.GetSummary().GetQuantile() {
			if q.GetQuantile() == 1 && q.GetValue() > largest { // false for NaN
				largest = q.GetValue()
			}
		}
	}
	return largest
}

// tagsOf lists the tags of the series that the filter does not fix yet, with their values.
func tagsOf(series []*dto.Metric, filter map[string]string) []tagView {
	values := map[string]map[string]bool{}
	for _, m := range series {
		for _, label := range m.Label {
			if _, asked := filter[label.GetName()]; asked {
				continue
			}
			if values[label.GetName()] == nil {
				values[label.GetName()] = map[string]bool{}
			}
			values[label.GetName()][label.GetValue()] = true
		}
	}
	tags := []tagView{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		tags = append(tags, tagView{name, slices.Sorted(maps.Keys(values[name]))})
	}
	return tags
}
