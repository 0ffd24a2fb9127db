package batches

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Settings say whether there are batches, and how large they may be.
type Settings struct {
	// Enabled turns batches on, and the files that they need.
	Enabled bool `json:"enabled" effect:"restart"`
	// MaxLines is how many requests a batch may have.
	MaxLines int `json:"maxLines" minimum:"1" maximum:"1000000"`
	// MaxOpen is how many open batches an owner may have.
	MaxOpen int `json:"maxOpen" minimum:"1" maximum:"1000000"`
	// MaxKept is how many batches of an owner are kept, ended or not, and MaxKeptInAll how
	// many of all owners together. The oldest that have ended give way to new ones.
	MaxKept      int `json:"maxKept" minimum:"1" maximum:"1000000"`
	MaxKeptInAll int `json:"maxKeptInAll" minimum:"1" maximum:"1000000"`
	// MaxInFlight is how many requests of all batches run at a time at most.
	MaxInFlight int `json:"maxInFlight" minimum:"1" maximum:"10000"`
	// Window is the longest time that a batch may take.
	Window schema.Duration `json:"window"`
	// Attempts is how often a request is sent while its backend fails.
	Attempts int `json:"attempts" minimum:"1" maximum:"20"`
	// WaitForBudget lets a batch wait where the budget of its owner is used up.
	WaitForBudget bool `json:"waitForBudget"`
}

// DefaultSettings returns the settings of an empty configuration: there are no batches.
func DefaultSettings() Settings {
	return Settings{MaxLines: 50_000, MaxOpen: 100, MaxKept: 1000, MaxKeptInAll: 20_000, MaxInFlight: 64,
		Window: schema.Duration(24 * time.Hour), Attempts: 3}
}

const (
	mostLines    = 1_000_000
	mostInFlight = 10_000
	mostAttempts = 20
	leastWindow  = time.Minute
	mostWindow   = 30 * 24 * time.Hour
)

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	for _, number := range []struct {
		name        string
		value, most int
	}{
		{"maxLines", s.MaxLines, mostLines}, {"maxOpen", s.MaxOpen, mostLines}, {"maxKept", s.MaxKept, mostLines},
		{"maxKeptInAll", s.MaxKeptInAll, mostLines}, {"maxInFlight", s.MaxInFlight, mostInFlight},
		{"attempts", s.Attempts, mostAttempts},
	} {
		if number.value < 1 || number.value > number.most {
			report(number.name, say.New("field.between", "least", "1", "most", number.most, "found", number.value))
		}
	}
	if window := s.Window.Std(); window < leastWindow || window > mostWindow {
		report("window", say.New("field.between", "least", leastWindow, "most", mostWindow, "found", window))
	}
}

// CheckFolder reports batches without a folder that all gateways reach.
func CheckFolder(s Settings, folder string, isShared bool, report say.Report) {
	if s.Enabled && isShared && folder == "" {
		report("files.folder", say.Plain("gateways that share their configuration (store.config) need a folder "+
			"for batches that all of them reach"))
	}
}
