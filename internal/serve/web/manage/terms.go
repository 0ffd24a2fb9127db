package manage

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// termsBody are the terms of all keys: the defaults of each, and those that tenants have
// together.
type termsBody struct {
	Defaults termFields   `json:"defaults" requiredWithout:"tenants"`
	Tenants  []tenantView `json:"tenants"`
}

// tenantView is a tenant and its terms.
type tenantView struct {
	Name string `json:"name" minLength:"1" maxLength:"128" doc:"As the keys have it; at most 128 bytes."`
	termFields
}

// termsView are the terms in force.
type termsView struct {
	// Source is where they come from: the configuration file, or a version.
	Source string `json:"source" enum:"config,version" doc:"config: the configuration file of this gateway; version: they were set here, and belong to the version."`
	termsBody
}

func viewTerms(t access.TermSet) termsBody {
	body := termsBody{fieldsOfTerms(t.Defaults), []tenantView{}}
	for _, tenant := range t.Tenants {
		body.Tenants = append(body.Tenants, tenantView{tenant.Name, fieldsOfTerms(tenant.Terms)})
	}
	return body
}

// Terms answers GET /api/config/terms.
func (a *API) Terms(*Request) (Reply, error) {
	terms, isStored, version := a.options.Control.Terms()
	view := termsView{"config", viewTerms(terms)}
	if isStored {
		view.Source = "version"
	}
	return Reply{message: "The terms of keys and tenants.", data: view, version: version}, nil
}

// PutTerms answers PUT /api/config/terms.
func (a *API) PutTerms(q *Request) (Reply, error) {
	var body termsBody
	given, err := config.DecodeJSON(q.body, &body)
	if err != nil {
		return Reply{}, err
	}
	return a.editTerms(q, "The terms were changed; requests from now on are held to them.", func(terms *access.TermSet) error {
		if !given.Has("defaults") && !given.Has("tenants") {
			return invalidField("body", "give defaults, tenants or both")
		}
		if given.Has("defaults") {
			terms.Defaults = body.Defaults.terms()
		}
		if given.Has("tenants") {
			terms.Tenants = nil
			for i := range body.Tenants {
				terms.Tenants = append(terms.Tenants, access.Tenant{Name: body.Tenants[i].Name, Terms: body.Tenants[i].terms()})
			}
		}
		return nil
	})
}

// editTerms makes a version with other terms.
func (a *API) editTerms(q *Request, message string, edit func(*access.TermSet) error) (Reply, error) {
	result, err := a.edit(q, func(doc *config.Document) error {
		terms := doc.Security.TermSet()
		if err := edit(&terms); err != nil {
			return err
		}
		if err := problemsOf(terms.Check); err != nil {
			return err
		}
		doc.Security = doc.Security.WithTerms(terms)
		return nil
	})
	if err == nil && result.Changed && !a.options.Credentials.Enforced() {
		message += " They are not asked for while security.enabled is false."
	}
	return changed(http.StatusOK, message, viewOf(result, q.change)), err
}

// DropTerms answers DELETE /api/config/terms.
func (a *API) DropTerms(q *Request) (Reply, error) {
	result, err := q.write(func(ctx context.Context, change control.Change) (control.Result, error) {
		return a.options.Control.DropTerms(ctx, change)
	})
	return changed(http.StatusOK, "The terms of the configuration file are in force.", viewOf(result, q.change)), err
}

// PutTenant answers PUT /api/config/terms/tenants/{tenant}.
func (a *API) PutTenant(q *Request) (Reply, error) {
	name := q.PathValue("tenant")
	reply, err := a.editTerms(q, "The terms of the tenant were changed; requests from now on are held to them.", func(terms *access.TermSet) error {
		n := terms.Tenant(name)
		if n < 0 {
			n, terms.Tenants = len(terms.Tenants), append(terms.Tenants, access.Tenant{Name: name})
		}
		fields := fieldsOfTerms(terms.Tenants[n].Terms)
		if _, err := config.DecodeJSON(q.body, &fields); err != nil {
			return err
		}
		terms.Tenants[n].Terms = fields.terms()
		return nil
	})
	return reply, withoutIndex(err)
}

// withoutIndex names the problems of one tenant as its body does.
func withoutIndex(err error) error {
	problems, ok := err.(config.Problems) //nolint:errorlint // editTerms returns them as they are
	if !ok {
		return err
	}
	for i := range problems {
		if _, field, found := strings.Cut(problems[i].Path, "]."); found && strings.HasPrefix(problems[i].Path, "tenants[") {
			problems[i].Path = field
		}
	}
	return problems
}

// DeleteTenant answers DELETE /api/config/terms/tenants/{tenant}.
func (a *API) DeleteTenant(q *Request) (Reply, error) {
	name := q.PathValue("tenant")
	return a.editTerms(q, "The tenant has no terms any more.", func(terms *access.TermSet) error {
		n := terms.Tenant(name)
		if n < 0 {
			return fmt.Errorf("tenant: %w: %s has no terms", errNotFound, web.Shorten(name))
		}
		terms.Tenants = append(terms.Tenants[:n], terms.Tenants[n+1:]...)
		return nil
	})
}
