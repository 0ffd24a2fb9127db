package quota

import (
	"bytes"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Timeout is a duration that is clamped to the supported range. So a fraction of
// a millisecond is accepted here, unlike in other durations.
type Timeout schema.Duration

// Std returns t as a time.Duration.
func (t Timeout) Std() time.Duration { return time.Duration(t) }

// String prints t with its unit.
func (t Timeout) String() string { return t.Std().String() }

// MarshalText prints t with its unit.
func (t Timeout) MarshalText() ([]byte, error) { return schema.Duration(t).MarshalText() }

// MarshalJSON writes whole milliseconds.
func (t Timeout) MarshalJSON() ([]byte, error) { return schema.Duration(t).MarshalJSON() }

// UnmarshalJSON reads milliseconds, or a string with a unit.
func (t *Timeout) UnmarshalJSON(data []byte) error {
	return t.UnmarshalText(bytes.Trim(data, `"`))
}

// UnmarshalText reads milliseconds, or a length with a unit, which is rounded up
// to a whole millisecond.
func (t *Timeout) UnmarshalText(text []byte) error {
	if exact, err := time.ParseDuration(string(text)); err == nil && exact > 0 {
		exact = min(exact, maxTimeout.Std()) // a longer time could overflow below
		*t = Timeout((exact + time.Millisecond - 1).Truncate(time.Millisecond))
		return nil
	}
	return (*schema.Duration)(t).UnmarshalText(text)
}
