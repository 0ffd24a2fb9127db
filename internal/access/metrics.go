package access

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// MetricsAccess says who may read the metrics for scrapers while security is on. These metrics
// contain the ids of keys and their spending.
type MetricsAccess uint8

// Who may read the metrics: everybody who reaches the gateway, or bearers of a management
// token.
const (
	MetricsOpen MetricsAccess = iota
	MetricsToken

	metricsAccessCount = int(MetricsToken) + 1
)

var metricsAccessNames = [metricsAccessCount]string{"open", "token"}

// Names returns the name of every value.
func (MetricsAccess) Names() []string { return slices.Clone(metricsAccessNames[:]) }

// String returns the name of the value.
func (m MetricsAccess) String() string { return schema.NameOf(m, metricsAccessNames[:]) }

// MarshalText writes the name of the value.
func (m MetricsAccess) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the name of a value in any case.
func (m *MetricsAccess) UnmarshalText(text []byte) error {
	return schema.ReadName(m, "value", string(text), metricsAccessNames[:])
}

// ScrapePermission returns the permission that reading the metrics requires.
func (s Settings) ScrapePermission() Permission {
	if s.Enabled && s.Metrics == MetricsToken {
		return ReadMetrics
	}
	return Anyone
}

// ShowsSpending reports whether everybody who reaches the gateway can read the ids of keys and
// their spending in its metrics, although security is on.
func (s Settings) ShowsSpending() bool { return s.Enabled && s.Metrics == MetricsOpen }
