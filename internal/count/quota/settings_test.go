package quota_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

func TestPeriodsAreReadWithAUnit(t *testing.T) {
	for written, want := range map[string]string{
		"13mo": "13mo", "35d": "35d", "2h": "2h", "90m": "90m", "30s": "30s", "7": "7d", "007": "7d", " 1D ": "1d", "2MO": "2mo", "1200mo": "", //nolint:gocritic // people write blanks
		"0": "", "0d": "", "-1d": "", "": "", "d": "", "1w": "", "1.5d": "", "1d2h": "", "99999999999": "", "101y": "", "40000d": "", "1ms": "", "1om": "",
		"36600d": "36600d", "36601d": "", "1180mo": "1180mo", "1181mo": "", // 100 years
	} {
		var got quota.Period
		err := got.UnmarshalText([]byte(written))
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v", written, got, err)
		}
	}
}

func TestPeriodsOfMonthsFollowTheCalendar(t *testing.T) {
	at := time.Date(2026, 5, 15, 12, 0, 0, 0, time.UTC)
	for period, want := range map[quota.Period]time.Time{
		{Amount: 13, Unit: quota.Months}:  time.Date(2025, 4, 15, 12, 0, 0, 0, time.UTC),
		{Amount: 1, Unit: quota.Days}:     at.Add(-24 * time.Hour),
		{Amount: 90, Unit: quota.Seconds}: at.Add(-90 * time.Second),
		{Amount: 2, Unit: quota.Minutes}:  at.Add(-2 * time.Minute),
		{Amount: 3, Unit: quota.Hours}:    at.Add(-3 * time.Hour),
	} {
		if got := period.Before(at); !got.Equal(want) {
			t.Errorf("%v before: %v", period, got)
		}
	}
	// A day that a month does not have becomes its last one.
	for from, want := range map[string]string{
		"2026-03-31": "2026-02-28", "2024-03-31": "2024-02-29", "2026-03-28": "2026-02-28", "2026-03-01": "2026-02-01",
		"2026-01-31": "2025-12-31", "2026-07-31": "2026-06-30",
	} {
		at, err := time.Parse(time.DateOnly, from)
		if err != nil {
			t.Fatal(err)
		}
		if got := (quota.Period{Amount: 1, Unit: quota.Months}).Before(at).Format(time.DateOnly); got != want {
			t.Errorf("a month before %s: %s, want %s", from, got, want)
		}
	}
}

func TestSettingsRules(t *testing.T) {
	var paths []string
	collect := func(path string, _ say.Sentence) { paths = append(paths, path) }
	if quota.DefaultSettings().Check(collect); paths != nil {
		t.Errorf("the defaults break rules of %v", paths)
	}
	bad := quota.Settings{Windows: []quota.Window{quota.Day, quota.Day}}
	bad.Check(collect)
	want := []string{
		"flushIntervalSeconds", "windows[1]", "retention.minute", "retention.hour", "retention.day", "retention.month",
		"distributed.keyPrefix",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("broken rules of %v", paths)
	}
}

func TestKeyPrefixFitsIntoAKeyOfRedis(t *testing.T) {
	for prefix, want := range map[string]string{
		"patchbay":               "",
		"team-a:patchbay":        "",
		strings.Repeat("x", 128): "",
		strings.Repeat("x", 129): "must not be longer than 128 bytes",
		"":                       "must not be empty",
		"two words":              "must not contain spaces or control characters",
		"tab\t":                  "must not contain spaces or control characters",
		"bell\a":                 "must not contain spaces or control characters",
	} {
		settings := quota.DefaultSettings()
		settings.Distributed.KeyPrefix = prefix
		var got string
		settings.Check(func(path string, fault say.Sentence) { got += path + " " + fault.String() })
		if want != "" {
			want = "distributed.keyPrefix " + want
		}
		if got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}

func TestTimeoutIsClamped(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		0: time.Millisecond, 50 * time.Millisecond: 50 * time.Millisecond, time.Minute: 5 * time.Second,
	} {
		settings := quota.DefaultSettings()
		settings.Distributed.Timeout = quota.Timeout(given)
		settings.Normalize()
		if got := settings.Distributed.Timeout.Std(); got != want {
			t.Errorf("%v became %v", given, got)
		}
	}
}

