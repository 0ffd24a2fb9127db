package metrics_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

func TestIntervalsAreISO8601(t *testing.T) {
	for written, want := range map[string]time.Duration{
		"PT30S": 30 * time.Second, "pt1m30s": 90 * time.Second, "P1D": 24 * time.Hour, "P1DT2H3M4.5S": 26*time.Hour + 3*time.Minute + 4500*time.Millisecond,
		"PT0.000000001S": 1, "PT0,25S": 250 * time.Millisecond, "30s": 30 * time.Second, "1m30s": 90 * time.Second, "PT100H": 100 * time.Hour,
	} {
		var got metrics.Interval
		if err := got.UnmarshalText([]byte(written)); err != nil || got.Std() != want {
			t.Errorf("%s: %v, %v", written, got, err)
		}
		var again metrics.Interval
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != got {
			t.Errorf("%s does not survive being printed as %s", written, got)
		}
	}
	for _, written := range []string{
		"", "P", "PT", "PT0S", "P1Y", "P1M", "P1W", "PT30", "PT-1S", "-PT1S", "PT1S1M", "PT1S1S", "P1DT", "PT1.5M", "PT.5S", "PT1.S",
		"PT1.0000000001S", "0s", "-1s", "30", "PT1D", "P1H", "PT9223372037S", "PT2562047H48M", "P200000D", "PT+1S", "PTS", "P 1D",
	} {
		var got metrics.Interval
		if err := got.UnmarshalText([]byte(written)); err == nil {
			t.Errorf("%q was read as %v", written, got)
		}
	}
	for interval, want := range map[time.Duration]string{
		30 * time.Second: "PT30S", 90 * time.Second: "PT1M30S", 25 * time.Hour: "PT25H", 1500 * time.Millisecond: "PT1.5S", time.Hour + 1: "PT1H0.000000001S",
	} {
		if got := metrics.Interval(interval).String(); got != want {
			t.Errorf("%v prints %s", interval, got)
		}
	}
}

func TestSettingsRules(t *testing.T) {
	var paths []string
	collect := func(path string, _ say.Sentence) { paths = append(paths, path) }
	if metrics.DefaultSettings().Check(collect); paths != nil {
		t.Errorf("the defaults break rules of %v", paths)
	}
	metrics.Settings{
		Prefix:            "a-b",
		EnabledCategories: []metrics.Category{metrics.CategorySystem, metrics.CategorySystem},
		CustomTags:        map[string]string{"__a": "", "9": "", "le": "", "ok_1": "v", "x": "\xff"},
		Sampling:          metrics.Sampling{Rate: math.NaN()},
	}.Check(collect)
	want := []string{
		"prefix", "collectionInterval", "enabledCategories[1]", `customTags["9"]`, `customTags["__a"]`, `customTags["le"]`,
		`customTags["x"]`, "sampling.rate", "performance.batchSize", "performance.flushInterval", "history.retention",
		"history.maxBytes",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("broken rules of %v", paths)
	}
}
