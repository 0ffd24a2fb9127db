package manage

import (
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// settingsRight returns the permission to change sections that need a right.
func settingsRight(right string) access.Permission {
	return access.Permission(strings.TrimSuffix(string(access.ReadSettings), "read") + right)
}

// settings returns the operations on the sections that management can change: one to read
// and one to change each.
func (a *API) settings() []web.Route {
	var routes []web.Route
	defaults := config.Default()
	for _, section := range config.ManagedSections() {
		path := "/api/config/" + config.Kebab(section.Name)
		shape := reflect.ValueOf(section.In(defaults)).Elem().Interface()
		routes = append(routes, web.Route{
			Pattern: "GET " + path, Reply: shape,
			Does:    web.Do(func(c *web.Call) (any, error) { return a.showSection(c, section), nil }),
			Summary: "The settings of " + section.Path + " that are in force; secrets are masked",
			Says:    "The settings of " + section.Path + ".",
		}, web.Route{
			Pattern: "PUT " + path, Permission: settingsRight(section.Right), Body: shape, Versioned: true,
			Does: web.Do(func(c *web.Call) (changeView, error) { return a.putSection(c, section) }),
			Summary: "Change what is given of " + section.Path + "; a secret that is left out or a mask stays. The " +
				"configuration file wins where it changes the same setting later",
			Says: "The settings of " + section.Path + " were changed.",
		})
	}
	return web.Group("Settings", access.ReadSettings, access.ManageSettings, web.OfGateway, routes)
}

func (a *API) showSection(c *web.Call, section config.ManagedSection) any {
	return a.document(c).Managed().Masked()[section.Name]
}

func (a *API) putSection(c *web.Call, section config.ManagedSection) (changeView, error) {
	body := section.In(config.Default())
	given, err := config.DecodeJSON(c.Content, body)
	if err != nil {
		return changeView{}, err
	}
	return a.edit(c, func(doc *config.Document) error {
		before := doc.Managed().Secrets()
		given.Overlay(settings.Clone(body), section.In(doc))
		if err := keepSectionSecrets(section, doc, before); err != nil {
			return err
		}
		if problems := section.Check(doc); len(problems) > 0 {
			return problems
		}
		if sections := a.document(c).NeedRestart(doc); len(sections) > 0 {
			c.Message = "The settings of " + section.Path + " were changed; some of them need a restart."
		}
		return nil
	})
}

// keepSectionSecrets restores the stored secrets of a section where a write leaves them out or
// has the mask that a read shows.
func keepSectionSecrets(section config.ManagedSection, doc *config.Document, before map[string]backend.Secret) error {
	root := "/" + section.Name
	var fault error
	err := backend.ReplaceSecrets(section.In(doc), jsontext.Pointer(root),
		func(at string, secret backend.Secret) (backend.Secret, error) {
			isMask := access.IsMask(secret.Reveal())
			stored := before[at]
			switch {
			case !isMask && !secret.IsEmpty():
				return secret, nil
			case isMask && stored.IsEmpty():
				fault = web.BadInput(strings.ReplaceAll(strings.TrimPrefix(at, root+"/"), "/", "."),
					"field.secret_mask")
			}
			return stored, nil
		})
	if err != nil {
		return err
	}
	return fault
}
