package answers

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Settings say how long responses are kept, and how many.
type Settings struct {
	// TTL is how long a response is kept after it was made or used last.
	TTL schema.Duration `json:"ttl"`
	// MaxBytes bounds the memory of the responses that are kept in memory, and an
	// eighth of it the size of one response.
	MaxBytes schema.Bytes `json:"maxBytes"`
	// MaxResponses is how many are kept in memory; the one that was unused for the
	// longest time gives way.
	MaxResponses int `json:"maxResponses" minimum:"1"`
	// MaxSharedBytes bounds the answers of all gateways together in Redis.
	MaxSharedBytes schema.Bytes `json:"maxSharedBytes"`
	// Shared keeps responses in Redis, where all gateways find them.
	Shared bool `json:"shared" effect:"restart"`
}

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings {
	return Settings{TTL: schema.Duration(24 * time.Hour), MaxBytes: 64 << 20, MaxResponses: 10_000,
		MaxSharedBytes: 512 << 20}
}

const (
	leastTTL  = time.Second
	mostTTL   = 90 * 24 * time.Hour
	leastSize = 64 << 10
)

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if ttl := s.TTL.Std(); ttl < leastTTL || ttl > mostTTL {
		report("ttl", say.New("field.between", "least", leastTTL, "most", mostTTL, "found", ttl))
	}
	if s.MaxBytes < leastSize {
		report("maxBytes", say.New("field.at_least_bytes", "least", leastSize, "found", int64(s.MaxBytes)))
	}
	if s.MaxSharedBytes < leastSize {
		report("maxSharedBytes", say.New("field.at_least_bytes", "least", leastSize, "found", int64(s.MaxSharedBytes)))
	}
	if s.MaxResponses < 1 {
		report("maxResponses", say.New("field.at_least", "least", "1", "found", s.MaxResponses))
	}
}
