package control

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/differences"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// proposal is a configuration that is to be put into force.
type proposal struct {
	// next comes into force. Only the proposal has it, because enact completes it.
	next *state
	// check validates the document of next.
	check func(*config.Document) error
	// added is next as a new version, nil where next is stored already.
	added *Version
	// file is the configuration file that is applied with next, nil where none is.
	file *appliedFile
	// keepsHead says that the head of the store stays as it is: next is its current version
	// already, or takes the place of one that cannot be used.
	keepsHead bool
	dryRun    bool
	// author puts next into force; empty where the author is not known.
	author string
	// surplus are the old versions that are removed when next is in force.
	surplus []int
}

// propose makes a proposal of a changed document: a new version with these terms and settings,
// unless they and the services are in force already. The document is proposed in its stored form: a
// restart then finds exactly the configuration in force.
func (c *Control) propose(doc *config.Document, terms *access.TermSet, managed config.Managed,
	change Change) (*proposal, Result, error) {
	now := c.state.Load()
	result := Result{Before: now.version, Version: now.version, Changed: true, Said: change.Said}
	doc, err := asStored(doc)
	if err != nil {
		return nil, result, err
	}
	at := time.Now().UTC()
	p := &proposal{
		next: &state{doc: doc, version: now.version, since: versions.AddedTimes(doc.Services, now.since, at),
			terms: terms, settings: managed, activations: now.activations},
		check: validate, dryRun: change.DryRun, author: change.Author,
	}
	isNew := now.version == 0 || !now.isOf(doc, terms, managed)
	if isNew && now.version != 0 {
		result.Differences = now.compare(p.next)
	}
	if result.Summary = change.Summary; result.Summary == "" {
		result.Summary, result.Said = differences.Summarize(result.Differences), differences.SaidOf(result.Differences)
	}
	if isNew {
		p.next.version = c.local.newest + 1
		p.added = &Version{
			Number: p.next.version, CreatedAt: at, Origin: change.Origin, Author: change.Author,
			Summary: result.Summary, Said: result.Said, Added: p.next.since, Services: doc.Services, Terms: terms,
			Settings: managed,
		}
		p.surplus = c.local.surplus(doc.Store.KeepVersions)
	}
	if !p.dryRun {
		result.Version = p.next.version
	}
	return p, result, nil
}

// isOf reports whether the state has these services, terms and settings, which are all that
// versions keep.
func (s *state) isOf(doc *config.Document, terms *access.TermSet, managed config.Managed) bool {
	return settings.Equal(doc.Services, s.doc.Services) && settings.Equal(terms, s.terms) &&
		settings.Equal(managed, s.settings)
}

// enact puts a proposal into force: it validates and compiles it, publishes it to the
// gateways that share the configuration, saves it, makes it the current version of the
// store, and replaces the configuration in force. If a step fails, nothing has changed,
// with one exception: a version in the shared log comes into force even if it cannot be
// saved here. The caller holds the lock.
func (c *Control) enact(t transfer, p *proposal) error {
	if err := p.check(p.next.doc); err != nil {
		return err
	}
	table, err := routing.Compile(p.next.doc.Routed(), c.current.Load(), p.next.since)
	if err != nil || p.dryRun {
		return err
	}
	p.next.activations = p.activated(c.Version(), time.Now())
	if err := t.publish(p.logEntry()); err != nil {
		return err
	}
	err = t.save(p)
	if err == nil {
		err = c.setCurrent(t, p)
	}
	if err != nil && !t.isPublished() {
		return err
	}
	c.swap(p, table)
	if err != nil {
		return t.unsaved(err)
	}
	c.local.prune(p.surplus)
	return nil
}

func (p *proposal) logEntry() logEntry {
	entry := logEntry{version: p.next.version, added: p.added, removed: p.surplus}
	if p.file != nil {
		entry.source = p.file.source
	}
	return entry
}

