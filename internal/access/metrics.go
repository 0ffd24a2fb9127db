package access

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// MetricsAccess says who may read the metrics for scrapers while security is on. These metrics
// contain the ids of keys and their spending.
type MetricsAccess = schema.Choice[metricsAccess]

type metricsAccess struct{}

func (metricsAccess) Names() []string { return []string{"open", "token"} }

// Who may read the metrics: everybody who reaches the gateway, or bearers of a management
// token.
const (
	MetricsOpen MetricsAccess = iota
	MetricsToken
)

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
