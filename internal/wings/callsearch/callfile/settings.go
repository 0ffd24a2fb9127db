package callfile

import (
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Settings say which of the calls that are recorded are kept on disk.
type Settings struct {
	Enabled bool `json:"enabled"`
	// Days is how long they are kept, and MaxBytes how much of the disk they may take.
	Days     int          `json:"days" minimum:"1" maximum:"366"`
	MaxBytes schema.Bytes `json:"maxBytes"`
}

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings { return Settings{Days: 7, MaxBytes: 256 * schema.MiB} }

const (
	mostDays      = 366
	leastMaxBytes = 1 * schema.MiB
)

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if s.Days < 1 || s.Days > mostDays {
		report("days", say.New("field.between", "least", "1", "most", mostDays, "found", s.Days))
	}
	if s.MaxBytes < leastMaxBytes {
		report("maxBytes", say.New("field.at_least", "least", leastMaxBytes, "found", s.MaxBytes))
	}
}
