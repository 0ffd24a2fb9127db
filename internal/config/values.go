package config

import (
	"errors"
	"fmt"
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

// LogLevel is how much is logged.
type LogLevel string

// The log levels.
const (
	LevelDebug LogLevel = "debug"
	LevelInfo  LogLevel = "info"
	LevelWarn  LogLevel = "warn"
	LevelError LogLevel = "error"
)

// Names returns the name of every level.
func (LogLevel) Names() []string {
	return []string{string(LevelDebug), string(LevelInfo), string(LevelWarn), string(LevelError)}
}

// UnmarshalText reads a level in any case.
func (l *LogLevel) UnmarshalText(text []byte) error {
	name, err := oneOf("log level", string(text), l.Names())
	if err != nil {
		return err
	}
	*l = LogLevel(name)
	return nil
}

// LogFormat is the shape of log lines.
type LogFormat string

// The log formats. Auto is text on a terminal and JSON elsewhere.
const (
	FormatAuto LogFormat = "auto"
	FormatText LogFormat = "text"
	FormatJSON LogFormat = "json"
)

// Names returns the name of every format.
func (LogFormat) Names() []string {
	return []string{string(FormatAuto), string(FormatText), string(FormatJSON)}
}

// UnmarshalText reads a format in any case.
func (f *LogFormat) UnmarshalText(text []byte) error {
	name, err := oneOf("log format", string(text), f.Names())
	if err != nil {
		return err
	}
	*f = LogFormat(name)
	return nil
}

func oneOf(noun, written string, names []string) (string, error) {
	for _, name := range names {
		if strings.EqualFold(written, name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("unknown %s %q (known: %s)", noun, written, strings.Join(names, ", "))
}
