package logs

import (
	"log/slog"
	"strconv"
	"strings"
)

// Access is the name of the logger that writes a line per request.
const Access = "access"

// colourOf returns the sequence that begins the colour of a level.
func colourOf(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "\x1b[31m" // red
	case level >= slog.LevelWarn:
		return "\x1b[33m" // yellow
	case level >= slog.LevelInfo:
		return "\x1b[32m" // green
	}
	return "\x1b[2m" // faint
}

// appendReadable writes one short line: time, level, message, then the attributes. A
// request gets the form that people are used to. The level has a colour that catches the
// eye if there is one.
func appendReadable(line []byte, colour, name string, given []slog.Attr, r *slog.Record) []byte {
	line = r.Time.AppendFormat(line, "15:04:05 ")
	level := LevelName(r.Level)
	line = append(append(line, colour...), level...)
	if colour != "" {
		line = append(line, "\x1b[0m"...)
	}
	for n := len(level); n < len("ERROR "); n++ {
		line = append(line, ' ')
	}
	attrs := make([]slog.Attr, 0, 24)
	attrs = append(attrs, given...)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	if name == Access {
		return append(appendRequest(line, attrs), '\n')
	}
	line = append(line, r.Message...)
	if name != "" {
		line = appendAttr(line, slog.String(NameKey, name))
	}
	for _, a := range attrs {
		line = appendAttr(line, a)
	}
	return append(line, '\n')
}

// appendRequest writes "chat demo-chat -> a@… 200 412ms ttft=83ms 12+48 tokens req_9f3".
func appendRequest(line []byte, attrs []slog.Attr) []byte {
	get := func(key string) string {
		for _, a := range attrs {
			if a.Key == key {
				return a.Value.String()
			}
		}
		return ""
	}
	if service := get("service"); service != "" {
		line = append(line, service+" "+plain(get("model"))...)
		if instance := get("instance"); instance != "" {
			line = append(line, " -> "+plain(instance)...)
		}
	} else {
		line = append(line, get("method")+" "+plain(get("path"))...)
	}
	line = append(line, " "+get("status")+" "+get("duration_ms")+"ms"...)
	if first := get("ttft_ms"); first != "" {
		line = append(line, " ttft="+first+"ms"...)
	}
	if prompt := get("prompt_tokens"); prompt != "" {
		line = append(line, " "+prompt+"+"+get("completion_tokens")+" tokens"...)
	}
	if attempts := get("attempts"); attempts != "" && attempts != "1" && attempts != "0" {
		line = append(line, " attempts="+attempts...)
	}
	if code := get("error_code"); code != "" {
		line = append(line, " "+code...)
	}
	return append(line, " "+get("request_id")...)
}

func appendAttr(line []byte, a slog.Attr) []byte {
	line = append(line, ' ')
	line = append(line, a.Key...)
	line = append(line, '=')
	value := a.Value.Resolve().String()
	if value == "" || strings.ContainsAny(value, " \"=") || plain(value) != value {
		return strconv.AppendQuote(line, value)
	}
	return append(line, value...)
}

// plain quotes a text that would break out of its line: clients choose some of them.
func plain(text string) string {
	for _, c := range text {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return strconv.Quote(text)
		}
	}
	return text
}
