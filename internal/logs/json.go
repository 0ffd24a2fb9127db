package logs

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// appendJSON writes a record as one JSON object.
func appendJSON(line []byte, name string, attrs []slog.Attr, r *slog.Record) []byte {
	line = append(line, `{"ts":"`...)
	line = appendTime(line, r.Time)
	line = append(line, `","level":"`...)
	line = append(line, LevelName(r.Level)...)
	line = append(line, '"')
	if name != "" {
		line = appendQuoted(append(line, `,"logger":`...), name)
	}
	line = appendQuoted(append(line, `,"msg":`...), r.Message)
	for i := range attrs {
		line = appendMember(line, "", &attrs[i])
	}
	r.Attrs(func(a slog.Attr) bool {
		line = appendMember(line, "", &a)
		return true
	})
	return append(line, "}\n"...)
}

// appendTime writes a time as RFC 3339 has it, in UTC. The digits of the time of day
// are written here, because AppendFormat takes longer for them than the rest of a line.
func appendTime(line []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 1000 || year > 9999 {
		return t.AppendFormat(line, time.RFC3339Nano)
	}
	hour, minute, second := t.Clock()
	line = appendTwo(appendTwo(line, year/100), year%100)
	line = appendTwo(append(line, '-'), int(month))
	line = appendTwo(append(line, '-'), day)
	line = appendTwo(append(line, 'T'), hour)
	line = appendTwo(append(line, ':'), minute)
	line = appendTwo(append(line, ':'), second)
	if n := t.Nanosecond(); n > 0 {
		line = append(line, '.')
		for ; n > 0; n = n % 100_000_000 * 10 {
			line = append(line, byte('0'+n/100_000_000))
		}
	}
	return append(line, 'Z')
}

// appendTwo writes a number below 100 in two digits.
func appendTwo(line []byte, n int) []byte { return append(line, byte('0'+n/10), byte('0'+n%10)) }

// appendMember writes an attribute; the members of a group get its name in front.
func appendMember(line []byte, group string, a *slog.Attr) []byte {
	value := a.Value
	switch value.Kind() {
	case slog.KindLogValuer:
		return appendMember(line, group, &slog.Attr{Key: a.Key, Value: value.Resolve()})
	case slog.KindGroup:
		members := value.Group()
		for i := range members {
			line = appendMember(line, group+a.Key+".", &members[i])
		}
		return line
	}
	if a.Key == "" {
		return line
	}
	line = append(line, ',')
	if group != "" {
		line = appendQuoted(line, group+a.Key)
	} else {
		line = appendQuoted(line, a.Key)
	}
	line = append(line, ':')
	return appendValue(line, value)
}

func appendValue(line []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindString:
		return appendQuoted(line, v.String())
	case slog.KindInt64:
		return strconv.AppendInt(line, v.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(line, v.Uint64(), 10)
	case slog.KindBool:
		return strconv.AppendBool(line, v.Bool())
	case slog.KindFloat64:
		if f := v.Float64(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return appendFloat(line, f)
		}
	case slog.KindTime:
		return append(v.Time().UTC().AppendFormat(append(line, '"'), time.RFC3339Nano), '"')
	case slog.KindDuration:
		return appendQuoted(line, v.Duration().String())
	case slog.KindAny:
		if _, isError := v.Any().(error); isError {
			break
		}
		if encoded, err := json.Marshal(v.Any()); err == nil {
			return append(line, encoded...)
		}
	}
	return appendQuoted(line, fmt.Sprint(v.Any()))
}

// appendFloat writes a number. Those with no more than two decimals, which are all
// durations of requests, take a shorter way to the same text.
func appendFloat(line []byte, f float64) []byte {
	const most = 1e12
	hundredths := int64(f*100 + 0.5)
	if math.Signbit(f) || f > most || float64(hundredths)/100 != f {
		return strconv.AppendFloat(line, f, 'f', -1, 64)
	}
	line = strconv.AppendInt(line, hundredths/100, 10)
	switch rest := byte(hundredths % 100); {
	case rest == 0:
	case rest%10 == 0:
		line = append(line, '.', '0'+rest/10)
	default:
		line = append(line, '.', '0'+rest/10, '0'+rest%10)
	}
	return line
}

// appendQuoted writes a text; what is no UTF-8 in it is replaced.
func appendQuoted(line []byte, text string) []byte {
	if isPlainASCII(text) {
		return append(append(append(line, '"'), text...), '"')
	}
	// The error says that something was replaced, which is what should happen.
	line, _ = jsontext.AppendQuote(line, text)
	return line
}

// isPlainASCII tells whether a text needs no escapes. It looks at eight bytes at a time
// for those that are below a space, a quote, a backslash, or above the tilde.
func isPlainASCII(text string) bool {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	for len(text) >= 8 {
		eight := binary.LittleEndian.Uint64([]byte(text[:8]))
		quote, backslash := eight^'"'*ones, eight^'\\'*ones
		if (eight|(eight-' '*ones)|(eight+ones)|(quote-ones)&^quote|(backslash-ones)&^backslash)&highs != 0 {
			break // perhaps
		}
		text = text[8:]
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
