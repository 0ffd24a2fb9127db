package config

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
)

// ManagedSection is a section of the document, beside the services, that management can
// change. The tag managed of its field is the right that this needs: "write" for operators,
// "manage" for administrators alone.
type ManagedSection struct {
	// Name is its name in JSON, and Path its place in the configuration file.
	Name, Path string
	Right      string

	index []int
}

// ManagedSections returns the sections that management can change. A section is a member of
// the document or of one of its sections.
func ManagedSections() []ManagedSection {
	var found []ManagedSection
	add := func(of reflect.Type, f field, path string, index []int) bool {
		right := of.FieldByIndex(f.index).Tag.Get("managed")
		if right != "" {
			found = append(found, ManagedSection{camel(f.name), path, right, index})
		}
		return right != ""
	}
	document := reflect.TypeFor[Document]()
	for _, f := range fieldsOf(document) {
		inner := document.FieldByIndex(f.index).Type
		if add(document, f, f.name, f.index) || inner.Kind() != reflect.Struct {
			continue
		}
		for _, g := range fieldsOf(inner) {
			add(inner, g, join(f.name, g.name), slices.Concat(f.index, g.index))
		}
	}
	return found
}

// managedPaths returns the places of the managed sections in the configuration file.
func managedPaths() []string {
	var paths []string
	for _, s := range ManagedSections() {
		paths = append(paths, s.Path)
	}
	return paths
}

// In returns a pointer to the section in a document.
func (s ManagedSection) In(d *Document) any {
	return reflect.ValueOf(d).Elem().FieldByIndex(s.index).Addr().Interface()
}

// Check returns the faults of the section in a document, with paths inside of the section.
func (s ManagedSection) Check(d *Document) (problems Problems) {
	if section, ok := s.In(d).(section); ok {
		section.Check(problems.under(""))
	}
	for i := range problems {
		problems[i].Path = camel(problems[i].Path)
	}
	return problems
}

// Managed are sections that management can change, by their names in JSON. Each value points
// to the settings of its section.
type Managed map[string]any

// Managed returns copies of all sections that management can change.
func (d *Document) Managed() Managed {
	all := Managed{}
	for _, s := range ManagedSections() {
		all[s.Name] = s.In(d)
	}
	return settings.Clone(all)
}

// TakeManaged puts copies of sections into the document.
func (d *Document) TakeManaged(sections Managed) {
	sections = settings.Clone(sections)
	for _, s := range ManagedSections() {
		if section, ok := sections[s.Name]; ok {
			reflect.ValueOf(s.In(d)).Elem().Set(reflect.ValueOf(section).Elem())
		}
	}
}

// UnmarshalJSON reads sections over their defaults. It refuses unknown sections and members: a
// setting that a newer release wrote must not be dropped silently.
func (m *Managed) UnmarshalJSON(data []byte) error {
	var raw map[string]jsontext.Value
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	defaults := Default()
	*m = Managed{}
	for _, s := range ManagedSections() {
		value, has := raw[s.Name]
		if !has {
			continue
		}
		delete(raw, s.Name)
		section := s.In(defaults)
		if err := json.Unmarshal(value, section, json.RejectUnknownMembers(true)); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		(*m)[s.Name] = section
	}
	for name := range raw {
		return fmt.Errorf("this release has no section %q", name)
	}
	return nil
}

// MapSecrets returns a copy with every secret replaced. It names a secret by its JSON pointer.
func (m Managed) MapSecrets(replace func(at string, secret backend.Secret) (backend.Secret, error)) (Managed, error) {
	mapped := settings.Clone(m)
	for _, s := range ManagedSections() {
		if section, ok := mapped[s.Name]; ok {
			if err := backend.ReplaceSecrets(section, jsontext.Pointer("/"+s.Name), replace); err != nil {
				return nil, err
			}
		}
	}
	return mapped, nil
}

// Masked returns a copy with masks in place of the secrets.
func (m Managed) Masked() Managed {
	masked, _ := m.MapSecrets(func(_ string, secret backend.Secret) (backend.Secret, error) {
		return backend.Literal(secret.Masked()), nil
	})
	return masked
}

// Secrets returns all secrets by their JSON pointers.
func (m Managed) Secrets() map[string]backend.Secret {
	found := map[string]backend.Secret{}
	_, _ = m.MapSecrets(func(at string, secret backend.Secret) (backend.Secret, error) {
		found[at] = secret
		return secret, nil
	})
	return found
}
