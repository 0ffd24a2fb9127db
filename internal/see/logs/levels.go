package logs

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
)

// Root is the name of the logger that all others inherit from.
const Root = "ROOT"

// Audit is the name of the logger that writes down every change and its author. It has no
// level and inherits none: nobody may silence it.
const Audit = "audit"

// ErrNoLevel means that the lines of a logger are always written.
var ErrNoLevel = errors.New("the audit trail has no level: all of it is written, always")

// The levels that the standard library has no name for.
const (
	LevelTrace = slog.Level(-8)
	LevelOff   = slog.Level(math.MaxInt)
)

var levelNames = []string{"OFF", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"}

// LevelNames returns the names of the levels, the most silent first.
func LevelNames() []string { return slices.Clone(levelNames) }

// ParseLevel reads the name of a level in any case.
func ParseLevel(name string) (slog.Level, error) {
	switch strings.ToUpper(name) {
	case "OFF":
		return LevelOff, nil
	case "ERROR":
		return slog.LevelError, nil
	case "WARN":
		return slog.LevelWarn, nil
	case "INFO":
		return slog.LevelInfo, nil
	case "DEBUG":
		return slog.LevelDebug, nil
	case "TRACE":
		return LevelTrace, nil
	}
	return 0, fmt.Errorf("unknown level %q (known: %s)", name, strings.Join(levelNames, ", "))
}

// LevelName returns the name of a level.
func LevelName(l slog.Level) string {
	switch {
	case l == LevelOff:
		return "OFF"
	case l < slog.LevelDebug:
		return "TRACE"
	case l < slog.LevelInfo:
		return "DEBUG"
	case l < slog.LevelWarn:
		return "INFO"
	case l < slog.LevelError:
		return "WARN"
	}
	return "ERROR"
}

// maxConfigured bounds the names that can be given a level.
const maxConfigured = 1000

// Levels are the levels of all loggers. Names are dotted; a logger without a level of its
// own inherits the level of the longest beginning of its name that has one, and at last the
// level of Root.
type Levels struct {
	mu         sync.Mutex
	initial    slog.Level // of Root, at the start
	root       slog.Level
	configured map[string]slog.Level
	used       map[string]*slog.LevelVar // the levels of the loggers in use
}

func newLevels(root slog.Level) *Levels {
	return &Levels{initial: root, root: root, configured: map[string]slog.Level{}, used: map[string]*slog.LevelVar{}}
}

// follow returns the level of a name, which changes with it.
func (l *Levels) follow(name string) *slog.LevelVar {
	l.mu.Lock()
	defer l.mu.Unlock()
	level := l.used[name]
	if level == nil {
		level = new(slog.LevelVar)
		level.Set(l.effective(name))
		l.used[name] = level
	}
	return level
}

func (l *Levels) effective(name string) slog.Level {
	if isAudit(name) {
		return slog.LevelInfo
	}
	for name != "" {
		if level, ok := l.configured[name]; ok {
			return level
		}
		name = name[:max(0, strings.LastIndexByte(name, '.'))]
	}
	return l.root
}

// Names returns the names in use and the names with a level of their own, sorted, with Root
// first.
func (l *Levels) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[string]bool{}
	for name := range l.used {
		names[name] = name != ""
	}
	for name := range l.configured {
		names[name] = true
	}
	delete(names, "")
	return append([]string{Root}, slices.Sorted(maps.Keys(names))...)
}

// Level returns the level of a name, and whether it is its own.
func (l *Levels) Level(name string) (effective slog.Level, own bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isRoot(name) {
		return l.root, true
	}
	_, own = l.configured[name]
	return l.effective(name), own
}

// Set gives a name a level of its own. It takes effect with the next line.
func (l *Levels) Set(name string, level slog.Level) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch _, known := l.configured[name]; {
	case isAudit(name):
		return ErrNoLevel
	case isRoot(name):
		l.root = level
	case !known && len(l.configured) >= maxConfigured:
		return fmt.Errorf("more than %d loggers cannot have a level of their own", maxConfigured)
	default:
		l.configured[name] = level
	}
	l.apply()
	return nil
}

// Clear takes a name's own level away. Root inherits from nobody and gets back
// the level that it had at the start.
func (l *Levels) Clear(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isAudit(name) {
		return ErrNoLevel
	}
	if isRoot(name) {
		l.root = l.initial
	}
	delete(l.configured, name)
	l.apply()
	return nil
}

func (l *Levels) apply() {
	for name, level := range l.used {
		level.Set(l.effective(name))
	}
}

// isAudit ignores case: no other logger may look like the audit.
func isAudit(name string) bool { return strings.EqualFold(name, Audit) }

func isRoot(name string) bool { return strings.EqualFold(name, Root) }
