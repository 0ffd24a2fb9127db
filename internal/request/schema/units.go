package schema

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
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
			return say.Error("field.duration_range", "found", ms)
		}
		*d = Duration(time.Duration(ms) * time.Millisecond)
		return nil
	}
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return say.Error("field.duration_plain")
	}
	if parsed < 0 {
		return say.Error("field.negative")
	}
	if parsed%time.Millisecond != 0 {
		return say.Error("field.whole_ms")
	}
	*d = Duration(parsed)
	return nil
}

// Bytes is a size. It is read as a plain number of bytes or with a unit, decimal
// (kB, MB, GB) or binary (KiB, MiB, GiB).
type Bytes int64

// The binary units.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

// String prints the size in the largest binary unit that divides it.
func (b Bytes) String() string {
	switch {
	case b == 0:
		return "0"
	case b%GiB == 0:
		return strconv.FormatInt(int64(b/GiB), 10) + "GiB"
	case b%MiB == 0:
		return strconv.FormatInt(int64(b/MiB), 10) + "MiB"
	case b%KiB == 0:
		return strconv.FormatInt(int64(b/KiB), 10) + "KiB"
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText prints the size as String does.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads a whole number with an optional unit.
func (b *Bytes) UnmarshalText(text []byte) error {
	written := strings.ToLower(strings.TrimSpace(string(text)))
	digits := strings.TrimRight(written, "bgikm")
	unit, known := byteUnit(written[len(digits):])
	count, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
	if err != nil || !known {
		return say.Error("field.size")
	}
	if count > math.MaxInt64/uint64(unit) {
		return say.Error("field.too_large")
	}
	*b = Bytes(count) * unit
	return nil
}

func byteUnit(suffix string) (Bytes, bool) {
	switch suffix {
	case "", "b":
		return 1, true
	case "kb":
		return 1000, true
	case "mb":
		return 1000 * 1000, true
	case "gb":
		return 1000 * 1000 * 1000, true
	case "kib":
		return KiB, true
	case "mib":
		return MiB, true
	case "gib":
		return GiB, true
	}
	return 0, false
}
