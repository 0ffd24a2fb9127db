// Package control is the one writer of the configuration. Every change, wherever
// it comes from, goes through Control.enact, which validates and compiles a
// document, publishes and saves it as a version, and only then puts it into force.
package control

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/seal"
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

// Open puts the version into force that was current when the gateway stopped. If the
// services of the configuration file have changed since it was last read, the
// difference is applied as a new version.
func Open(store Store, doc *config.Document, current *routing.Current, log *slog.Logger) (*Control, error) {
	return open(store, doc, current, log, nil)
}

func open(store Store, doc *config.Document, current *routing.Current, log *slog.Logger, shared Shared) (*Control, error) {
	keys, err := seal.New(doc.Security.MasterKey, doc.Security.PreviousMasterKey)
	if err != nil {
		return nil, fmt.Errorf("security.master-key: %w", err)
	}
	sealing := sealedStore{store, keys}
	if count, err := sealing.rewrite(); err != nil {
		return nil, err
	} else if count > 0 {
		log.Info("the secrets of stored versions are encrypted now", "versions", count, "key", keys.ID())
	}
	store = sealing
	file := appliedFileOf(doc)
	c := &Control{local: localLog{store: store, log: log}, current: current, log: log, holds: holds{}}
	c.file.applied = file
	c.file.setRead(doc)
	if shared != nil {
		c.shared = newSharedLog(shared, keys, &c.mu, log)
	}
	numbers, err := store.Versions()
	if err != nil {
		return nil, fmt.Errorf("versions: %w", err)
	}
	head, damage := store.Head()
	if errors.Is(damage, ErrMasterKey) {
		return nil, damage
	}
	c.state.Store(&state{doc: doc.Clone(), activations: head.Activations})
	c.local.newest = max(head.Version, head.Newest)
	if len(numbers) > 0 {
		c.local.newest = max(c.local.newest, numbers[len(numbers)-1])
	}
	if damage != nil {
		log.Warn("the record of the current version cannot be read; taking the newest version that can", "error", damage)
		head.Source = c.file.applied.source // whether the file has changed is not known; assuming that it has not loses no edit
		head.Position = Position{}
	}
	isEdited := len(numbers) > 0 && !isSource(head.Source, doc)
	if isEdited {
		c.file.applied = lastApplied(store, head, numbers)
	}
	isInForce, err := c.resume(head.Version, numbers, damage == nil)
	switch {
	case err != nil:
		return nil, err
	case !isInForce:
		return c, c.takeFirst(file, numbers)
	case !c.resumeLog(head, doc) && isEdited:
		_, err = c.takeFile(unshared{&c.local}, doc, FromFile)
	}
	return c, err
}

// takeFirst makes a version of the configuration file, where no stored version can be
// used.
func (c *Control) takeFirst(file appliedFile, numbers []int) error {
	if len(numbers) > 0 {
		c.log.Warn("no stored version can be read; the configuration file becomes a new one", "version", c.local.newest+1)
	}
	c.file.applied = file
	p, _, err := c.propose(c.state.Load().doc, nil, Change{Origin: FromFile, Author: system, Summary: "read from the configuration file"})
	if err != nil {
		return err
	}
	p.check = validateStored // the file was validated when it was read
	return c.enact(unshared{&c.local}, p)
}

// resume puts a stored version into force: the wanted one or, if that cannot be used,
// the newest one that can. It does not remove versions that cannot be used. It returns
// false if none can be used.
func (c *Control) resume(wanted int, numbers []int, isCurrent bool) (bool, error) {
	candidates := slices.DeleteFunc(slices.Clone(numbers), func(number int) bool { return number == wanted })
	if wanted != 0 {
		candidates = append(candidates, wanted)
	}
	for _, number := range slices.Backward(candidates) {
		v, err := c.local.store.Load(number)
		if errors.Is(err, ErrMasterKey) {
			return false, err
		}
		if err == nil {
			err = c.enact(unshared{&c.local}, &proposal{next: c.stateOf(v), check: validateStored, isCurrent: isCurrent})
			var problems config.Problems
			if err != nil && !errors.As(err, &problems) {
				return false, fmt.Errorf("version %d: %w", number, err)
			}
		}
		if err == nil {
			if number != wanted {
				c.log.Warn("another version takes its place", "version", number)
			}
			return true, nil
		}
		c.log.Warn("a stored version cannot be used", "version", number, "error", err)
	}
	return false, nil
}

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
