package logs

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
)

// terminal writes one short line per record: time, level, message, then what
// belongs to it. A request gets the form in which people read requests.
type terminal struct {
	out   io.Writer
	level slog.Leveler
	attrs []slog.Attr
	mu    sync.Mutex
}

func (t *terminal) Enabled(_ context.Context, level slog.Level) bool { return level >= t.level.Level() }

func (t *terminal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &terminal{out: t.out, level: t.level, attrs: append(t.attrs[:len(t.attrs):len(t.attrs)], attrs...)}
}

// WithGroup ignores groups: nothing here logs in groups, and a terminal has no
// use for them.
func (t *terminal) WithGroup(string) slog.Handler { return t }

// Handle writes one record.
func (t *terminal) Handle(_ context.Context, r slog.Record) error {
	line := make([]byte, 0, 256)
	line = r.Time.AppendFormat(line, "15:04:05 ")
	line = append(line, r.Level.String()...)
	for n := len(r.Level.String()); n < len("ERROR "); n++ {
		line = append(line, ' ')
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs, t.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	if r.Message == "request" {
		line = appendRequest(line, attrs)
	} else {
		line = append(line, r.Message...)
		for _, a := range attrs {
			line = appendAttr(line, a)
		}
	}
	line = append(line, '\n')
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.out.Write(line)
	return err
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

// plain quotes what would break out of its line: clients choose some of it.
func plain(text string) string {
	for _, c := range text {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return strconv.Quote(text)
		}
	}
	return text
}
