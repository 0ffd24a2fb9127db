package quota

import "github.com/patchbay-ai/patchbay/internal/request/schema"

// Sync is when the journal is synced to the disk. It matters when the machine
// fails; a crash of the process loses nothing in any case.
type Sync = schema.Choice[journalSync]

type journalSync struct{}

func (journalSync) Names() []string { return []string{"1s", "always", "off"} }

// The choices: once a second, with every request, or left to the operating system.
const (
	SyncEverySecond Sync = iota
	SyncAlways
	SyncOff
)
