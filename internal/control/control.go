// Package control is the one writer of the configuration. Every change, from
// wherever it comes, is an edit of a copy of the document that is validated,
// compiled, saved as a version and only then put into force.
package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/adapter"
	"github.com/patchbay-ai/patchbay/internal/condition"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/routing"
)

// Control owns the configuration in force.
type Control struct {
	store   *Store
	current *routing.Current
	log     *slog.Logger

	// state is what is in force. It is replaced whole, so that reading it never
	// waits for a change that is being written.
	state atomic.Pointer[state]

	mu     sync.Mutex // serialises changes; requests never take it
	newest int        // the highest number ever used; numbers are not reused
	source string
	static Services // what the configuration file gave when it was read last

	// What follows is for gateways that share their configuration.
	shared    *Shared
	place     place               // where in the shared log this gateway is
	session   *session            // the transaction of the write that is under way
	waiting   *config.Document    // a configuration file that the log did not get yet
	following condition.Condition // of the database of the log
}

// state is a configuration in force. Nobody changes it.
type state struct {
	doc     *config.Document
	version int
	since   routing.Since
}

// Origins of versions.
const (
	FromFile   = "file"
	FromReload = "reload"
	FromAPI    = "api"
	FromReset  = "reset"
	FromImport = "import"
)

// system is the author of what no person asked for.
const system = "system"

// Open puts the right configuration into force: the version that was current at
// the last stop, unless the services of the configuration file changed since
// they were last read; then the file becomes a new version.
func Open(store *Store, doc *config.Document, current *routing.Current, log *slog.Logger) (*Control, error) {
	return openWith(store, doc, current, log, nil)
}

func openWith(store *Store, doc *config.Document, current *routing.Current, log *slog.Logger, shared *Shared) (*Control, error) {
	c := &Control{store: store, current: current, log: log, source: sourceOf(doc), static: doc.Clone().Services, shared: shared}
	c.state.Store(&state{doc: doc.Clone()})
	numbers, err := store.List()
	if err != nil {
		return nil, fmt.Errorf("versions: %w", err)
	}
	if len(numbers) > 0 {
		c.newest = numbers[len(numbers)-1]
	}
	last, damage := store.current()
	c.newest = max(c.newest, last.Version, last.Newest)
	if isSource(last.Source, doc) {
		last.Source = c.source
	}
	if damage != nil {
		log.Warn("the record of the current version cannot be read; taking the newest version that can", "error", damage)
		last.Source = c.source // whether the file changed since is not known; no edit is lost by thinking it did not
		last.Log = ""
	}
	c.recall(&last, doc)
	if len(numbers) == 0 || last.Source != c.source {
		if len(numbers) > 0 {
			log.Info("the configuration file changed since it was last read and becomes a new version", "version", c.newest+1)
		}
		return c, c.takeFile(c.newestReadable(last.Version, numbers, slog.LevelDebug))
	}
	version := c.newestReadable(last.Version, numbers, slog.LevelWarn)
	if version == nil {
		log.Warn("no stored version can be read; the configuration file becomes a new one", "version", c.newest+1)
		return c, c.takeFile(nil)
	}
	if damage != nil {
		if err := store.setCurrent(c.pointer(version.Number)); err != nil {
			return nil, fmt.Errorf("versions: %w", err)
		}
	}
	next := &state{doc: c.state.Load().doc.Clone(), version: version.Number, since: version.since()}
	next.doc.Services = version.Services
	table, err := routing.Compile(next.doc, nil, next.since)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", version.Number, err)
	}
	c.put(next, table)
	return c, nil
}

// takeFile makes a version of the configuration file. The version that was
// current, if any, lends the times at which its instances were added.
func (c *Control) takeFile(before *Version) error {
	now := *c.state.Load()
	if before != nil {
		now.since = before.since()
	}
	c.state.Store(&now)
	_, err := c.commit(now.doc, Change{Origin: FromFile, Author: system, Summary: "read from the configuration file"})
	return err
}

// newestReadable returns the wanted version or, if that cannot be read, the
// newest one that can. Files that cannot be read stay where they are.
func (c *Control) newestReadable(wanted int, numbers []int, level slog.Level) *Version {
	var candidates []int
	if wanted != 0 {
		candidates = append(candidates, wanted)
	}
	for _, number := range slices.Backward(numbers) {
		if number != wanted {
			candidates = append(candidates, number)
		}
	}
	for _, number := range candidates {
		v, err := c.store.Load(number)
		if err == nil {
			err = c.check(v)
		}
		if err == nil {
			if number != wanted {
				c.log.Log(context.Background(), level, "another version takes its place", "version", number)
			}
			return v
		}
		c.log.Log(context.Background(), level, "a stored version cannot be used", "version", number, "error", err)
	}
	return nil
}

