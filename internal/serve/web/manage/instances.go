package manage

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/settings"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/breaker"
	"github.com/patchbay-ai/patchbay/internal/see/say"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/explain"
)

// Instances answers GET /api/config/instance/type/{serviceType}.
func (a *API) Instances(q *Request) (Reply, error) {
	doc, version := a.options.Control.Document()
	_, service, err := configured(q, doc)
	if err != nil {
		return Reply{}, err
	}
	data, err := list(q, viewInstances(service, q.who))
	return Reply{message: "The instances of the service type.", data: data, version: version}, err
}

// InstanceInfo answers GET /api/config/instance/info/{serviceType}.
func (a *API) InstanceInfo(q *Request) (Reply, error) {
	doc, version := a.options.Control.Document()
	serviceType, service, err := configured(q, doc)
	if err != nil {
		return Reply{}, err
	}
	n, err := named(q, service)
	if err != nil {
		return Reply{}, err
	}
	info := instanceInfo{instanceView: viewInstance(service, n, q.who), HealthStatus: backend.StatusUnknown}
	if service.Instances[n].Models.Given() {
		info.Found = explain.FoundBy(a.table(), serviceType, info.InstanceID)
	}
	if live := a.table().Service(serviceType).Instance(info.InstanceID); live != nil {
		health := live.Health.Snapshot()
		info.HealthStatus, info.Said = live.HealthStatus(), live.HealthReason()
		info.HealthReason = say.Join(info.Said)
		if !health.LastCheck.IsZero() {
			at := health.LastCheck.UTC().Truncate(time.Millisecond)
			info.LastHealthCheck = &at
		}
	}
	return Reply{message: "The instance and its health.", data: info, version: version}, nil
}

// instanceQuery has the query parameters that name an instance.
type instanceQuery struct {
	ModelName string `json:"modelName" required:"true" minLength:"1"`
	BaseURL   string `json:"baseUrl" required:"true" minLength:"1"`
}

// named returns the index of the instance that the query names.
func named(q *Request, service config.Service) (int, error) {
	query := q.URL.Query()
	name, baseURL := query.Get("modelName"), query.Get("baseUrl")
	if name == "" {
		return 0, invalidField("modelName", "is required")
	}
	if baseURL == "" {
		return 0, invalidField("baseUrl", "is required")
	}
	n := indexOf(service.Instances, name+"@"+baseURL)
	if n < 0 {
		return 0, fmt.Errorf("modelName, baseUrl: %w: no instance has this name and address", errNotFound)
	}
	return n, nil
}

// indexOf returns the index of the instance with an identifier, or -1. It compares whole
// identifiers, because names and addresses may contain any character.
func indexOf(instances []backend.Settings, id string) int {
	return slices.IndexFunc(instances, func(s backend.Settings) bool { return s.ID() == id })
}

// AddInstance answers POST /api/config/instance/add/{serviceType}.
func (a *API) AddInstance(q *Request) (Reply, error) {
	serviceType, err := serviceOf(q)
	if err != nil {
		return Reply{}, err
	}
	next := backend.DefaultSettings()
	given, err := config.DecodeJSON(q.body, &next, readOnly()...)
	if err == nil {
		err = keepSecrets(&next, nil, given, "", q.who)
	}
	if err != nil {
		return Reply{}, err
	}
	write := instanceWrite{status: http.StatusCreated, message: "The instance was added.", id: next.ID(), serviceType: serviceType}
	return a.writeInstance(q, &write, func(doc *config.Document) error {
		service, exists := doc.Services[serviceType]
		if !exists {
			service = config.DefaultService()
		}
		if n, _ := find(write.id, service); n >= 0 {
			return invalidField("name, baseUrl", "the instance %q exists already", web.Shorten(write.id))
		}
		write.index = len(service.Instances)
		write.shares = shareChanges(service.Instances, append(slices.Clone(service.Instances), next), next.Name)
		service.Instances = append(service.Instances, next)
		doc.Services[serviceType] = service
		return nil
	})
}

