package calls

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Level is a degradation level: it says which part of the records is dropped to
// keep monitoring cheap.
type Level uint8

// The levels, from everything to nothing.
const (
	LevelNormal Level = iota
	LevelPartial
	LevelMinimal
	LevelDisabled

	levelCount = int(LevelDisabled) + 1
	undecided  = Level(levelCount)
)

var levels = [levelCount]struct {
	name, description string
	share             float64
}{
	{"NORMAL", "Normal mode: every call that is sampled is recorded", 1},
	{"PARTIAL", "Partial degradation: half of the sampled calls are recorded", 0.5},
	{"MINIMAL", "Minimal mode: a tenth of the sampled calls is recorded", 0.1},
	{"DISABLED", "Disabled mode: no calls are recorded; counts go on", 0},
}

// String returns the name in capitals.
func (l Level) String() string { return levels[l].name }

// Description explains the level in a sentence.
func (l Level) Description() string { return levels[l].description }

// Share returns the part of the sampled calls that is recorded.
func (l Level) Share() float64 { return levels[l].share }

// ParseLevel reads a name in any case.
func ParseLevel(name string) (Level, error) {
	known := make([]string, levelCount)
	for i, level := range levels {
		if strings.EqualFold(name, level.name) {
			return Level(i), nil
		}
		known[i] = level.name
	}
	return 0, fmt.Errorf("unknown level %q (known: %s)", name, strings.Join(known, ", "))
}

// degradation is the level in force. In automatic mode it follows the number of
// degraded components; a level that was set by hand stays until that number
// asks for another level than it did before.
type degradation struct {
	mu sync.Mutex
	DegradationStatus
	wanted Level // the last wish of the components, or undecided
}

// DegradationStatus is the level in force at one moment.
type DegradationStatus struct {
	Level   Level
	Auto    bool
	Changed time.Time
}

func (d *degradation) status() DegradationStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.DegradationStatus
}

func (d *degradation) set(level Level, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.become(level, now)
}

// setAuto turns automatic mode on or off. After it was turned on, the next call of
// follow sets the level.
func (d *degradation) setAuto(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if on && !d.Auto {
		d.wanted = undecided
	}
	d.Auto = on
}

// recover returns to normal, whatever was before.
func (d *degradation) recover(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Level, d.wanted, d.Changed = LevelNormal, LevelNormal, now
}

// follow adapts the level to the number of degraded components.
func (d *degradation) follow(degraded int, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wanted := Level(min(degraded, int(LevelDisabled)))
	if !d.Auto || wanted == d.wanted {
		return
	}
	d.wanted = wanted
	d.become(wanted, now)
}

func (d *degradation) become(level Level, now time.Time) {
	if d.Level != level {
		d.Level, d.Changed = level, now
	}
}
