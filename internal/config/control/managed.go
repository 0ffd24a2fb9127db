package control

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/references"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
)

// FollowManaged calls a function whenever a section changes that management can change. It
// must be called before requests are served, and once.
func (c *Control) FollowManaged(changed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.managedChanged = changed
}

// usable returns the sections of a version that may come into force. The configuration file
// decides in place of the others: those of an unsigned backup that is not confirmed, those with a fault, and those
// that refer to a secret as neither the file nor security.references does. The writer of the
// store would otherwise choose the address that such a secret is sent to.
func (c *Control) usable(v *Version) config.Managed {
	if v.IsUnconfirmed() {
		return nil
	}
	file, trial := c.file.managed.Load().Secrets(), config.Default()
	trial.TakeManaged(v.Settings)
	usable := settings.Clone(v.Settings)
	for _, section := range config.ManagedSections() {
		one, has := v.Settings[section.Name]
		if !has {
			continue
		}
		isKnown := true
		for at, secret := range (config.Managed{section.Name: one}).Secrets() {
			isKnown = isKnown && (!secret.IsReference() || secret == file[at] || c.isListed(secret))
		}
		if problems := section.Check(trial); len(problems) > 0 || !isKnown {
			c.log.Warn("a section of a version is not used; that of the configuration file is in force",
				"version", v.Number, "section", section.Path, "faults", len(problems), "unknown references", !isKnown)
			delete(usable, section.Name)
		}
	}
	return usable
}

// isListed reports whether a secret refers only to names that security.references lists.
func (c *Control) isListed(secret backend.Secret) bool {
	return !slices.ContainsFunc(references.Names(secret.Reveal()), func(name string) bool {
		return !slices.Contains(c.file.references, name)
	})
}

// editedSettings returns the sections of the version that an edit makes: those of the version
// before, and those that the edit changed.
func (s *state) editedSettings(doc *config.Document) config.Managed {
	edited, before := doc.Managed(), s.doc.Managed()
	for name := range edited {
		if _, has := s.settings[name]; !has && settings.Equal(edited[name], before[name]) {
			delete(edited, name)
		}
	}
	return orNil(edited)
}

// keep puts the sections in force that need a right, which the author of a change does not
// have, into the document of the change. It returns the sections of the change's version, which
// had these sections.
func (s *state) keep(doc *config.Document, managed config.Managed, may func(right string) bool) config.Managed {
	managed, inForce := settings.Clone(managed), s.doc.Managed()
	for _, section := range config.ManagedSections() {
		if may == nil || may(section.Right) {
			continue
		}
		doc.TakeManaged(config.Managed{section.Name: inForce[section.Name]})
		delete(managed, section.Name)
		if own, has := s.settings[section.Name]; has {
			if managed == nil {
				managed = config.Managed{}
			}
			managed[section.Name] = own
		}
	}
	return orNil(managed)
}

// orNil returns nil in place of no sections.
func orNil(managed config.Managed) config.Managed {
	if len(managed) == 0 {
		return nil
	}
	return managed
}

// managedOf returns all sections that are in force with a version.
func (c *Control) managedOf(v *Version) config.Managed {
	all := settings.Clone(*c.file.managed.Load())
	for name, section := range v.Settings {
		all[name] = section
	}
	return all
}