// setCurrent makes the version of a proposal the current one of the store.
func (c *Control) setCurrent(t transfer, p *proposal) error {
	if p.keepsHead {
		return nil
	}
	head := c.head(p.next.version)
	head.Activations = p.next.activations
	if p.file != nil {
		head.Source, head.File, head.FileSettings = p.file.source, p.file.stored, p.file.managed
	}
	if p.added != nil {
		// A version that is not in the shared log makes the store differ from every
		// state of it.
		head.Newest, head.Position = p.added.Number, Position{}
	}
	if shared, isShared := t.sharedHead(); isShared {
		head.Newest, head.Position = shared.Newest, shared.Position
	}
	err := c.setHead(head)
	if err != nil && p.added != nil && !t.isPublished() {
		_ = c.local.remove(p.added.Number) // the change fails, so the version must not stay
	}
	return err
}

// setHead writes the head of the store, or leaves it as it is.
func (c *Control) setHead(head Head) error { return c.local.setHead(head, c.head(c.Version())) }

// head returns the head of the store with this version as the current one.
func (c *Control) head(version int) Head {
	return Head{Version: version, Newest: c.local.newest, Source: c.file.applied.source, File: c.file.applied.stored,
		FileSettings: c.file.applied.managed, Activations: c.state.Load().activations, Position: c.local.position}
}

// swap replaces the configuration in force by the proposal.
func (c *Control) swap(p *proposal, table *routing.Table) {
	if p.file != nil {
		c.file.applied = *p.file
	}
	if !c.isPassing {
		c.warnOfFaults(table, c.warned)
		c.warned = table
	}
	c.holds.apply(table)
	before := c.state.Swap(p.next)
	c.current.Store(table)
	if terms := p.next.doc.Security.TermSet(); c.termsChanged != nil &&
		!settings.Equal(terms, before.doc.Security.TermSet()) {
		c.termsChanged(terms)
	}
	if c.managedChanged != nil && !settings.Equal(p.next.doc.Managed(), before.doc.Managed()) {
		c.managedChanged()
	}
}

// warnOfFaults logs the instances of a table with secrets that cannot be used, unless the
// same was true in an earlier table.
func (c *Control) warnOfFaults(table, before *routing.Table) {
	for _, instance := range table.Instances() {
		if !instance.Fault.Is() {
			continue
		}
		if before != nil {
			if old := before.Service(instance.Service).Instance(instance.ID); old != nil &&
				old.Fault.String() == instance.Fault.String() {
				continue
			}
		}
		c.log.Warn("an instance is out on this gateway: a secret to which it refers cannot be used",
			slog.String("service", instance.Service.String()),
			slog.String("instance", differences.ShortID(instance.ID)), slog.String("reason", instance.Fault.String()))
	}
}

// Rebuild makes a new table of the configuration in force, because discovery found
// something new at its instances. It makes no version.
func (c *Control) Rebuild() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.state.Load()
	table, err := routing.Compile(now.doc.Routed(), c.current.Load(), now.since)
	if err != nil {
		return err
	}
	c.holds.apply(table)
	c.current.Store(table)
	return nil
}

// validate validates the services only: a change must not fail because of, for example,
// a missing file that another section names.
func validate(doc *config.Document) error {
	if problems := doc.ValidateServices(kinds.Check); len(problems) > 0 {
		return problems
	}
	return nil
}

// validateStored is validate for a document that was accepted before. It ignores rules
// that newer releases have added: these releases must run with versions that older ones
// saved.
func validateStored(doc *config.Document) error {
	problems := slices.DeleteFunc(doc.ValidateServices(kinds.Check), func(p config.Problem) bool {
		_, setting, isInstance := strings.Cut(p.Path, "].")
		return isInstance && (setting == "name" || setting == "process" || setting == "path" || setting == "api-key" ||
			strings.HasPrefix(setting, "headers["))
	})
	if len(problems) > 0 {
		return problems
	}
	return nil
}
