package metrics

import (
	"errors"
	"math"
	"regexp"
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

// iso8601 matches days, then after a T hours, minutes and seconds, each at most once. Years and
// months have no fixed length, and weeks may not be combined with other units.
var iso8601 = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d{1,9})?)S)?)?$`)

var (
	errIntervalShape = errors.New(`want an ISO 8601 duration such as "PT30S" or "PT1M30S"`)
	errIntervalLong  = errors.New("is too long")
	errIntervalEmpty = errors.New("must be longer than 0")
)

// ParseISO8601 reads an ISO 8601 duration such as PT30S, and nothing else. It
// refuses zero.
func ParseISO8601(text string) (Interval, error) {
	text = strings.ToUpper(text)
	parts := iso8601.FindStringSubmatch(text)
	if parts == nil || !strings.ContainsAny(text[len(text)-1:], "DHMS") {
		return 0, errIntervalShape
	}
	var total time.Duration
	for i, unit := range [...]time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		whole, fraction, _ := strings.Cut(strings.Replace(parts[i+1], ",", ".", 1), ".")
		if whole == "" {
			continue
		}
		count, err := strconv.ParseInt(whole, 10, 64)
		if err != nil || count > int64(math.MaxInt64/unit) {
			return 0, errIntervalLong
		}
		nanoseconds, _ := strconv.Atoi((fraction + "000000000")[:9]) // the pattern has digits only
		if total += time.Duration(count) * unit; total < 0 || total+time.Duration(nanoseconds) < 0 {
			return 0, errIntervalLong
		}
		total += time.Duration(nanoseconds)
	}
	if total == 0 {
		return 0, errIntervalEmpty
	}
	return Interval(total), nil
}
