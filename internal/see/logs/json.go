package logs

import (
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
	line = r.Time.UTC().AppendFormat(line, time.RFC3339Nano)
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
			return strconv.AppendFloat(line, f, 'f', -1, 64)
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

// appendQuoted writes a text as a JSON string. It replaces invalid UTF-8. Nearly all texts of a line
// are plain, and a plain text is copied as it is.
func appendQuoted(line []byte, text string) []byte {
	if isPlain(text) {
		line = append(append(line, '"'), text...)
		return append(line, '"')
	}
	// The error says that invalid bytes were replaced, and they should be.
	line, _ = jsontext.AppendQuote(line, text)
	return line
}

// isPlain reports whether a JSON string has the text as it is.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
