package files

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Settings say how much is kept, and for how long.
type Settings struct {
	// MaxSize is how large one file may be.
	MaxSize schema.Bytes `json:"maxSize"`
	// MaxFiles is how many files an owner may have, with results of batches, and
	// MaxFilesInAll how many all may have together.
	MaxFiles      int `json:"maxFiles" minimum:"1" maximum:"10000000"`
	MaxFilesInAll int `json:"maxFilesInAll" minimum:"1" maximum:"10000000"`
	// MaxBytesPerKey is how much of the disk an owner may use, and MaxBytes how much all
	// may use together; 0 is a part of the disk.
	MaxBytesPerKey schema.Bytes `json:"maxBytesPerKey"`
	MaxBytes       schema.Bytes `json:"maxBytes"`
	// Reserve is how much of the disk stays free for the gateway's own files; 0 is a part
	// of the disk.
	Reserve schema.Bytes `json:"reserve"`
	// Retention is how long a file is kept if its creator said nothing about it.
	Retention schema.Duration `json:"retention"`
	// Folder is the folder of the contents; empty means the data directory. Gateways that
	// share the configuration need one that all of them reach.
	Folder string `json:"folder" effect:"restart"`
}

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings {
	return Settings{
		MaxSize: 200 * schema.MiB, MaxFiles: 4000, MaxFilesInAll: 80_000,
		Retention: schema.Duration(30 * 24 * time.Hour),
	}
}

const (
	leastSize      = 1 * schema.KiB
	mostFiles      = 10_000_000
	leastRetention = time.Hour
	mostRetention  = 366 * 24 * time.Hour
)

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	for _, size := range []struct {
		name  string
		bytes schema.Bytes
		isOf  bool // 0 is a part of the disk
	}{{"maxSize", s.MaxSize, false}, {"maxBytesPerKey", s.MaxBytesPerKey, true}, {"maxBytes", s.MaxBytes, true}} {
		if size.bytes < leastSize && !(size.isOf && size.bytes == 0) {
			report(size.name, say.New("field.at_least", "least", leastSize, "found", size.bytes))
		}
	}
	for _, number := range []struct {
		name  string
		value int
	}{{"maxFiles", s.MaxFiles}, {"maxFilesInAll", s.MaxFilesInAll}} {
		if number.value < 1 || number.value > mostFiles {
			report(number.name, say.New("field.between", "least", "1", "most", mostFiles, "found", number.value))
		}
	}
	if kept := s.Retention.Std(); kept < leastRetention || kept > mostRetention {
		report("retention", say.New("field.between", "least", leastRetention, "most", mostRetention, "found", kept))
	}
}
