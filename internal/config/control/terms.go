package control

import (
	"context"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/differences"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
)

// FollowTerms calls a function with the terms of keys and tenants that are in force, now
// and whenever they change. It must be called before requests are served, and once.
func (c *Control) FollowTerms(changed func(access.TermSet)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.termsChanged = changed
	changed(c.state.Load().doc.Security.TermSet())
}

// Terms returns the terms in force, and whether they come from a version; otherwise they
// come from the configuration file. The last result is the version in force.
func (c *Control) Terms() (terms access.TermSet, isStored bool, version int) {
	now := c.state.Load()
	return now.doc.Security.TermSet(), now.terms != nil, now.version
}

// DropTerms makes a version without terms: the terms of the configuration file are then
// in force.
func (c *Control) DropTerms(ctx context.Context, change Change) (Result, error) {
	return c.change(ctx, change, func(now *state) (*proposal, Result, error) {
		if now.terms == nil {
			return nil, Result{}, nil
		}
		doc := now.doc.Clone()
		doc.Security.Settings = doc.Security.WithTerms(*c.file.terms.Load())
		return c.propose(doc, nil, now.settings, change)
	})
}

// editedTerms returns the terms of the version that an edit makes: the document's if the
// edit changed them, else the terms of the version before.
func (s *state) editedTerms(doc *config.Document) *access.TermSet {
	edited := doc.Security.TermSet()
	if settings.Equal(edited, s.doc.Security.TermSet()) {
		return s.terms
	}
	return &edited
}

// takeFileTerms puts the terms of a configuration file into a document, unless the version
// in force has its own.
func (c *Control) takeFileTerms(now *state, next, file *config.Document) {
	terms := file.Security.TermSet()
	if now.terms == nil {
		next.Security.Settings = next.Security.WithTerms(terms)
		return
	}
	if !settings.Equal(terms, *c.file.terms.Load()) {
		c.log.Warn("security.tenants and security.defaults of the configuration file changed and are not in force, " +
			"because others were set by management; DELETE /api/config/terms ends that")
	}
}

// termsOf returns the terms that are in force with a version.
func (c *Control) termsOf(v *Version) access.TermSet {
	if v.Terms != nil {
		return *v.Terms
	}
	return *c.file.terms.Load()
}

// CompareVersions lists the changes that turn one version into another one. A version
// without terms has the terms of the configuration file.
func (c *Control) CompareVersions(from, to *Version) []Difference {
	return append(append(differences.Compare(from.Services, to.Services),
		differences.CompareTerms(c.termsOf(from), c.termsOf(to))...),
		differences.CompareManaged(c.managedOf(from), c.managedOf(to))...)
}

// compare lists the changes that turn a state into another one.
func (s *state) compare(next *state) []Difference {
	return append(append(differences.Compare(s.doc.Services, next.doc.Services),
		differences.CompareTerms(s.doc.Security.TermSet(), next.doc.Security.TermSet())...),
		differences.CompareManaged(s.doc.Managed(), next.doc.Managed())...)
}
