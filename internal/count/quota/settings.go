// Package quota is the ledger: it counts requests and tokens by tenant, key,
// user, service and model in windows of calendar time.
package quota

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Window is a kind of calendar window of the ledger.
type Window uint8

// The windows, from the shortest to the longest.
const (
	Minute Window = iota
	Hour
	Day
	Month

	// The windows of budgets, which a ledger of their own counts: a day, a month, and
	// all time. They differ from the windows above, and so both kinds can be in one
	// database.
	BudgetDay
	BudgetMonth
	BudgetTotal
	// BudgetRun is the window of one run of an agent, which a ledger of its own counts: it
	// begins with the second of the first request of the run.
	BudgetRun

	// WindowCount sizes arrays that are indexed by Window.
	WindowCount = int(BudgetRun) + 1
)

var windowNames = [WindowCount]string{"MINUTE", "HOUR", "DAY", "MONTH", "BUDGET_DAY", "BUDGET_MONTH", "BUDGET_TOTAL",
	"BUDGET_RUN"}

// Windows returns every window of usage, from the shortest to the longest.
func Windows() []Window { return []Window{Minute, Hour, Day, Month} }

// Names returns the name of every window of usage.
func (Window) Names() []string { return slices.Clone(windowNames[:BudgetDay]) }

// String returns the name in capitals.
func (w Window) String() string { return schema.NameOf(w, windowNames[:]) }

// MarshalText writes the name in capitals.
func (w Window) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads the name of a window of usage in any case.
func (w *Window) UnmarshalText(text []byte) error {
	return schema.ReadName(w, "window", string(text), windowNames[:BudgetDay])
}

// ParseStoredWindow reads the name of any window, as stores have it.
func ParseStoredWindow(name string) (Window, error) {
	if i := slices.Index(windowNames[:], name); i >= 0 {
		return Window(i), nil
	}
	return 0, fmt.Errorf("unknown window %q", name)
}

// Settings describe the ledger.
type Settings struct {
	Enabled bool `json:"enabled"`
	// FailOpen lets requests pass when the ledger fails.
	FailOpen bool `json:"failOpen"`
	// FlushIntervalSeconds is the time between two writes of snapshots.
	FlushIntervalSeconds int `json:"flushIntervalSeconds" minimum:"1" maximum:"1000000000"`
	// Windows are the kinds of windows that count requests.
	Windows     []Window    `json:"windows"`
	Retention   Retention   `json:"retention"`
	Distributed Distributed `json:"distributed"`
	// JournalSync says when counted totals reach the disk.
	JournalSync Sync `json:"journalSync"`
	// Reserve is how much a request reserves of the budgets of its key and its tenant.
	Reserve Reserve `json:"reserve"`
}

// Reserve is how much a request reserves of a budget before it is sent.
type Reserve = schema.Choice[reserve]

type reserve struct{}

func (reserve) Names() []string { return []string{"most", "likely"} }

// The possibilities.
const (
	Most   Reserve = iota // the most that the request may use
	Likely                // the most if it has room, otherwise the likely use, for one request at a time
)

// Retention says how long the counts of each window are kept.
type Retention struct {
	Minute Period `json:"minute"`
	Hour   Period `json:"hour"`
	Day    Period `json:"day"`
	Month  Period `json:"month"`
}

// Of returns the retention of one window. Budgets have one of their own, whatever is set for
// usage.
func (r Retention) Of(w Window) Period {
	if w == BudgetRun {
		return Period{runDays, Days}
	}
	if w >= BudgetDay {
		r, w = DefaultSettings().Retention, min(w-BudgetDay+Day, Month)
	}
	return [...]Period{r.Minute, r.Hour, r.Day, r.Month}[w]
}

// runDays is how many days the counts of runs are kept.
const runDays = 8

// Distributed describes counting in a store that several gateways share.
type Distributed struct {
	Enabled   bool   `json:"enabled"`
	KeyPrefix string `json:"keyPrefix"`
	// Timeout bounds one command to the store.
	Timeout Timeout `json:"timeout"`
	// DegradeToLocal keeps counting in this process while the store is unavailable.
	DegradeToLocal bool `json:"degradeToLocal"`
}

const (
	minTimeout       = Timeout(time.Millisecond)
	maxTimeout       = Timeout(5 * time.Second)
	maxFlushSeconds  = 1_000_000_000
	maxKeyPrefixSize = 128
)

// DefaultSettings returns the settings of an empty configuration: a ledger that is off.
func DefaultSettings() Settings {
	return Settings{
		FailOpen:             true,
		FlushIntervalSeconds: 60,
		Windows:              Windows(),
		Retention: Retention{
			Minute: Period{1, Days},
			Hour:   Period{2, Days},
			Day:    Period{35, Days},
			Month:  Period{13, Months},
		},
		Distributed: Distributed{
			KeyPrefix:      "patchbay:quota",
			Timeout:        Timeout(50 * time.Millisecond),
			DegradeToLocal: true,
		},
	}
}

// Normalize clamps the timeout of the shared store to the supported range. Every reader
// then sees the value in force.
func (s *Settings) Normalize() {
	s.Distributed.Timeout = min(max(s.Distributed.Timeout, minTimeout), maxTimeout)
}

// SameUntilRestart reports whether both settings are the same apart from the fields
// that can change while the ledger runs.
func (s Settings) SameUntilRestart(other Settings) bool {
	s.Enabled, s.FailOpen, s.Windows = other.Enabled, other.FailOpen, other.Windows
	return settings.Equal(s, other)
}

// Clone returns a copy that shares nothing with s.
func (s Settings) Clone() Settings {
	s.Windows = slices.Clone(s.Windows)
	return s
}

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if s.FlushIntervalSeconds < 1 {
		report("flushIntervalSeconds", say.New("field.at_least", "least", "1", "found", s.FlushIntervalSeconds))
	} else if s.FlushIntervalSeconds > maxFlushSeconds {
		report("flushIntervalSeconds", say.New("field.at_most", "most", maxFlushSeconds))
	}
	for i, window := range s.Windows {
		if slices.Contains(s.Windows[:i], window) {
			report(fmt.Sprintf("windows[%d]", i), say.New("field.twice", "name", window.String()))
		}
	}
	for _, window := range Windows() {
		if err := s.Retention.Of(window).valid(); err != nil {
			report("retention."+strings.ToLower(window.String()), say.From(err))
		}
	}
	if wrong := checkKeyPrefix(s.Distributed.KeyPrefix); wrong != "" {
		report("distributed.keyPrefix", say.Plain(wrong))
	}
}

// checkKeyPrefix names the fault of the prefix of the keys in Redis; empty where there
// is none.
func checkKeyPrefix(prefix string) string {
	if prefix == "" {
		return "must not be empty"
	}
	if len(prefix) > maxKeyPrefixSize {
		return fmt.Sprintf("must not be longer than %d bytes", maxKeyPrefixSize)
	}
	if strings.ContainsFunc(prefix, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return "must not contain spaces or control characters"
	}
	return ""
}
