package quota

import "github.com/patchbay-ai/patchbay/internal/request/schema"

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
func (s Sync) String() string { return schema.NameOf(s, syncNames[:]) }

// MarshalText writes the name.
func (s Sync) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name in any case.
func (s *Sync) UnmarshalText(text []byte) error {
	return schema.ReadName(s, "choice", string(text), syncNames[:])
}
