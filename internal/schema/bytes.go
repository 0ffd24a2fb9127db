package schema

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

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
		return errors.New(`want a size such as "32MiB", "64KiB" or "1048576"`)
	}
	if count > math.MaxInt64/uint64(unit) {
		return errors.New("is too large")
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
