package files

import (
	"fmt"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Settings say how much is kept, and for how long.
type Settings struct {
	// MaxSize is how large one file may be.
	MaxSize schema.Bytes `json:"maxSize"`
	// MaxFiles is how many files an owner may have.
	MaxFiles int `json:"maxFiles"`
	// MaxBytesPerKey is how much of the disk an owner may use, and MaxBytes how much all
	// may use together.
	MaxBytesPerKey schema.Bytes `json:"maxBytesPerKey"`
	MaxBytes       schema.Bytes `json:"maxBytes"`
	// Retention is how long a file is kept whose creator said nothing about it.
	Retention schema.Duration `json:"retention"`
	// Folder is where the contents are; empty means the data directory. Gateways that
	// share the configuration need one that all of them reach.
	Folder string `json:"folder"`
}

// DefaultSettings returns what holds where nothing is configured.
func DefaultSettings() Settings {
	return Settings{
		MaxSize: 200 * schema.MiB, MaxFiles: 1000, MaxBytesPerKey: 2048 * schema.MiB, MaxBytes: 20480 * schema.MiB,
		Retention: schema.Duration(30 * 24 * time.Hour),
	}
}

const (
	leastSize      = 1 * schema.KiB
	leastRetention = time.Hour
	mostRetention  = 366 * 24 * time.Hour
)

// Check reports every field that has a value it may not have.
func (s Settings) Check(report func(path, message string)) {
	for _, size := range []struct {
		name  string
		bytes schema.Bytes
	}{{"maxSize", s.MaxSize}, {"maxBytesPerKey", s.MaxBytesPerKey}, {"maxBytes", s.MaxBytes}} {
		if size.bytes < leastSize {
			report(size.name, fmt.Sprintf("must be at least %s, not %s", leastSize, size.bytes))
		}
	}
	if s.MaxFiles < 1 {
		report("maxFiles", fmt.Sprintf("must be at least 1, not %d", s.MaxFiles))
	}
	if kept := s.Retention.Std(); kept < leastRetention || kept > mostRetention {
		report("retention", fmt.Sprintf("must be between %s and %s, not %s", leastRetention, mostRetention, kept))
	}
}
