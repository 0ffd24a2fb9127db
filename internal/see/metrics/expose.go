package metrics

import (
	"errors"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// Build is the version of the program.
type Build struct{ Version, Commit, GoVersion string }

// Exposition shows the counts of a registry and the living state of routing.
type Exposition struct {
	options   Options
	collector *collector
	runtime   *prometheus.Registry // of the Go runtime and the process
}

// Options are the sources that an Exposition shows.
type Options struct {
	Registry *Registry
	// State tells the living state at every scrape.
	State func(to *State)
	Build Build
	// Families are those of wings.
	Families []Family
	// Failed is called when some series could not be gathered.
	Failed func()
}

// NewExposition returns an exposition.
func NewExposition(options Options) (*Exposition, error) {
	all := slices.Concat(families[:], options.Families)
	places := make(map[string]int, len(all))
	for i := range all {
		places[all[i].Name] = i
	}
	e := &Exposition{
		options: options,
		collector: &collector{options.Registry, options.State, options.Build, newSystem(options.Registry.Started()),
			all, places},
		runtime: prometheus.NewRegistry(),
	}
	return e, errors.Join(
		e.runtime.Register(collectors.NewGoCollector()),
		e.runtime.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
}

// Families returns every family that the gateway defines itself.
func (e *Exposition) Families() []Family { return e.collector.families }

// Gather returns every family with the default prefix, whatever the settings are.
func (e *Exposition) Gather() ([]*dto.MetricFamily, error) {
	all := e.collector.collect().filled()
	others, err := e.runtime.Gather()
	if err != nil {
		e.options.Failed()
	}
	return append(all, others...), err
}

// Scrape returns the families as the settings want them shown: nothing where monitoring is
// off, only the categories that are on, with the prefix and the custom tags. An error comes
// with the families that could be gathered nevertheless.
func (e *Exposition) Scrape() ([]*dto.MetricFamily, error) {
	s := e.options.Registry.Settings()
	if !s.Enabled {
		return nil, nil
	}
	all, err := e.Gather()
	all = slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		category := CategorySystem // the Go runtime and the process
		if place, isOwn := e.collector.places[f.GetName()]; isOwn {
			category = e.collector.families[place].Category
		}
		return !slices.Contains(s.EnabledCategories, category)
	})
	for _, f := range all {
		if rest, own := strings.CutPrefix(f.GetName(), defaultPrefix+"_"); own && s.Prefix != defaultPrefix {
			f.Name = proto.String(s.Prefix + "_" + rest)
		}
		tag(f, s.CustomTags)
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return distinct(all), err
}

// tag adds the custom tags to every series. It does not replace a label of the same
// name, which only the series with the build information can have.
func tag(f *dto.MetricFamily, tags map[string]string) {
	if len(tags) == 0 {
		return
	}
	for _, m := range f.Metric {
		own := m.Label
		for name, value := range tags {
			if !slices.ContainsFunc(own, func(l *dto.LabelPair) bool { return l.GetName() == name }) {
				m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(name), Value: proto.String(value)})
			}
		}
		sortLabels(m.Label)
	}
}

// distinct drops families that have the name of another one, because a prefix such as "go"
// has made it so, or because OpenMetrics names counters without their ending: a scraper
// would refuse a whole scrape with one name twice. The counter stays: the Go runtime shows
// the dropped value by another name as well.
func distinct(all []*dto.MetricFamily) []*dto.MetricFamily {
	counters, taken := map[string]bool{}, make(map[string]bool, len(all))
	for _, f := range all {
		if name, isCounter := bareName(f); isCounter {
			counters[name] = true
		}
	}
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		name, isCounter := bareName(f)
		if taken[name] || counters[name] && !isCounter {
			return true
		}
		taken[name] = true
		return false
	})
}

// bareName returns the name of a family in OpenMetrics, and whether it is a
// counter.
func bareName(f *dto.MetricFamily) (string, bool) {
	if f.GetType() != dto.MetricType_COUNTER {
		return f.GetName(), false
	}
	return strings.TrimSuffix(f.GetName(), "_total"), true
}
