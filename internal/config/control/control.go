// Package control is the one writer of the configuration. Every change, wherever it comes
// from, goes through Control.enact, which validates and compiles a document, publishes
// and saves it as a version, and only then puts it into force.
//
// Read the files in this order:
//   - control.go: the state in force, and its lock
//   - enact.go: the steps of a change, which are always the same
//   - transfer.go: how these steps differ where gateways share the configuration
//   - local.go, sharedlog.go: the log of versions in the data directory, which every gateway
//     has, and the one in a database that gateways share; package versions defines them, how
//     they are encrypted and signed, and how the gateway treats unsigned versions
//   - open.go, apply.go, file.go, shared.go: the sources of changes, which are the start,
//     management, the configuration file and other gateways
//   - configfile.go, source.go, terms.go, managed.go: the last content of the file, and edits of it
//   - values.go, holds.go: values that gateways share beside the versions
//   - said.go: the changes of a version as codes; package differences finds them
package control

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// Control owns the configuration in force.
type Control struct {
	log *slog.Logger

	// The state in force. Both values are replaced whole, under the lock, and read
	// without it: a reader never waits for a change that is being written.
	current *routing.Current
	state   atomic.Pointer[state]

	// mu serialises changes. A change holds it from its first look at the state in force
	// until it is in force itself, also while it writes to the disk and to the database.
	// It guards all fields below, except where a type names another lock. Requests never
	// take it.
	mu     sync.Mutex
	local  localLog
	file   configFile
	shared *sharedLog // nil where the configuration is not shared; its Values take mu, too
	holds  holds
	// warned is the table that the last logged faults belong to. isPassing says that the
	// next table is replaced at once: its faults are not worth a line.
	warned    *routing.Table
	isPassing bool
	// termsChanged is called with the terms in force when they change, managedChanged when a
	// section changes that management can change.
	termsChanged   func(access.TermSet)
	managedChanged func()
}

// state is a configuration in force. It is never changed.
type state struct {
	doc     *config.Document
	version int
	since   routing.Since
	// terms belong to the version; nil means that the terms of the configuration file are
	// in force.
	terms *access.TermSet
	// settings are the sections of the version. All others are those of the configuration file.
	settings config.Managed
	// activations are when versions came into force on this gateway, the latest last.
	activations []Activation
}

// stateOf returns the state that has the services and terms of a version.
func (c *Control) stateOf(v *Version) *state {
	now := c.state.Load()
	if v.IsUnconfirmed() {
		c.log.Warn("a version of an unsigned backup comes into force: its secrets are not sent until patchbay restore "+
			"--confirm, or until an ADMIN gives each anew", "version", v.Number)
	}
	next := &state{doc: now.doc.Clone(), version: v.Number, since: v.Since(), terms: v.Terms,
		activations: now.activations}
	next.doc.Services = v.Services
	next.doc.Security.Settings = next.doc.Security.WithTerms(c.termsOf(v))
	next.settings = c.usable(v)
	next.doc.TakeManaged(*c.file.managed.Load())
	next.doc.TakeManaged(next.settings)
	return next
}

// Origins of versions.
const (
	FromFile   = "file"
	FromReload = "reload"
	FromAPI    = "api"
	FromReset  = "reset"
	// FromConsole is a change by the API that a person made in the console.
	FromConsole = "console"
)

// system is the author of changes that no person made over the API.
const system = "system"

// Version returns the number of the version in force.
func (c *Control) Version() int { return c.state.Load().version }

// Revision returns the state of the shared configuration that is in force, which rises
// with every change; 0 where nothing is shared or nothing was read yet.
func (c *Control) Revision() int64 { return c.local.revision.Load() }

// Document returns the configuration in force, which must not be changed, and its
// version.
func (c *Control) Document() (*config.Document, int) {
	now := c.state.Load()
	return now.doc, now.version
}
