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
	// Action is what happens, unless a rule says otherwise.
	Action Action `json:"action"`
	// Rules change single rules.
	Rules Rules `json:"rules"`
}

// Rules are the settings of single rules.
type Rules struct {
	// Same is about equal calls and equal results of tools.
	Same Limit `json:"same"`
	// Alternating is about two of them that take turns.
	Alternating Limit `json:"alternating"`
	// Errors is about calls that fail, one after the other.
	Errors Limit `json:"errors"`
	// NoOutput is about calls with more and more context and no output.
	NoOutput Limit `json:"noOutput"`
}

// Limit is how often something happens in a row until it is acted on.
type Limit struct {
	// Threshold is that number; 0 is the number of the rule.
	Threshold int `json:"threshold" minimum:"0" maximum:"10000"`
	// Action is what happens; left out, it is the action of all rules.
	Action *Action `json:"action,omitzero"`
}

// Defaults of the thresholds that do not follow from Repeats. Clients repeat a call that failed
// up to 30 times on their own.
const (
	defaultRepeats  = 8
	defaultErrors   = 50
	defaultNoOutput = 16
	// leastThreshold and mostThreshold bound all of them.
	leastThreshold = 2
	mostThreshold  = 10_000
)

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings { return Settings{Repeats: defaultRepeats} }

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	for _, field := range [...]struct {
		path  string
		found int
	}{
		{"repeats", s.Repeats},
		{"rules.same.threshold", s.Rules.Same.Threshold},
		{"rules.alternating.threshold", s.Rules.Alternating.Threshold},
		{"rules.errors.threshold", s.Rules.Errors.Threshold},
		{"rules.noOutput.threshold", s.Rules.NoOutput.Threshold},
	} {
		if field.found != 0 && (field.found < leastThreshold || field.found > mostThreshold) {
			report(field.path, say.New("field.between",
				"least", leastThreshold, "most", mostThreshold, "found", field.found))
		}
	}
}

// threshold returns the number of a rule.
func (l Limit) threshold(otherwise int) int {
	if l.Threshold > 0 {
		return l.Threshold
	}
	return otherwise
}

// action returns what happens by a rule.
func (l Limit) action(otherwise Action) Action {
	if l.Action != nil {
		return *l.Action
	}
	return otherwise
}
