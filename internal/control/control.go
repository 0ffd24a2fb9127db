// Package control is the one writer of the configuration. Every change, from
// wherever it comes, is an edit of a copy of the document that is validated,
// compiled, saved as a version and only then put into force.
package control

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/condition"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/routing"
)

// Control owns the configuration in force.
type Control struct {
	store   Store
	current *routing.Current
	log     *slog.Logger

	// state is what is in force. It is replaced whole, so that reading it never
	// waits for a change that is being written.
	state atomic.Pointer[state]

	mu     sync.Mutex // serialises changes; requests never take it
	newest int        // the highest number ever used; numbers are not reused
	file   fileState  // the configuration file as it was taken last
	static Services   // what the configuration file gives, taken or not

	// What follows is for gateways that share their configuration.
	shared    Shared
	values    *Values             // nil where nothing is shared
	holds     map[string]hold     // the breakers that are held on all gateways
	joined    atomic.Bool         // whether the shared configuration was ever read
	position  Position            // where in the shared log this gateway is
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
// the last stop. If the services of the configuration file changed since they
// were last read, the difference is applied to it as a new version.
func Open(store Store, doc *config.Document, current *routing.Current, log *slog.Logger) (*Control, error) {
	return openWith(store, doc, current, log, nil)
}

func openWith(store Store, doc *config.Document, current *routing.Current, log *slog.Logger, shared Shared) (*Control, error) {
	c := &Control{store: store, current: current, log: log, file: fileStateOf(doc), static: doc.Clone().Services, shared: shared}
	if shared != nil {
		c.values = newValues(shared, &c.mu, log)
	}
	c.state.Store(&state{doc: doc.Clone()})
	numbers, err := store.Versions()
	if err != nil {
		return nil, fmt.Errorf("versions: %w", err)
	}
	if len(numbers) > 0 {
		c.newest = numbers[len(numbers)-1]
	}
	last, damage := store.Head()
	c.newest = max(c.newest, last.Version, last.Newest)
	if damage != nil {
		log.Warn("the record of the current version cannot be read; taking the newest version that can", "error", damage)
		last.Source = c.file.source // whether the file changed since is not known; no edit is lost by thinking it did not
		last.Log = ""
	}
	isEdited := len(numbers) > 0 && !isSource(last.Source, doc)
	if isEdited {
		c.file = c.lastFile(last, numbers)
	}
	version := c.newestReadable(last.Version, numbers)
	if version == nil {
		if len(numbers) > 0 {
			log.Warn("no stored version can be read; the configuration file becomes a new one", "version", c.newest+1)
		}
		c.file = fileStateOf(doc)
		return c, c.takeFile()
	}
	isWaiting := c.recall(last, doc)
	if damage != nil {
		if err := store.SetHead(c.head(version.Number)); err != nil {
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
	if isEdited && !isWaiting {
		_, err = c.take(doc, FromFile)
	}
	return c, err
}

// takeFile makes the first version of the configuration file.
func (c *Control) takeFile() error {
	_, err := c.commit(c.state.Load().doc, Change{Origin: FromFile, Author: system, Summary: "read from the configuration file"})
	return err
}

// newestReadable returns the wanted version or, if that cannot be read, the
// newest one that can. Files that cannot be read stay where they are.
func (c *Control) newestReadable(wanted int, numbers []int) *Version {
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
				c.log.Warn("another version takes its place", "version", number)
			}
			return v
		}
		c.log.Warn("a stored version cannot be used", "version", number, "error", err)
	}
	return nil
}

func (c *Control) check(v *Version) error {
	doc := c.state.Load().doc.Clone()
	doc.Services = v.Services
	return validateStored(doc)
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
	check := validate
	if change.Origin == FromFile || change.Origin == FromReload {
		check = validateStored // the file was checked when it was read, and the rest when it was stored
	}
	if err := check(doc); err != nil {
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
	surplus := c.surplus(doc.Store.KeepVersions, v, next.version)
	if err := c.publish(v, next.version, surplus); err != nil {
		return result, err
	}
	if isNew {
		if err := c.tolerate(c.save(v)); err != nil {
			return result, err
		}
	}
	if err := c.tolerate(c.point(next.version)); err != nil {
		if isNew {
			_ = c.store.Remove(next.version) // nobody was told that it exists
		}
		return result, err
	}
	c.put(next, table)
	c.prune(surplus)
	result.Version = next.version
	return result, nil
}

// surplus returns the versions that are too old to be kept once a new one is
// stored: all but the newest ones, and the one that is current. Without a new
// version nothing is removed.
func (c *Control) surplus(keep int, added *Version, current int) []int {
	if added == nil || keep == 0 {
		return nil
	}
	numbers, err := c.store.Versions()
	if err != nil || len(numbers) < keep {
		return nil // what cannot be listed is looked at again with the next change
	}
	old := numbers[:len(numbers)-keep+1] // the new version is not among them yet
	return slices.DeleteFunc(old, func(number int) bool { return number == current })
}

// prune removes versions that are not kept. They are in nobody's way, so that a
// failure is tried again with the next change.
func (c *Control) prune(surplus []int) {
	if len(surplus) == 0 {
		return
	}
	if err := c.store.Remove(surplus...); err != nil {
		c.log.Warn("old versions stay on disk until the next change", "error", err)
	}
}

// save stores a version. One that may be on disk although saving it failed is
// removed, and its number is not used again.
func (c *Control) save(v *Version) error {
	if c.has(v.Number) {
		return fmt.Errorf("%w: version %d exists already", ErrSave, v.Number)
	}
	err := c.store.Save(v)
	if err != nil && !c.has(v.Number) {
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	c.newest = v.Number
	if err != nil {
		_ = c.store.Remove(v.Number)
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	return nil
}

// point makes a version the current one on disk. If that fails the old one
// still is, as far as the disk allows.
func (c *Control) point(version int) error {
	err := c.store.SetHead(c.head(version))
	if err == nil {
		return nil
	}
	if before := c.Version(); before != 0 {
		_ = c.store.SetHead(c.head(before))
	}
	return fmt.Errorf("%w: %w", ErrSave, err)
}

// head returns the head of the store with a version as the current one.
func (c *Control) head(version int) Head {
	return Head{Version: version, Newest: c.newest, Source: c.file.source, File: c.file.stored, Position: c.position}
}

// has tells whether a version is stored. One that may be is.
func (c *Control) has(number int) bool {
	numbers, err := c.store.Versions()
	return err != nil || slices.Contains(numbers, number)
}

// put brings a state into force.
func (c *Control) put(next *state, table *routing.Table) {
	c.warnOfFaults(table, c.current.Load())
	applyHolds(table, c.holds)
	c.state.Store(next)
	c.current.Store(table)
}

// validate looks at the services only: a change must not fail because of a file
// that another section names.
func validate(doc *config.Document) error {
	if problems := doc.ValidateServices(kinds.Check); len(problems) > 0 {
		return problems
	}
	return nil
}

// validateStored is validate for what was accepted before: a release that is
// stricter about what it saves must not refuse to run with what an older one
// saved.
func validateStored(doc *config.Document) error {
	problems := slices.DeleteFunc(doc.ValidateServices(kinds.Check), func(p config.Problem) bool {
		_, setting, isInstance := strings.Cut(p.Path, "].")
		return isInstance && (setting == "name" || setting == "path" || setting == "api-key" || strings.HasPrefix(setting, "headers["))
	})
	if len(problems) > 0 {
		return problems
	}
	return nil
}
