package account

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// Find looks up the model that the request asks for. It is called once, before Admit.
func (a *Account) Find() {
	if a.Pool = a.service().FindBytes(a.Asks.Model); a.Pool != nil {
		a.Model = a.Pool.Model
	}
}

// RefuseModel returns an error unless the caller's key is good for the requested name or, if
// that is an alias, for its model. Where a pattern leads to the model, the key must be good
// for the model.
func (a *Account) RefuseModel() error {
	if a.Caller.Grant == nil {
		return nil
	}
	err := a.Caller.Grant.RefuseModel(a.Asks.Service, a.Asks.Model)
	if err == nil && a.service().IsRewritten(string(a.Asks.Model)) {
		pool := a.service().FindBytes(a.Asks.Model)
		err = a.Caller.Grant.RefuseModel(a.Asks.Service, []byte(pool.Model))
	}
	if err == nil {
		return nil
	}
	if pool := a.service().FindBytes(a.Asks.Model); pool != nil && a.Caller.MayUse(a.Asks.Service, pool.Model) {
		return nil
	}
	return err
}

// RefuseServed returns an error unless the caller may use a model that serves the request: the
// requested one (see RefuseModel), one that takes over from it, or else one that the key allows by
// itself.
func (a *Account) RefuseServed(model string) error {
	if a.Pool != nil && a.Pool.Model == model {
		return nil
	}
	for _, to := range a.takeovers() {
		if to.Model == model && a.MayUse(to) {
			return nil
		}
	}
	if err := a.Caller.Grant.RefuseModel(a.Asks.Service, []byte(model)); err != nil {
		return err
	}
	return nil
}

// RefuseUnknown returns an error if there is neither the model that the request asks for nor
// one that takes over from it.
func (a *Account) RefuseUnknown() error {
	if a.Pool == nil && len(a.takeovers()) == 0 {
		return a.unknownModel()
	}
	return nil
}

// IsBarred reports whether RefuseAsked returns an error.
func (a *Account) IsBarred() bool { return a.overLimit != nil || a.tooDear != nil }

// RefuseAsked returns an error if the model that was asked for may not serve the request,
// although one that takes over from it may: its own limit is reached, or the budgets have
// room only for a cheaper one.
func (a *Account) RefuseAsked() error {
	switch {
	case a.overLimit != nil:
		return a.overLimit
	case a.tooDear != nil:
		return a.overBudget(a.tooDear, time.Now())
	}
	return nil
}

// IsRenamed reports whether the model is another one than the caller names: the name is an
// alias, or a fallback took over.
func (a *Account) IsRenamed() bool { return string(a.Asks.Model) != a.Model }

// Asked returns the name of the model that the caller gave.
func (a *Account) Asked() string {
	if !a.IsRenamed() {
		return a.Model
	}
	return string(a.Asks.Model)
}

// MayUse reports whether the caller may use a fallback.
func (a *Account) MayUse(to routing.Fallback) bool {
	return a.Caller.MayUse(a.Asks.Service, to.Name) || a.Caller.MayUse(a.Asks.Service, to.Model)
}

// service returns the service type of the request, nil where it is not configured.
func (a *Account) service() *routing.Service { return a.Table.Service(a.Asks.Service) }

// takeovers returns the models that may take over from the requested one.
func (a *Account) takeovers() []routing.Fallback {
	if a.Pool != nil && !a.Pool.HasFallbacks {
		return nil
	}
	return a.service().Takeovers(string(a.Asks.Model))
}

// unknownModel says that no instance serves the model that the request asks for.
func (a *Account) unknownModel() *schema.Error {
	return UnknownModel(a.Table, a.Asks.Service, string(a.Asks.Model), a.Caller.Grant)
}

// namesFor returns the names of a service type, nil where it is not configured, that the bearer
// of a grant may use, and whether there are others. An alias may be used by its own name or by
// the name of its model.
func namesFor(service *routing.Service, serviceType schema.ServiceType,
	grant *access.Grant) (names []string, hasOthers bool) {
	names = service.Names()
	all := len(names)
	names = slices.DeleteFunc(names, func(name string) bool {
		return !grant.MayUse(serviceType, name) && !grant.MayUse(serviceType, service.Find(name).Model)
	})
	return names, len(names) < all
}

// UnknownModel says that no instance serves the model, and suggests similar configured names
// that the bearer of a grant may use; nil may use all.
func UnknownModel(table *routing.Table, serviceType schema.ServiceType, name string,
	grant *access.Grant) *schema.Error {
	service := table.Service(serviceType)
	known, hasOthers := namesFor(service, serviceType, grant)
	code := schema.CodeServiceUnavailable
	if table.UnknownModel == http.StatusNotFound {
		code = schema.CodeModelNotFound
	}
	for _, other := range schema.ServiceTypes() {
		if pool := table.Service(other).Find(name); pool != nil && other != serviceType &&
			(grant.MayUse(other, name) || grant.MayUse(other, pool.Model)) {
			err := schema.CodedError(code, "call.other_service", "model", name, "of", other,
				"service", serviceType, "path", other.Path())
			err.NoRetry, err.UnknownModel = true, name
			err.Details = map[string]any{"model": name, "nearest": []string{}, "path": other.Path()}
			return err
		}
	}
	const shown, few = 5, 8 // all are listed where they are few
	near := schema.Nearest(name, known, shown)
	said, what, value := say.Code("call.unknown_model_none"), "of", serviceType.String()
	switch {
	case len(known) == 0 && hasOthers:
		said = "call.unknown_model_barred"
	case len(known) == 0 && service.Discovers():
		said = "call.unknown_model_found"
	case len(known) == 0:
	case len(near) > 0:
		said = "call.unknown_model_near"
	case len(known) <= few:
		said, near = "call.unknown_model_all", schema.Closest(name, known, few)
	default:
		said, near = "call.unknown_model_known", schema.Closest(name, known, shown)
	}
	if len(known) > 0 {
		what, value = "names", quotedList(near)
	}
	err := schema.CodedError(code, said, "model", name, "service", serviceType, what, value)
	err.NoRetry, err.UnknownModel = true, name
	err.Details = map[string]any{"model": name, "nearest": near}
	return err
}

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}
