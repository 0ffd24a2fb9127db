// Package selfservice decides which keys people who signed in may make for themselves and for
// their teams.
package selfservice

import (
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Settings bound the keys that people make. They are read at start.
type Settings struct {
	// Keys is how many keys a person may have at a time; 0 means none.
	Keys int `json:"keys" minimum:"0" maximum:"1000"`
	// Terms bound every such key, beside the terms of its tenant.
	Terms access.Terms `json:"terms"`
	// LongestLife bounds the time until a key expires.
	LongestLife quota.Period `json:"longestLife"`
	// Absence is the time after the last sign-in of a person when the keys of that person begin
	// to sleep.
	Absence quota.Period `json:"absence"`
}

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings {
	return Settings{Keys: 5, LongestLife: quota.Period{Amount: 90, Unit: quota.Days},
		Absence: quota.Period{Amount: 30, Unit: quota.Days}}
}

// mostKeys bounds the keys of a person and those of a team.
const mostKeys = 1000

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if s.Keys < 0 || s.Keys > mostKeys {
		report("keys", say.New("field.between", "least", "0", "most", mostKeys, "found", s.Keys))
	}
	s.Terms.CheckAt("terms.", report)
}