// A part of a millisecond is no reason not to start: it is moved into the range.
func TestTimeoutIsReadInAnyUnit(t *testing.T) {
	for written, want := range map[string]time.Duration{
		"900us": time.Millisecond, "0.5ms": time.Millisecond, "1ns": time.Millisecond, "1.2ms": 2 * time.Millisecond,
		"50": 50 * time.Millisecond, "0": time.Millisecond, "2s": 2 * time.Second, "1h": 5 * time.Second,
		"2562047h47m16.854775807s": 5 * time.Second, "9000000000": 5 * time.Second,
	} {
		for _, read := range []func(*quota.Timeout) error{
			func(to *quota.Timeout) error { return to.UnmarshalText([]byte(written)) },
			func(to *quota.Timeout) error { return json.Unmarshal([]byte(`"`+written+`"`), to) },
		} {
			settings := quota.DefaultSettings()
			err := read(&settings.Distributed.Timeout)
			settings.Normalize()
			if got := settings.Distributed.Timeout.Std(); err != nil || got != want {
				t.Errorf("%s became %v: %v", written, got, err)
			}
		}
	}
	for _, written := range []string{"-1ms", "-0.5ms", "-5", "soon", ""} {
		if err := new(quota.Timeout).UnmarshalText([]byte(written)); err == nil {
			t.Errorf("%q was accepted", written)
		}
	}
}

func TestJournalSyncIsReadByName(t *testing.T) {
	for i, name := range quota.Sync(0).Names() {
		var got quota.Sync
		if err := got.UnmarshalText([]byte(name)); err != nil || got != quota.Sync(i) || got.String() != name {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if err := new(quota.Sync).UnmarshalText([]byte("2s")); err == nil {
		t.Error("2s was read")
	}
	if quota.DefaultSettings().JournalSync != quota.SyncEverySecond {
		t.Error("the default is another")
	}
}

// TestUnknownValuesAreShownAsNumbers, in logs and messages.
func TestUnknownValuesAreShownAsNumbers(t *testing.T) {
	for got, want := range map[string]string{
		quota.Window(quota.WindowCount).String():     "Window(8)",
		quota.Window(quota.WindowCount - 1).String(): "BUDGET_RUN",
		quota.Period{Amount: 3, Unit: 5}.String():    "Period(3, 5)",
		quota.Period{Amount: 3, Unit: 4}.String():    "3mo",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	settings := quota.DefaultSettings()
	settings.Retention.Hour.Unit = 5
	var paths []string
	settings.Check(func(path string, _ say.Sentence) { paths = append(paths, path) })
	if !slices.Equal(paths, []string{"retention.hour"}) {
		t.Errorf("%v", paths)
	}
}

// TestFlushIntervalHasBounds.
func TestFlushIntervalHasBounds(t *testing.T) {
	for seconds, isValid := range map[int]bool{0: false, 1: true, 1_000_000_000: true, 1_000_000_001: false, -1: false} {
		settings := quota.DefaultSettings()
		settings.FlushIntervalSeconds = seconds
		wrong := 0
		settings.Check(func(string, say.Sentence) { wrong++ })
		if (wrong == 0) != isValid {
			t.Errorf("%d s: %d rules are broken", seconds, wrong)
		}
	}
}

// TestRetentionOfEveryWindow: that of usage is as it is set, and touches no budget.
func TestRetentionOfEveryWindow(t *testing.T) {
	r := quota.Retention{
		Minute: quota.Period{Amount: 1}, Hour: quota.Period{Amount: 2}, Day: quota.Period{Amount: 3}, Month: quota.Period{Amount: 4},
	}
	for window, want := range map[quota.Window]int{
		quota.Minute: 1, quota.Hour: 2, quota.Day: 3, quota.Month: 4, quota.BudgetDay: 35, quota.BudgetMonth: 13,
	} {
		if got := r.Of(window).Amount; got != want {
			t.Errorf("%v: %d, want %d", window, got, want)
		}
	}
}

// TestWindowsAreReadByName, those of budgets only where stores have them.
func TestWindowsAreReadByName(t *testing.T) {
	for name, isKnown := range map[string]bool{"minute": true, "HOUR": true, "Day": true, "MONTH": true, "BUDGET_DAY": false, "week": false, "": false} {
		var w quota.Window
		if err := w.UnmarshalText([]byte(name)); (err == nil) != isKnown || isKnown && !strings.EqualFold(w.String(), name) {
			t.Errorf("%q: %v, %v", name, w, err)
		}
	}
	for name, isKnown := range map[string]bool{"MINUTE": true, "BUDGET_TOTAL": true, "minute": false} {
		if w, err := quota.ParseStoredWindow(name); (err == nil) != isKnown || isKnown && w.String() != name {
			t.Errorf("%q: %v, %v", name, w, err)
		}
	}
}
