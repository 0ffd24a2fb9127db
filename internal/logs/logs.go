// Package logs makes the program's log: lines for people on a terminal, JSON
// for programs everywhere else, and a level for every logger's name that can be
// changed while the program runs.
package logs

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Format is how lines are written.
type Format uint8

// The formats.
const (
	JSON Format = iota
	Text
	Coloured // Text for a terminal that shows colours
)

// New returns a logger that writes lines of at least the given level. The
// attribute NameKey, given by With, names a logger, whose level then is its own.
func New(w io.Writer, format Format, level slog.Leveler) *slog.Logger {
	levels := newLevels(level.Level())
	return slog.New(&handler{
		out:    &output{w: w, format: format, lines: sync.Pool{New: func() any { return new([]byte) }}},
		levels: levels,
		level:  levels.follow(""),
	})
}

// NameKey is the attribute that names a logger.
const NameKey = "logger"

// Named returns a logger of the given dotted name. Its level is that of the
// longest configured beginning of its name.
func Named(log *slog.Logger, name string) *slog.Logger { return log.With(NameKey, name) }

// LevelsOf returns the levels of a logger that New made; of any other, levels
// that nothing follows.
func LevelsOf(log *slog.Logger) *Levels {
	if h, ok := log.Handler().(*handler); ok {
		return h.levels
	}
	return newLevels(slog.LevelInfo)
}

// output is where all loggers write.
type output struct {
	format Format
	lines  sync.Pool

	mu sync.Mutex
	w  io.Writer
}

// append adds a line. It calls functions and not a value, so that neither record nor
// attributes have to be allocated.
func (o *output) append(line []byte, name string, attrs []slog.Attr, r *slog.Record) []byte {
	switch o.format {
	case Text:
		return appendReadable(line, "", name, attrs, r)
	case Coloured:
		return appendReadable(line, colourOf(r.Level), name, attrs, r)
	}
	return appendJSON(line, name, attrs, r)
}

// handler is one logger.
type handler struct {
	out    *output
	levels *Levels
	level  *slog.LevelVar
	name   string
	group  string
	attrs  []slog.Attr
}

// Enabled tells whether a line of this level is written.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// WithAttrs returns a logger whose lines all have these attributes.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clip(h.attrs)
	for _, a := range attrs {
		if a.Key == NameKey && h.group == "" {
			next.name = a.Value.String()
			next.level = h.levels.follow(next.name)
			continue
		}
		a.Key = h.group + a.Key
		next.attrs = append(next.attrs, a)
	}
	return &next
}

// WithGroup returns a logger whose attributes are named with the group in front.
func (h *handler) WithGroup(name string) slog.Handler {
	next := *h
	next.group += name + "."
	return &next
}

// longestLine is the largest buffer that is kept for the next line.
const longestLine = 16 << 10

// Handle writes one line in one write, or adds it to those that are written together.
func (h *handler) Handle(_ context.Context, r slog.Record) error { return h.write(&r, h.attrs) }

// WriteAttrs writes a line with these attributes. The level is not looked at. A line of
// a logger that New made is written without a copy of the attributes, which is why the
// access log calls this and not the logger.
func WriteAttrs(ctx context.Context, log *slog.Logger, at time.Time, level slog.Level, message string, attrs []slog.Attr) error {
	r := slog.NewRecord(at, level, message, 0)
	if h, ok := log.Handler().(*handler); ok && len(h.attrs) == 0 && h.group == "" {
		return h.write(&r, attrs)
	}
	r.AddAttrs(attrs...)
	return log.Handler().Handle(ctx, r)
}

// write writes a record with attributes that come before its own.
func (h *handler) write(r *slog.Record, attrs []slog.Attr) error {
	line := h.out.lines.Get().(*[]byte)
	*line = h.out.append((*line)[:0], h.name, attrs, r)
	var err error
	if b, ok := h.out.w.(*Batch); ok {
		b.add(*line, h.name != Access)
	} else {
		h.out.mu.Lock()
		_, err = h.out.w.Write(*line)
		h.out.mu.Unlock()
	}
	if cap(*line) <= longestLine {
		h.out.lines.Put(line)
	}
	return err
}
