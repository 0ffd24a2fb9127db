// Package logs makes the program's log: lines for people on a terminal, JSON
// for programs everywhere else.
package logs

import (
	"io"
	"log/slog"
	"time"
)

// Format is how lines are written.
type Format uint8

// The formats.
const (
	JSON Format = iota
	Text
)

// New returns a logger that writes lines of at least the given level.
func New(w io.Writer, format Format, level slog.Leveler) *slog.Logger {
	if format == Text {
		return slog.New(&terminal{out: w, level: level})
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.String("ts", a.Value.Time().UTC().Format(time.RFC3339Nano))
			}
			return a
		},
	}))
}