func (c *Control) check(v *Version) error {
	doc := c.state.Load().doc.Clone()
	doc.Services = v.Services
	return validate(doc)
}

// Version returns the number of the version in force.
func (c *Control) Version() int { return c.state.Load().version }

// Document returns the configuration in force and its version. Nobody may
// change it.
func (c *Control) Document() (*config.Document, int) {
	now := c.state.Load()
	return now.doc, now.version
}

// commit validates, compiles, saves and puts a document into force, in that
// order, and in the form in which it is saved: what is in force now is what a
// restart finds. The caller has the lock.
func (c *Control) commit(doc *config.Document, change Change) (Result, error) {
	now := c.state.Load()
	result := Result{Before: now.version, Version: now.version, Changed: true}
	doc, err := asStored(doc)
	if err != nil {
		return result, err
	}
	if err := validate(doc); err != nil {
		return result, err
	}
	at := time.Now().UTC()
	next := &state{doc: doc, version: now.version, since: grown(doc.Services, now.since, at)}
	table, err := routing.Compile(doc, c.current.Load(), next.since)
	if err != nil {
		return result, err
	}
	isNew := now.version == 0 || !config.EqualServices(doc.Services, now.doc.Services)
	if isNew && now.version != 0 {
		result.Differences = Compare(now.doc.Services, doc.Services)
	}
	result.Summary = change.Summary
	if result.Summary == "" {
		result.Summary = summarize(result.Differences)
	}
	if change.DryRun {
		return result, nil
	}
	var v *Version
	if isNew {
		next.version = c.newest + 1
		v = &Version{
			Number: next.version, CreatedAt: at, Origin: change.Origin, Author: change.Author,
			Summary: result.Summary, Added: next.since, Services: doc.Services,
		}
	}
	if err := c.publish(v, next.version); err != nil {
		return result, err
	}
	if isNew {
		if err := c.tolerate(c.save(v)); err != nil {
			return result, err
		}
	}
	if err := c.tolerate(c.point(next.version)); err != nil {
		if isNew {
			_ = c.store.remove(next.version) // nobody was told that it exists
		}
		return result, err
	}
	c.put(next, table)
	result.Version = next.version
	return result, nil
}

// save stores a version. One that may be on disk although saving it failed is
// removed, and its number is not used again.
func (c *Control) save(v *Version) error {
	err := c.store.Save(v)
	if err != nil && !c.store.has(v.Number) {
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	c.newest = v.Number
	if err != nil {
		_ = c.store.remove(v.Number)
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	return nil
}

// point makes a version the current one on disk. If that fails the old one
// still is, as far as the disk allows.
func (c *Control) point(version int) error {
	err := c.store.setCurrent(c.pointer(version))
	if err == nil {
		return nil
	}
	if before := c.Version(); before != 0 {
		_ = c.store.setCurrent(c.pointer(before))
	}
	return fmt.Errorf("%w: %w", ErrSave, err)
}

func (c *Control) pointer(version int) pointer {
	return pointer{Version: version, Newest: c.newest, Source: c.source, Log: c.place.Log, Revision: c.place.Revision}
}

// put brings a state into force.
func (c *Control) put(next *state, table *routing.Table) {
	c.state.Store(next)
	c.current.Store(table)
}

// Reload takes the services and limits of a document that was read from the
// configuration file again. It reports whether anything changed.
func (c *Control) Reload(doc *config.Document) (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err = c.reload(doc)
	c.waiting = nil
	if errors.Is(err, ErrUnavailable) {
		c.waiting = doc.Clone()
	}
	return changed, err
}

func (c *Control) reload(doc *config.Document) (changed bool, err error) {
	previous, source := c.source, sourceOf(doc)
	end, err := c.begin(source == previous)
	if err != nil {
		return false, err
	}
	defer end()
	now := c.state.Load().doc
	next := now.Clone()
	if source != previous {
		c.source = source
		if c.session == nil || !isSource(c.session.head.Source, doc) { // else another gateway has read the same file
			next.Services = doc.Clone().Services
		}
		if c.session != nil {
			c.session.source = source
		}
	}
	next.Limits = doc.Limits
	if next.Equal(now) && previous == c.source {
		return false, nil
	}
	summary := "the configuration file changed"
	if differences := Compare(now.Services, next.Services); len(differences) > 0 {
		summary += ": " + summarize(differences)
	}
	if _, err := c.commit(next, Change{Origin: FromReload, Author: system, Summary: summary}); err != nil {
		c.source = previous
		return false, err
	}
	c.static = doc.Clone().Services
	return true, nil
}

// validate looks at the services only: a change must not fail because of a file
// that another section names.
func validate(doc *config.Document) error {
	if problems := doc.ValidateServices(adapter.Check); len(problems) > 0 {
		return problems
	}
	return nil
}
