// Package answercache keeps the answers to deterministic requests for a limited time: in
// memory within a bound, or in a store that several gateways share. The same request of the
// same tenant need not be put to a backend again.
package answercache

import (
	"fmt"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Settings choose the answers to keep, their time and their number.
type Settings struct {
	// Services are the service types with kept answers, and Keys the ids of keys with kept
	// answers, whatever the service type. With neither the cache is off.
	Services []schema.ServiceType `json:"services"`
	Keys     []string             `json:"keys"`
	// TTL is how long an answer is kept after it was made.
	TTL schema.Duration `json:"ttl"`
	// MaxBytes bounds the answers in memory; the answer that was unused for the longest
	// time gives way. MaxAnswer is the size of the largest answer that is kept.
	MaxBytes  schema.Bytes `json:"maxBytes"`
	MaxAnswer schema.Bytes `json:"maxAnswer"`
	// Shared keeps answers in Redis, where all gateways find them.
	Shared bool `json:"shared" effect:"restart"`
	// ChargeHits gives an answer from the cache the price of the model.
	ChargeHits bool `json:"chargeHits"`
	// SingleFlight lets equal requests that are in flight at the same time share one call,
	// whether or not answers are kept.
	SingleFlight bool `json:"singleFlight"`
}

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings {
	return Settings{TTL: schema.Duration(time.Hour), MaxBytes: 64 << 20, MaxAnswer: 1 << 20}
}

const (
	leastTTL  = time.Second
	mostTTL   = 90 * 24 * time.Hour
	leastSize = 64 << 10
)

// Cacheable reports whether a service type has requests with answers that can be kept.
func Cacheable(service schema.ServiceType) bool {
	return service == schema.Chat || service == schema.Embedding || service == schema.Rerank
}

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	for i, service := range s.Services {
		switch {
		case !Cacheable(service):
			report(fmt.Sprintf("services[%d]", i),
				say.Plain("want chat, embedding or rerank; answers of "+service.String()+" are not kept"))
		case slices.Contains(s.Services[:i], service):
			report(fmt.Sprintf("services[%d]", i), say.New("field.twice", "name", service.String()))
		}
	}
	for i, key := range s.Keys {
		if key == "" {
			report(fmt.Sprintf("keys[%d]", i), say.New("field.empty"))
		}
	}
	if ttl := s.TTL.Std(); ttl < leastTTL || ttl > mostTTL {
		report("ttl", say.New("field.between", "least", leastTTL, "most", mostTTL, "found", ttl))
	}
	if s.MaxBytes < leastSize {
		report("maxBytes", say.New("field.at_least_bytes", "least", leastSize, "found", int64(s.MaxBytes)))
	}
	if s.MaxAnswer < 1 || s.MaxAnswer > s.MaxBytes {
		report("maxAnswer",
			say.New("field.between", "least", "1 byte", "most", "maxBytes", "found", int64(s.MaxAnswer)))
	}
}

// Keeps reports whether any answers are kept.
func (s Settings) Keeps() bool { return len(s.Services) > 0 || len(s.Keys) > 0 }

// On reports whether any answers are kept, or shared.
func (s Settings) On() bool { return s.Keeps() || s.SingleFlight }
