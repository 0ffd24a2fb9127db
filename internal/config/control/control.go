// Package control is the one writer of the configuration. Every change, wherever
// it comes from, goes through Control.enact, which validates and compiles a
// document, publishes and saves it as a version, and only then puts it into force.
//
// In the order in which to read it:
//   - control.go: what is in force, and what guards it
//   - enact.go: the steps of a change, which are always the same
//   - transfer.go: what differs in these steps where gateways share the configuration
//   - local.go, sharedlog.go: the log of versions in the data directory, which every gateway
//     has, and the one in a database that gateways share; package versions says what they
//     are, how they are encrypted and signed, and what becomes of what is not
//   - open.go, apply.go, file.go, shared.go: where changes come from, which is the start,
//     management, the configuration file and other gateways
//   - configfile.go, source.go, terms.go: what the file last said, and what an edit of it is
//   - values.go, holds.go: what gateways share beside the versions
//   - diff.go, diff_terms.go, diff_file.go, said.go: what a change changed, in words and as
//     codes
package control

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
)

// Control owns the configuration in force.
type Control struct {
	log *slog.Logger

	// What is in force. Both are replaced whole, by whoever has the lock, and read without
	// it, so that reading never waits for a change that is being written.
	current *routing.Current
	state   atomic.Pointer[state]

	// mu serialises changes. A change has it from its first look at what is in force until
	// it is in force itself, also while it writes to the disk and to the database. It
	// guards all that follows, except for what the types name. Requests never take it.
	mu     sync.Mutex
	local  localLog
	file   configFile
	shared *sharedLog // nil where the configuration is not shared; its Values take mu, too
	holds  holds
	// signsExisting says that what is stored without signatures is signed once.
	signsExisting bool
	// warned is the table whose faults were logged last, and isPassing says that what
	// comes into force is replaced at once, so that its faults are nobody's concern.
	warned    *routing.Table
	isPassing bool
	// termsChanged is called with the terms in force when they change.
	termsChanged func(access.TermSet)
}

// state is a configuration in force. It is never changed.
type state struct {
	doc     *config.Document
	version int
	since   routing.Since
	// terms are those of the version; nil means that those of the configuration file are
	// in force.
	terms *access.TermSet
	// activations are when versions came into force on this gateway, the latest last.
	activations []Activation
}

// stateOf returns the state that has the services and terms of a version. If the version is
// not signed, those of the store and of these logs vouch for the addresses that they have.
func (c *Control) stateOf(v *Version, logs ...Log) *state {
	now := c.state.Load()
	if v.IsUnsigned() {
		c.log.Warn("a version without a signature comes into force: a gateway of an earlier release has written it, or somebody who does not have the master key", "version", v.Number)
	}
	next := &state{doc: now.doc.Clone(), version: v.Number, since: v.Since(), terms: v.Terms, activations: now.activations}
	next.doc.Services = versions.Judge(v, c.file.services, c.file.references, append(logs, c.local.store)...)
	next.doc.Security = next.doc.Security.WithTerms(c.termsOf(v))
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
