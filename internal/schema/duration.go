package schema

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Duration is a length of time that people write as a whole number of
// milliseconds or with a unit ("30s", "1m30s"), and that JSON carries as
// milliseconds. Fractions of a millisecond are refused, because JSON would lose them.
type Duration time.Duration

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String prints d with its unit.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText prints d with its unit.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MarshalJSON writes whole milliseconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(d).Milliseconds(), 10), nil
}

// UnmarshalJSON reads milliseconds, or a string with a unit.
func (d *Duration) UnmarshalJSON(data []byte) error {
	if len(data) >= 2 && data[0] == '"' {
		data = data[1 : len(data)-1]
	}
	return d.UnmarshalText(data)
}

// UnmarshalText reads milliseconds, or a length with a unit.
func (d *Duration) UnmarshalText(text []byte) error {
	const maxMillis = int64(^uint64(0)>>1) / int64(time.Millisecond)
	if ms, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		if ms < 0 || ms > maxMillis {
			return fmt.Errorf("%d ms is out of range", ms)
		}
		*d = Duration(time.Duration(ms) * time.Millisecond)
		return nil
	}
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return errors.New(`want milliseconds or a length of time such as "30s" or "1m30s"`)
	}
	if parsed < 0 {
		return errors.New("must not be negative")
	}
	if parsed%time.Millisecond != 0 {
		return errors.New("must be a whole number of milliseconds")
	}
	*d = Duration(parsed)
	return nil
}
