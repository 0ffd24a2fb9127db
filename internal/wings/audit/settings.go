package audit

import (
	"net/url"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Settings say how long records are kept, and where copies of them go.
type Settings struct {
	// Keep is how long records are kept, and MaxBytes how much room they may take, in a database
	// those of all gateways.
	Keep     schema.Duration `json:"keep"`
	MaxBytes schema.Bytes    `json:"maxBytes"`
	// Syslog is the address of a syslog server that gets every record and head, and OTLP the
	// base URL of a collector of logs; empty means none.
	Syslog string `json:"syslog"`
	OTLP   string `json:"otlp"`
	// Headers go along with every export over OTLP; they may hold credentials.
	Headers map[string]string `json:"headers"`
	// CA is a file with the certificates that are trusted in place of the system's.
	CA string `json:"ca"`
}

const (
	leastKeep     = 24 * time.Hour
	mostKeep      = 10 * 366 * 24 * time.Hour
	leastMaxBytes = 16 * schema.MiB
)

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings {
	return Settings{Keep: schema.Duration(365 * 24 * time.Hour), MaxBytes: 1024 * schema.MiB}
}

// Check reports every field that has a value it may not have. Its messages repeat no
// address, which may hold a secret.
func (s Settings) Check(report say.Report) {
	if s.Keep.Std() < leastKeep || s.Keep.Std() > mostKeep {
		report("keep", say.New("field.between", "least", schema.Duration(leastKeep), "most", schema.Duration(mostKeep),
			"found", s.Keep))
	}
	if s.MaxBytes < leastMaxBytes {
		report("maxBytes", say.New("field.at_least", "least", leastMaxBytes, "found", s.MaxBytes))
	}
	if s.Syslog != "" && !isSyslog(s.Syslog) {
		report("syslog", say.New("field.syslog"))
	}
	if s.OTLP != "" {
		if fault := outgoing.AddressFault(s.OTLP); fault.Is() {
			report("otlp", fault)
		}
	}
}

func isSyslog(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.RawQuery != "" {
		return false
	}
	switch u.Scheme {
	case "tcp", "tls":
		return u.Hostname() != "" && u.Port() != "" && u.Path == ""
	case "unix":
		return u.Host == "" && u.Path != ""
	}
	return false
}
