// Package versions defines a version of the configuration and a log of versions. It
// decides how the secrets in a log are encrypted and its records signed.
//
// Read the files in this order: version.go and log.go define the stored records,
// sealed.go their encryption and signatures, rekey.go their change of the master key, and unconfirmed.go the
// versions of an unsigned backup.
package versions

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// ErrNoVersion means that there is no version of that number.
var ErrNoVersion = errors.New("there is no such version")

// NoVersion returns the error about a version that does not exist.
func NoVersion(number any) error {
	return say.Wrap(ErrNoVersion, "manage.no_version", "version", number)
}

// Log is a log of versions: numbered states of the services, and a head that
// says which of them is current.
type Log interface {
	// Head returns the head. An empty log has the zero Head.
	Head() (Head, error)
	SetHead(Head) error
	// Versions returns the numbers of all versions in order.
	Versions() ([]int, error)
	// Load returns a version, or ErrNoVersion.
	Load(number int) (*Version, error)
	// Save adds a version. A Store replaces the one that has its number; a shared
	// log refuses to, because only a wrong head leads there.
	Save(v *Version) error
	// Remove removes versions, with their signatures.
	Remove(numbers ...int) error
	// Signature returns the signature of a record, empty where there is none, and
	// SetSignature stores it, or removes it where it is empty.
	Signature(of Record) (string, error)
	SetSignature(of Record, signature string) error
}

// Record is a signed part of a log: a version by its number, or RecordHead.
type Record int

// RecordHead is the head of a log.
const RecordHead Record = 0

// Head describes a log.
type Head struct {
	// Version is the current version.
	Version int `json:"version"`
	// Newest is the highest number that was ever used. It is not used again, even if
	// the version that had it was removed.
	Newest int `json:"newest"`
	// Source identifies the services of the configuration file when a gateway last
	// read it: the file is applied again only if they have changed.
	Source string `json:"source"`
	// File has these services, without defaults. A shared log does not have it.
	File jsontext.Value `json:"file,omitzero"`
	// FileSettings are the sections of that file that management can change. A shared log does
	// not have them.
	FileSettings config.Managed `json:"fileSettings,omitzero"`
	// Activations are when versions came into force on this gateway, the latest last. A
	// shared log does not have them.
	Activations []Activation `json:"activations,omitzero"`
	// Position is the state of the shared log that this head belongs to. It is zero for a
	// gateway that shares nothing.
	Position
}

// Restored is the Source of a head that was restored from a backup: what the configuration
// file said then need not be what it says here. The file counts as applied, as it is at the
// next start.
const Restored = "restored"

// Activation is the moment that a version came into force on this gateway: when it was
// made, or later, by a rollback.
type Activation struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	// By is the author, empty where another gateway activated the version and the author
	// is not known.
	By string `json:"by,omitzero"`
}

// Position is a point in the history of a shared log. Every write increments Revision.
type Position struct {
	Log      string `json:"log,omitzero"`
	Revision int64  `json:"revision,omitzero"`
}

// Store is the log in the data directory. Every write is complete or absent
// after a crash.
type Store interface {
	Log
	// Backup copies all versions into a new directory. It returns the path of the
	// directory and the names of the files in it. A dry run only returns the names.
	Backup(now time.Time, dryRun bool) (path string, files []string, err error)
}

// Shared is a log that several gateways follow. One Control uses it, and never
// from two goroutines at once, except for Listen.
type Shared interface {
	// Begin opens a transaction that sees the log at one moment or, to write, keeps
	// all other writers out. The context bounds all of it but the commit.
	Begin(ctx context.Context, write bool) (Transaction, error)
	// Listen returns a listener that is notified of every write.
	Listen(ctx context.Context) (Listener, error)
	// Close closes the connection. The next Begin opens it again.
	Close()
}

// Transaction is a transaction on a shared log.
type Transaction interface {
	Log
	// Initialise gives an empty log its first head. It reports false if another
	// gateway was faster.
	Initialise(first Head) (bool, error)
	// NewestValue returns the number of the last change of a value, 0 where there
	// was none, and Values the values that changed after a change.
	NewestValue() (int64, error)
	Values(since int64) (map[string][]byte, error)
	// PutValue stores a value as the change with this number.
	PutValue(name string, revision int64, value []byte) error
	RemoveValue(name string) error
	// ValueSignatures returns the signatures of values by their names, and
	// SetValueSignature stores one, or removes it where it is empty.
	ValueSignatures() (map[string]string, error)
	SetValueSignature(name, signature string) error
	// Commit commits, and notifies all listeners.
	Commit() error
	// End rolls back an uncommitted transaction.
	End()
}

// Listener is notified of writes to a shared log.
type Listener interface {
	// Wait returns when the log was written or the context has ended. An error
	// means that the listener is not notified any more.
	Wait(ctx context.Context) error
	Close()
}