// UpdateInstance answers PUT /api/config/instance/update/{serviceType}.
func (a *API) UpdateInstance(q *Request) (Reply, error) {
	serviceType, err := serviceOf(q)
	if err != nil {
		return Reply{}, err
	}
	var body update
	given, err := config.DecodeJSON(q.body, &body, readOnly()...)
	if err != nil {
		return Reply{}, err
	}
	write := instanceWrite{status: http.StatusOK, message: "The instance was changed.", serviceType: serviceType, prefix: "instance."}
	return a.writeInstance(q, &write, func(doc *config.Document) error {
		_, service, err := configured(q, doc)
		if err != nil {
			return err
		}
		if err := body.check(given); err != nil {
			return err
		}
		n, err := find(body.InstanceID, service)
		if err != nil {
			return err
		}
		stored := &service.Instances[n]
		next := update{Instance: settings.Clone(*stored)}
		given.Overlay(&body, &next)
		if err := keepSecrets(&next.Instance, stored, given, "instance.", q.who); err != nil {
			return err
		}
		keepAdapter(&next.Instance, stored, service.Adapter)
		write.id, write.index = next.Instance.ID(), n
		if other, _ := find(write.id, service); other >= 0 && other != n {
			return invalidField("instance.name, instance.baseUrl", "the instance %q exists already", web.Shorten(write.id))
		}
		before := slices.Clone(service.Instances)
		service.Instances[n] = next.Instance
		write.shares = shareChanges(before, service.Instances, next.Instance.Name)
		doc.Services[serviceType] = service
		return nil
	})
}

// instanceWrite is a change of one instance.
type instanceWrite struct {
	status  int
	message string
	// id and index are those of the instance after the change.
	id          string
	index       int
	serviceType schema.ServiceType
	prefix      string // before the paths of the instance's settings in the body
	shares      []shareChange
}

// writeInstance changes one instance and answers with its identifier.
func (a *API) writeInstance(q *Request, write *instanceWrite, edit func(*config.Document) error) (Reply, error) {
	result, err := a.edit(q, edit)
	view := viewOf(result, q.change)
	view.InstanceID = write.id
	if view.DryRun {
		view.Shares = write.shares
	}
	return changed(write.status, write.message, view), inBody(err, write.serviceType, func(path string) string {
		if setting, ok := strings.CutPrefix(path, fmt.Sprintf("instances[%d].", write.index)); ok {
			return write.prefix + setting
		}
		return path
	})
}

// update is the body of an update.
type update struct {
	InstanceID string           `json:"instanceId"`
	Instance   backend.Settings `json:"instance"`
}

// updateRequest describes an update in the OpenAPI document: settings that are left out
// stay as they are.
type updateRequest struct {
	InstanceID string          `json:"instanceId" required:"true" minLength:"1"`
	Instance   instanceChanges `json:"instance" required:"true"`
}

type instanceChanges struct{}

// Whole is what is changed.
func (instanceChanges) Whole() any { return instanceView{} }

// check returns an error if a required member of an update is missing.
func (u update) check(given config.Given) error {
	if u.InstanceID == "" {
		return invalidField("instanceId", "is required")
	}
	if !given.Has("instance") {
		return invalidField("instance", "is required")
	}
	return nil
}

// find returns the index of an instance, or -1 and an error.
func find(id string, service config.Service) (int, error) {
	n := indexOf(service.Instances, id)
	if n < 0 {
		return n, fmt.Errorf("instanceId: %w: no instance is called %q", errNotFound, web.Shorten(id))
	}
	return n, nil
}

