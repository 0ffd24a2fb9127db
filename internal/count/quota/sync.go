package quota

import (
	"fmt"
	"strings"
)

// Sync is when the journal is synced to the disk. It matters when the machine
// fails; a crash of the process loses nothing in any case.
type Sync uint8

// The choices: once a second, with every request, or left to the operating system.
const (
	SyncEverySecond Sync = iota
	SyncAlways
	SyncOff
)

var syncNames = [...]string{"1s", "always", "off"}

// Names returns the name of every choice.
func (Sync) Names() []string { return append([]string(nil), syncNames[:]...) }

// String returns the name.
func (s Sync) String() string {
	if int(s) >= len(syncNames) {
		return fmt.Sprintf("Sync(%d)", uint8(s))
	}
	return syncNames[s]
}

// MarshalText writes the name.
func (s Sync) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name in any case.
func (s *Sync) UnmarshalText(text []byte) error {
	for i, known := range syncNames {
		if strings.EqualFold(string(text), known) {
			*s = Sync(i)
			return nil
		}
	}
	return fmt.Errorf("unknown choice %q (known: %s)", text, strings.Join(syncNames[:], ", "))
}
