package manage

import (
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// termsBody are the terms of all keys: the defaults of each key, and the terms that the
// keys of a tenant share.
type termsBody struct {
	Defaults access.Terms `json:"defaults" requiredWithout:"tenants"`
	Tenants  []tenantView `json:"tenants"`
}

// tenantView is a tenant and its terms.
type tenantView struct {
	Name string `json:"name" minLength:"1" maxLength:"128" doc:"As the keys have it; at most 128 bytes."`
	access.Terms
}

// termsView are the terms in force.
type termsView struct {
	// Source is the origin of the terms: the configuration file, or a version.
	Source string `json:"source" enum:"config,version" doc:"config: the gateway's file; version: set here."`
	termsBody
}

func viewTerms(t access.TermSet) termsBody {
	body := termsBody{t.Defaults, []tenantView{}}
	for _, tenant := range t.Tenants {
		body.Tenants = append(body.Tenants, tenantView(tenant))
	}
	return body
}

func (a *API) showTerms(c *web.Call) (termsView, error) {
	terms, isStored, version := a.options.Control.Terms()
	view := termsView{"config", viewTerms(terms)}
	if isStored {
		view.Source = "version"
	}
	c.Version = version
	return view, nil
}

func (a *API) putTerms(c *web.Call, body *termsBody) (changeView, error) {
	return a.editTerms(c, func(terms *access.TermSet) error {
		if !c.Given.Has("defaults") && !c.Given.Has("tenants") {
			return web.BadInput("body", "field.terms")
		}
		if c.Given.Has("defaults") {
			terms.Defaults = body.Defaults
		}
		if c.Given.Has("tenants") {
			terms.Tenants = nil
			for i := range body.Tenants {
				terms.Tenants = append(terms.Tenants, access.Tenant(body.Tenants[i]))
			}
		}
		return nil
	})
}

// editTerms makes a version with other terms.
func (a *API) editTerms(c *web.Call, edit func(*access.TermSet) error) (changeView, error) {
	if !a.options.Credentials.Enforced() {
		c.Message += " They are not asked for while security.enabled is false."
	}
	return a.edit(c, func(doc *config.Document) error {
		terms := doc.Security.TermSet()
		if err := edit(&terms); err != nil {
			return err
		}
		if err := problemsOf(terms.Check); err != nil {
			return err
		}
		doc.Security.Settings = doc.Security.WithTerms(terms)
		return nil
	})
}

func (a *API) dropTerms(c *web.Call) (changeView, error) {
	return write(c, a.options.Control.DropTerms)
}

func (a *API) putTenant(c *web.Call) (changeView, error) {
	name := c.PathValue("tenant")
	view, err := a.editTerms(c, func(terms *access.TermSet) error {
		n := terms.Tenant(name)
		if n < 0 {
			n, terms.Tenants = len(terms.Tenants), append(terms.Tenants, access.Tenant{Name: name})
		}
		_, err := config.DecodeJSON(c.Content, &terms.Tenants[n].Terms)
		return err
	})
	return view, withoutIndex(err)
}

// withoutIndex names the problems of one tenant as its body does.
func withoutIndex(err error) error {
	problems, ok := err.(config.Problems) //nolint:errorlint // editTerms returns them as they are
	if !ok {
		return err
	}
	for i := range problems {
		if _, field, found := strings.Cut(problems[i].Path, "]."); found &&
			strings.HasPrefix(problems[i].Path, "tenants[") {
			problems[i].Path = field
		}
	}
	return problems
}

func (a *API) deleteTenant(c *web.Call) (changeView, error) {
	name := c.PathValue("tenant")
	return a.editTerms(c, func(terms *access.TermSet) error {
		n := terms.Tenant(name)
		if n < 0 {
			return web.NotFound(say.New("manage.no_terms", "tenant", web.Shorten(name)).About("tenant"))
		}
		terms.Tenants = slices.Delete(terms.Tenants, n, n+1)
		return nil
	})
}
