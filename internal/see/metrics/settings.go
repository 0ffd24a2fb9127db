package metrics

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Category is a group of metrics that is recorded or left out as a whole.
type Category = schema.Choice[category]

type category struct{}

func (category) Names() []string { return []string{"request", "system", "custom"} }

// The categories.
const (
	CategoryRequest Category = iota
	CategorySystem
	CategoryCustom
)

// Categories returns every category.
func Categories() []Category { return []Category{CategoryRequest, CategorySystem, CategoryCustom} }

// Settings are the monitoring configuration. Sampling, Performance, Calls and Capture
// are for the records of calls, the others for the counts.
type Settings struct {
	Enabled bool `json:"enabled"`
	// Prefix begins the name of every metric of the gateway.
	Prefix             string     `json:"prefix"`
	CollectionInterval Interval   `json:"collectionInterval"`
	EnabledCategories  []Category `json:"enabledCategories"`
	// CustomTags are added to every series.
	CustomTags  map[string]string `json:"customTags"`
	Sampling    Sampling          `json:"sampling"`
	Performance Performance       `json:"performance"`
	// Calls is how many of the latest calls are remembered; it is read at start.
	Calls int `json:"calls" minimum:"0" maximum:"100000"`
	// Capture lists the headers and bodies to keep.
	Capture Capture `json:"capture"`
	// History is read at start.
	History History `json:"history"`
}

// History says how much of the history for the console is kept on disk.
type History struct {
	// Retention is how long it is kept, and MaxBytes how much of the disk it may take.
	Retention schema.Duration `json:"retention"`
	MaxBytes  schema.Bytes    `json:"maxBytes"`
}

// Sampling says which part of the calls is recorded. Counts do not depend on it.
type Sampling struct {
	Enabled bool `json:"enabled"`
	// Rate is the recorded part, from 0 to 1.
	Rate float64 `json:"rate" minimum:"0" maximum:"1"`
}

// Performance says how records of calls are moved on from their buffer: when
// BatchSize of them wait, and at least once every FlushInterval.
type Performance struct {
	BatchSize     int      `json:"batchSize" minimum:"1" maximum:"1000000"`
	FlushInterval Interval `json:"flushInterval"`
}

const (
	maxPrefixLength   = 64
	maxTagValueLength = 256
	maxTags           = 32
	maxBatchSize      = 1_000_000
	maxCalls          = 100_000
	leastHistory      = 24 * time.Hour
	longestHistory    = 366 * 24 * time.Hour
	leastHistoryBytes = 1 * schema.MiB
)

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings {
	return Settings{
		Enabled:            true,
		Prefix:             "model_router",
		CollectionInterval: Interval(30 * time.Second),
		EnabledCategories:  Categories(),
		CustomTags:         map[string]string{},
		Sampling:           Sampling{Rate: 1},
		Performance:        Performance{BatchSize: 100, FlushInterval: Interval(10 * time.Second)},
		Calls:              1000,
		History:            History{Retention: schema.Duration(30 * 24 * time.Hour), MaxBytes: 256 * schema.MiB},
	}
}

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if !isMetricName(s.Prefix) || len(s.Prefix) > maxPrefixLength {
		report("prefix", say.New("field.metric_prefix", "most", maxPrefixLength))
	}
	if s.CollectionInterval <= 0 {
		report("collectionInterval", say.New("field.longer"))
	}
	for i, category := range s.EnabledCategories {
		if slices.Contains(s.EnabledCategories[:i], category) {
			report(fmt.Sprintf("enabledCategories[%d]", i), say.New("field.twice", "name", category.String()))
		}
	}
	s.checkTags(report)
	// The condition is written this way round to catch NaN too.
	if !(s.Sampling.Rate >= 0 && s.Sampling.Rate <= 1) {
		report("sampling.rate", say.New("field.between", "least", 0, "most", 1, "found", s.Sampling.Rate))
	}
	if s.Performance.BatchSize < 1 || s.Performance.BatchSize > maxBatchSize {
		report("performance.batchSize",
			say.New("field.between", "least", "1", "most", maxBatchSize, "found", s.Performance.BatchSize))
	}
	if s.Performance.FlushInterval <= 0 {
		report("performance.flushInterval", say.New("field.longer"))
	}
	if kept := s.History.Retention.Std(); kept < leastHistory || kept > longestHistory {
		report("history.retention",
			say.New("field.between", "least", leastHistory, "most", longestHistory, "found", kept))
	}
	if s.History.MaxBytes < leastHistoryBytes {
		report("history.maxBytes", say.New("field.at_least", "least", leastHistoryBytes, "found", s.History.MaxBytes))
	}
	if s.Calls < 0 || s.Calls > maxCalls {
		report("calls", say.New("field.between", "least", "0", "most", maxCalls, "found", s.Calls))
	}
}

func (s Settings) checkTags(report say.Report) {
	if len(s.CustomTags) > maxTags {
		report("customTags", say.New("field.tags", "count", len(s.CustomTags), "most", maxTags))
	}
	for _, name := range slices.Sorted(maps.Keys(s.CustomTags)) {
		path := "customTags[" + strconv.Quote(name) + "]"
		value := s.CustomTags[name]
		switch {
		case !isMetricName(name) || strings.HasPrefix(name, "__"):
			report(path, say.New("field.tag_name"))
		case isOwnLabel(name):
			report(path, say.New("field.tag_own"))
		case !utf8.ValidString(value):
			report(path, say.New("field.utf8"))
		case len(value) > maxTagValueLength:
			report(path, say.New("field.bytes", "most", maxTagValueLength))
		}
	}
}

// isMetricName reports whether every scraper accepts name as the name of a metric
// or label. Colons are left out: they are reserved for recording rules.
func isMetricName(name string) bool {
	for i, r := range name {
		isLetter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !isLetter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// isOwnLabel reports whether some series has a label of this name already. The series that
// only describe the build do not count: a tag "version" is common, and there the label is
// the better answer.
func isOwnLabel(name string) bool {
	if name == "le" || name == "quantile" || slices.Contains(labelsOfWings, name) {
		return true
	}
	for i := range families {
		if families[i].Name != buildInfo && slices.Contains(families[i].Labels, name) {
			return true
		}
	}
	return false
}
