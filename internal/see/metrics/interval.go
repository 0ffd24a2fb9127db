package metrics

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Interval is a length of time that is written as an ISO 8601 duration such as
// PT30S. It is read with a unit ("30s") too.
type Interval time.Duration

// Std returns the interval as a time.Duration.
func (i Interval) Std() time.Duration { return time.Duration(i) }

// String prints the interval in ISO 8601, with hours as the largest unit.
func (i Interval) String() string {
	if i == 0 {
		return "PT0S"
	}
	rest := time.Duration(i)
	sign := ""
	if rest < 0 {
		sign, rest = "-", -rest
	}
	var out strings.Builder
	out.WriteString(sign + "PT")
	if hours := rest / time.Hour; hours > 0 {
		out.WriteString(strconv.FormatInt(int64(hours), 10) + "H")
	}
	if minutes := rest % time.Hour / time.Minute; minutes > 0 {
		out.WriteString(strconv.FormatInt(int64(minutes), 10) + "M")
	}
	if part := rest % time.Minute; part > 0 {
		nanos := strconv.FormatInt(int64(time.Second+part%time.Second), 10)[1:]
		fraction := strings.TrimRight(nanos, "0")
		out.WriteString(strconv.FormatInt(int64(part/time.Second), 10))
		if fraction != "" {
			out.WriteString("." + fraction)
		}
		out.WriteString("S")
	}
	return out.String()
}

// MarshalText prints the interval in ISO 8601.
func (i Interval) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads an ISO 8601 duration, or a length of time with a unit. It
// refuses zero.
func (i *Interval) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		*i, err = ParseISO8601(string(text))
		return err
	}
	if parsed <= 0 {
		return errIntervalEmpty
	}
	*i = Interval(parsed)
	return nil
}

// ParseISO8601 reads an ISO 8601 duration such as PT30S, and nothing else. It
// refuses zero.
func ParseISO8601(text string) (Interval, error) {
	rest, found := strings.CutPrefix(strings.ToUpper(text), "P")
	if !found {
		return 0, errIntervalShape
	}
	parsed, err := parseISO(rest)
	if err != nil {
		return 0, err
	}
	if parsed == 0 {
		return 0, errIntervalEmpty
	}
	return Interval(parsed), nil
}

var (
	errIntervalShape = errors.New(`want an ISO 8601 duration such as "PT30S" or "PT1M30S"`)
	errIntervalLong  = errors.New("is too long")
	errIntervalEmpty = errors.New("must be longer than 0")
)

// parseISO reads the text after the P: days, then after a T hours, minutes and seconds,
// each at most once and in this order. It refuses years and months, which have no fixed
// length, and weeks, which may not be combined with other units.
func parseISO(rest string) (time.Duration, error) {
	date, clock, hasClock := strings.Cut(rest, "T")
	if date == "" && clock == "" || hasClock && clock == "" {
		return 0, errIntervalShape
	}
	total, err := addISOParts(0, date, "D")
	if err != nil {
		return 0, err
	}
	return addISOParts(total, clock, "HMS")
}

func addISOParts(total time.Duration, text, units string) (time.Duration, error) {
	for text != "" {
		end := strings.IndexFunc(text, func(r rune) bool { return r >= 'A' && r <= 'Z' })
		if end < 1 {
			return 0, errIntervalShape
		}
		at := strings.IndexByte(units, text[end])
		if at < 0 {
			return 0, errIntervalShape
		}
		part, err := isoPart(text[:end], text[end])
		if err != nil {
			return 0, err
		}
		if total += part; total < 0 {
			return 0, errIntervalLong
		}
		text, units = text[end+1:], units[at+1:]
	}
	return total, nil
}

func isoPart(amount string, unit byte) (time.Duration, error) {
	whole, fraction, hasFraction := strings.Cut(strings.Replace(amount, ",", ".", 1), ".")
	if hasFraction && (unit != 'S' || fraction == "" || len(fraction) > 9) {
		return 0, errIntervalShape
	}
	length := isoUnit(unit)
	count, err := strconv.ParseUint(whole, 10, 63)
	if err != nil {
		return 0, errIntervalShape
	}
	if count > uint64(1<<63-1)/uint64(length) {
		return 0, errIntervalLong
	}
	part := time.Duration(count) * length
	if !hasFraction {
		return part, nil
	}
	nanos, err := strconv.ParseUint(fraction+strings.Repeat("0", 9-len(fraction)), 10, 63)
	if err != nil {
		return 0, errIntervalShape
	}
	if part += time.Duration(nanos); part < 0 {
		return 0, errIntervalLong
	}
	return part, nil
}

func isoUnit(unit byte) time.Duration {
	switch unit {
	case 'D':
		return 24 * time.Hour
	case 'H':
		return time.Hour
	case 'M':
		return time.Minute
	}
	return time.Second
}