// DeleteInstance answers DELETE /api/config/instance/del/{serviceType}.
func (a *API) DeleteInstance(q *Request) (Reply, error) {
	result, err := a.edit(q, func(doc *config.Document) error {
		serviceType, service, err := configured(q, doc)
		if err != nil {
			return err
		}
		n, err := named(q, service)
		if err != nil {
			return err
		}
		service.Instances = slices.Delete(service.Instances, n, n+1)
		doc.Services[serviceType] = service
		return nil
	})
	return changed(http.StatusOK, "The instance was deleted; requests that it is answering go on to their end.", viewOf(result, q.change)), err
}

// ForceBreaker answers POST /api/config/instance/circuit-breaker/{serviceType}: an
// operator holds the breaker of an instance open or closed, or releases it. That creates
// no version. It lasts until the gateway stops or, where gateways share their
// configuration, on all of them until it is released.
func (a *API) ForceBreaker(q *Request) (Reply, error) {
	var wanted breakerRequest
	given, err := config.DecodeJSON(q.body, &wanted)
	if err == nil && wanted.InstanceID == "" {
		err = invalidField("instanceId", "is required")
	}
	if err == nil && utf8.RuneCountInString(wanted.Reason) > 200 {
		err = invalidField("reason", "must have at most 200 characters")
	}
	if err == nil && !given.Has("state") {
		err = invalidField("state", "is required (OPEN, CLOSED or AUTO)")
	}
	if err != nil {
		return Reply{}, err
	}
	serviceType, err := serviceOf(q)
	if err != nil {
		return Reply{}, err
	}
	instance := a.table().Service(serviceType).Instance(wanted.InstanceID)
	if instance == nil {
		return Reply{}, fmt.Errorf("instanceId: %w: no instance is called %q", errNotFound, web.Shorten(wanted.InstanceID))
	}
	operator := q.who.Name
	if operator == access.OpenName {
		operator = "" // no tokens are needed, so that the caller has no name
	}
	return a.force(q.Context(), instance, wanted.State, breaker.Hold{By: operator, Reason: wanted.Reason}, q.change.DryRun)
}

// force sets a circuit breaker, on all gateways that share the configuration.
func (a *API) force(ctx context.Context, instance *backend.Instance, mode breaker.Mode, hold breaker.Hold, dryRun bool) (Reply, error) {
	before := instance.Breaker.Snapshot()
	message := "The circuit breaker was set."
	switch {
	case dryRun:
		message = "Dry run: nothing was changed."
	case a.options.Control.Values() != nil:
		message = "The circuit breaker was set on all gateways that share the configuration."
		if err := a.options.Control.HoldBreaker(ctx, instance.Service, instance.ID, mode, hold.By, hold.Reason); err != nil {
			return Reply{}, err
		}
	default:
		instance.Breaker.Force(mode, hold, time.Now())
	}
	now := instance.Breaker.Snapshot()
	return Reply{
		message: message, change: fmt.Sprintf("circuit breaker %s→%s on %s", before.Forced, mode, instance.Handle),
		data: heldBreaker{instance.ID, now.State, now.Forced, now.Hold.By, now.Hold.Reason, web.TimeOrNil(now.Hold.Since), mode != before.Forced, dryRun},
	}, nil
}

// breakerRequest is the body with which a circuit breaker is set.
type breakerRequest struct {
	InstanceID string       `json:"instanceId" required:"true" minLength:"1"`
	State      breaker.Mode `json:"state" required:"true" enum:"OPEN,CLOSED,AUTO"`
	Reason     string       `json:"reason" maxLength:"200" doc:"Shown to those who see the breaker."`
}

// heldBreaker is the data of the reply to a breakerRequest.
type heldBreaker struct {
	InstanceID string        `json:"instanceId"`
	State      breaker.State `json:"state"`
	Forced     breaker.Mode  `json:"forced" enum:"OPEN,CLOSED,AUTO"`
	HeldBy     string        `json:"heldBy,omitzero"`
	HeldReason string        `json:"heldReason,omitzero"`
	HeldSince  *string       `json:"heldSince,omitzero" format:"date-time"`
	Changed    bool          `json:"changed"`
	DryRun     bool          `json:"dryRun,omitzero"`
}
