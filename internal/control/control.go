// Package control is the one writer of the configuration. Every change, wherever
// it comes from, goes through Control.enact, which validates and compiles a
// document, publishes and saves it as a version, and only then puts it into force.
package control

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/routing"
)

// Control owns the configuration in force.
type Control struct {
	local   localLog
	current *routing.Current
	log     *slog.Logger

	// state is what is in force. It is replaced whole, so that reading it never
	// waits for a change that is being written.
	state atomic.Pointer[state]

	mu   sync.Mutex // serialises changes; requests never take it
	file configFile
	// termsChanged is called with the terms in force when they change.
	termsChanged func(access.TermSet)

	shared *sharedLog // nil where the configuration is not shared
	holds  holds      // guarded by mu, too
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

// stateOf returns the state that has the services and terms of a version.
func (c *Control) stateOf(v *Version) *state {
	now := c.state.Load()
	next := &state{doc: now.doc.Clone(), version: v.Number, since: v.since(), terms: v.Terms, activations: now.activations}
	next.doc.Services = v.Services
	next.doc.Security = next.doc.Security.WithTerms(c.termsOf(v))
	return next
}

// Origins of versions.
const (
	FromFile   = "file"
	FromReload = "reload"
	FromAPI    = "api"
	FromReset  = "reset"
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
