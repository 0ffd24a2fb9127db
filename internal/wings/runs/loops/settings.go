// Package loops decides whether the run of an agent goes round in circles: the same call or the
// same result of a tool again and again, two that alternate, errors in a row, a context that grows
// while the model says nothing.
package loops

import (
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Action tells what happens to the calls of a run that goes round in circles.
type Action = schema.Choice[action]

type action struct{}

func (action) Names() []string { return []string{"note", "slow", "stop"} }

// The actions.
const (
	Note Action = iota // records and metrics tell of it
	Slow               // each call waits, for longer and longer
	Stop               // the run is over until somebody raises it
)

// Settings say when a run goes round in circles, and what happens then.
type Settings struct {
	// Repeats is which equal call or result of a tool in a row is the first that is acted on; two
	// that alternate are acted on after twice as many. 0 turns all rules off.
	Repeats int `json:"repeats" minimum:"0" maximum:"10000"`
	// Action is what happens then.
	Action Action `json:"action"`
}

const (
	defaultRepeats = 8
	// leastRepeats and mostRepeats bound Repeats.
	leastRepeats = 2
	mostRepeats  = 10_000
	// mostErrors is how many errors in a row are acted on. Clients repeat a call that failed up to 30 times on
	// their own.
	mostErrors = 50
	// mostSilent is how many calls in a row with more context and no output are acted on.
	mostSilent = 16
)

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings { return Settings{Repeats: defaultRepeats} }

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if s.Repeats != 0 && (s.Repeats < leastRepeats || s.Repeats > mostRepeats) {
		report("repeats", say.New("field.between", "least", leastRepeats, "most", mostRepeats, "found", s.Repeats))
	}
}
