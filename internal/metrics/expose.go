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

// Build says what runs.
type Build struct{ Version, Commit, GoVersion string }

// Exposition shows the counts of a recorder and the living state of routing.
type Exposition struct {
	recorder *Recorder
	registry *prometheus.Registry
	category map[string]Category
}

// NewExposition returns the exposition of a recorder. The world is asked for
// anew at every scrape.
func NewExposition(r *Recorder, world func() World, build Build) (*Exposition, error) {
	e := &Exposition{recorder: r, registry: prometheus.NewRegistry(), category: map[string]Category{}}
	for i := range families {
		e.category[families[i].Name] = families[i].Category
	}
	return e, errors.Join(
		e.registry.Register(newCollector(r, world, build)),
		e.registry.Register(collectors.NewGoCollector()),
		e.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
}

// Gather returns every family under its inner name, whatever the settings say.
func (e *Exposition) Gather() ([]*dto.MetricFamily, error) {
	all, err := e.registry.Gather()
	if err != nil {
		e.recorder.NoteFault("prometheusRegistry", "gather", "some series could not be gathered")
	}
	return all, err
}

// Scrape returns the families as the settings want them shown: nothing where
// monitoring is off, only the categories that are on, with the prefix and the
// custom tags. An error comes with what could be gathered nevertheless.
func (e *Exposition) Scrape() ([]*dto.MetricFamily, error) {
	s := e.recorder.Settings()
	if !s.Enabled {
		return nil, nil
	}
	all, err := e.Gather()
	all = slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		category, own := e.category[f.GetName()]
		if !own {
			category = CategorySystem // the Go runtime and the process
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

// tag adds the custom tags to every series that has no label of that name.
func tag(f *dto.MetricFamily, tags map[string]string) {
	if len(tags) == 0 {
		return
	}
	for _, m := range f.Metric {
		for name, value := range tags {
			if !slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == name }) {
				m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(name), Value: proto.String(value)})
			}
		}
		slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
}

// distinct drops families whose name a prefix such as "go" has made that of
// another one: a scrape with a name twice would be refused whole.
func distinct(sorted []*dto.MetricFamily) []*dto.MetricFamily {
	return slices.CompactFunc(sorted, func(a, b *dto.MetricFamily) bool { return a.GetName() == b.GetName() })
}
