package breaker

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// State is what a breaker does with calls.
type State uint8

// The states. The zero value is the one that a breaker starts in.
const (
	Closed   State = iota // calls pass, failures in a row are counted
	Open                  // calls are refused until the recovery timeout is over
	HalfOpen              // a few calls pass as trials

	stateCount = int(HalfOpen) + 1
)

var stateNames = [stateCount]string{"CLOSED", "OPEN", "HALF_OPEN"}

// Names returns the name of every state.
func (State) Names() []string { return slices.Clone(stateNames[:]) }

// String returns the name in capitals.
func (s State) String() string { return schema.NameOf(s, stateNames[:]) }

// MarshalText writes the name in capitals.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Outcome is what a call that a breaker let pass says about its backend.
type Outcome uint8

// The outcomes. Cancelled says nothing: a trial is given back and no count
// changes. It also serves for replies that are no fault of the backend but no
// proof of its health either. Refused (nobody was at the address) and Reset (an
// established connection broke) are failures of which a health check can tell
// that they are over; see Reachable.
const (
	Success Outcome = iota
	Failure
	Cancelled
	Refused
	Reset
)

// Failed tells whether the outcome is one of the failures.
func (o Outcome) Failed() bool { return o == Failure || o == Refused || o == Reset }

// Mode says who decides about the state: the breaker or an operator.
type Mode uint8

// The modes. The zero value leaves the decision to the breaker.
const (
	Auto Mode = iota
	ForcedOpen
	ForcedClosed

	modeCount = int(ForcedClosed) + 1
)

var modeNames = [modeCount]string{"AUTO", "OPEN", "CLOSED"}

// String returns the name by which operators ask for the mode.
func (m Mode) String() string { return schema.NameOf(m, modeNames[:]) }

// MarshalText writes the name by which operators ask for the mode.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads OPEN, CLOSED or AUTO in any case.
func (m *Mode) UnmarshalText(text []byte) error {
	return schema.ReadName(m, "state", string(text), modeNames[:])
}
