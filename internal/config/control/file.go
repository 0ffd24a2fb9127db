package control

import (
	"context"
	"errors"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/differences"
	"github.com/patchbay-ai/patchbay/internal/config/control/merge"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// Reload applies a document that was read from the configuration file again: its limits,
// the edits of its services, and the secrets that the configuration refers to. It returns
// whether anything changed, and logs the changes.
func (c *Control) Reload(ctx context.Context, doc *config.Document) (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err = c.reload(ctx, doc)
	c.file.waiting = nil
	if errors.Is(err, ErrUnavailable) {
		c.file.waiting = doc.Clone()
	}
	return changed, err
}

// reload is Reload for a caller that has the lock.
func (c *Control) reload(ctx context.Context, doc *config.Document) (changed bool, err error) {
	if c.file.isApplied(doc) {
		return c.takeFile(unshared{&c.local}, doc, FromReload) // only edits of the services are shared
	}
	t, err := c.begin(ctx, Change{})
	if err != nil {
		return false, err
	}
	defer t.end()
	return c.takeFile(t, doc, FromReload)
}

// takeFile applies the changes of the configuration file: its edits of the services as a
// new version, the other settings without one.
func (c *Control) takeFile(t transfer, doc *config.Document, origin string) (changed bool, err error) {
	now, table := c.state.Load(), c.current.Load()
	edited := c.file.edited(doc)
	if edited != nil {
		edited.keepLiterals(now.doc, doc.Resolve)
	}
	next, managed := c.withFile(t, now, doc, edited)
	found := append(differences.Compare(now.doc.Services, next.Services),
		differences.CompareManaged(now.settings, managed)...)
	p, result, err := c.propose(next, now.terms, managed,
		Change{Origin: origin, Author: system, Summary: differences.SummarizeFile(found),
			Said: differences.SaidOfFile(found)})
	if err != nil {
		return false, err
	}
	p.check = validateStored // the file was validated when it was read, and the rest when it was stored
	p.file = edited
	p.keepsHead = p.added == nil && edited == nil
	if err := c.enact(t, p); err != nil {
		return false, err
	}
	c.file.setRead(doc)
	if edited == nil && next.Equal(now.doc) {
		return c.reportRotated(table), nil
	}
	event := "configuration reloaded: "
	if origin == FromFile {
		event = "the configuration file changed since it was last read: "
	}
	c.log.Info(event+differences.Effect(found, edited != nil), "version", result.Version)
	return true, nil
}

// withFile returns the configuration in force with the settings of the configuration
// file, and the sections of it that management has changed. The edits of its services and of
// these sections are merged, because management may have made other edits.
func (c *Control) withFile(t transfer, now *state, doc *config.Document,
	edited *appliedFile) (*config.Document, config.Managed) {
	next := now.doc.Clone()
	next.Limits, next.Prices, next.Resolve = doc.Limits, settings.Clone(doc.Prices), doc.Resolve
	next.TakeFileOnly(doc)
	next.Runs, next.References = doc.Runs, doc.References
	c.takeFileTerms(now, next, doc)
	shared, isShared := t.sharedHead()
	isTaken := isShared && shared.Source == sourceOf(doc) // by another gateway, which has read the same file
	if edited != nil && !isTaken {
		next.Services = merge.Services(c.file.applied.services, edited.services, now.doc.Services)
	}
	managed := now.settings
	if edited != nil && !isTaken {
		managed = merge.Managed(c.file.applied.managed, edited.managed, managed)
	}
	next.TakeManaged(doc.Managed())
	next.TakeManaged(managed)
	return next, managed
}

// reportRotated reports whether the secrets that the configuration refers to have changed
// since the table before, and logs the instances with such secrets. That makes no
// version, because the references are the same.
func (c *Control) reportRotated(before *routing.Table) bool {
	var rotated []string
	for _, instance := range c.current.Load().Instances() {
		if old := before.Service(instance.Service).Instance(instance.ID); old != nil && !instance.SameSecrets(old) {
			rotated = append(rotated, differences.ShortID(instance.ID))
		}
	}
	if len(rotated) == 0 {
		return false
	}
	c.log.Info("configuration reloaded: secrets to which it refers changed and are in force",
		"instances", strings.Join(rotated, " "), "version", c.Version())
	return true
}
