package manage

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/explain"
)

func (a *API) instancesOf(c *web.Call) ([]instanceView, error) {
	_, service, err := configured(c, a.document(c))
	return viewInstances(service, c.Who), err
}

func (a *API) instanceInfo(c *web.Call, q *instanceQuery) (info instanceInfo, err error) {
	serviceType, service, err := configured(c, a.document(c))
	if err != nil {
		return info, err
	}
	n, err := q.find(a, serviceType, service)
	if err != nil {
		return info, err
	}
	info = instanceInfo{instanceView: viewInstance(n.settings, service.Adapter, c.Who),
		HealthStatus: backend.StatusUnknown}
	if n.settings.Models.Given() {
		info.Found = explain.FoundBy(a.table(), serviceType, info.InstanceID)
	}
	if live := n.live; live != nil {
		health := live.Health.Snapshot()
		info.HealthStatus, info.Said = live.HealthStatus(), live.HealthReason()
		info.HealthReason = say.Join(info.Said)
		if !health.LastCheck.IsZero() {
			at := health.LastCheck.UTC().Truncate(time.Millisecond)
			info.LastHealthCheck = &at
		}
	}
	return info, nil
}

// instanceQuery has the query parameters that name an instance.
type instanceQuery struct {
	ModelName string `json:"modelName" required:"true" minLength:"1"`
	BaseURL   string `json:"baseUrl" required:"true" minLength:"1"`
}

// find returns the instance that the query names.
func (q *instanceQuery) find(a *API, serviceType schema.ServiceType, service config.Service) (named, error) {
	return a.named(serviceType, service, "modelName, baseUrl", q.ModelName+"@"+q.BaseURL)
}

func (a *API) addInstance(c *web.Call) (changeView, error) {
	serviceType, err := serviceOf(c)
	if err != nil {
		return changeView{}, err
	}
	next := backend.DefaultSettings()
	given, err := config.DecodeJSON(c.Content, &next, readOnly()...)
	if err == nil {
		err = keepSecrets(&next, nil, given, "", c.Who)
	}
	if err != nil {
		return changeView{}, err
	}
	write := instanceWrite{id: next.ID(), serviceType: serviceType}
	return a.writeInstance(c, &write, func(doc *config.Document) error {
		service, exists := doc.Services[serviceType]
		if !exists {
			service = config.DefaultService()
		}
		if indexOf(service.Instances, write.id) >= 0 {
			return existing("name, baseUrl", write.id)
		}
		write.index = len(service.Instances)
		write.shares = shareChanges(service.Instances, append(slices.Clone(service.Instances), next), next.Name)
		service.Instances = append(service.Instances, next)
		doc.Services[serviceType] = service
		return nil
	})
}

func (a *API) updateInstance(c *web.Call) (changeView, error) {
	serviceType, err := serviceOf(c)
	if err != nil {
		return changeView{}, err
	}
	var body update
	given, err := config.DecodeJSON(c.Content, &body, readOnly()...)
	if err != nil {
		return changeView{}, err
	}
	write := instanceWrite{serviceType: serviceType, prefix: "instance."}
	return a.writeInstance(c, &write, func(doc *config.Document) error {
		_, service, err := configured(c, doc)
		if err != nil {
			return err
		}
		if err := body.check(given); err != nil {
			return err
		}
		found, err := a.named(serviceType, service, "instanceId", body.InstanceID)
		if err == nil {
			err = found.written()
		}
		if err != nil {
			return err
		}
		n := found.index
		stored := &service.Instances[n]
		next := update{Instance: settings.Clone(*stored)}
		given.Overlay(&body, &next)
		if err := keepSecrets(&next.Instance, stored, given, "instance.", c.Who); err != nil {
			return err
		}
		keepAdapter(&next.Instance, stored, service.Adapter)
		write.id, write.index = next.Instance.ID(), n
		if other := indexOf(service.Instances, write.id); other >= 0 && other != n {
			return existing("instance.name, instance.baseUrl", write.id)
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
	// id and index belong to the instance after the change.
	id          string
	index       int
	serviceType schema.ServiceType
	prefix      string // before the paths of the instance's settings in the body
	shares      []shareChange
}

// writeInstance changes one instance and answers with its identifier.
func (a *API) writeInstance(c *web.Call, write *instanceWrite, edit func(*config.Document) error) (changeView, error) {
	view, err := a.edit(c, edit)
	view.InstanceID = write.id
	if view.DryRun {
		view.Shares = write.shares
	}
	return view, inBody(err, write.serviceType, func(path string) string {
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

// Whole is the object that the change applies to.
func (instanceChanges) Whole() any { return instanceView{} }

// disables reports whether a body of a change disables an instance and changes nothing else.
func disables(body []byte) bool {
	var wanted struct {
		Instance map[string]any `json:"instance"`
	}
	return json.Unmarshal(body, &wanted) == nil && len(wanted.Instance) == 1 && wanted.Instance["enabled"] == false
}

// opensBreaker reports whether a body holds a circuit breaker open, which drains its instance.
func opensBreaker(body []byte) bool {
	var wanted breakerRequest
	return json.Unmarshal(body, &wanted) == nil && wanted.State == breaker.ForcedOpen
}

// existing returns the error about an instance that would be there twice.
func existing(fields, id string) error {
	return web.BadInput(fields, "manage.instance_exists", "instance", web.Shorten(id))
}

// check returns an error if a required member of an update is missing.
func (u update) check(given config.Given) error {
	if u.InstanceID == "" {
		return web.BadInput("instanceId", "field.required")
	}
	if !given.Has("instance") {
		return web.BadInput("instance", "field.required")
	}
	return nil
}

func (a *API) deleteInstance(c *web.Call) (changeView, error) {
	return a.edit(c, func(doc *config.Document) error {
		serviceType, service, err := configured(c, doc)
		if err != nil {
			return err
		}
		var q instanceQuery
		if err := web.ReadQuery(c.Request, &q); err != nil {
			return err
		}
		n, err := q.find(a, serviceType, service)
		if err == nil {
			err = n.written()
		}
		if err != nil {
			return err
		}
		service.Instances = slices.Delete(service.Instances, n.index, n.index+1)
		doc.Services[serviceType] = service
		return nil
	})
}

// forceBreaker holds the breaker of an instance open or closed for an operator, or releases
// it. That creates no version. It lasts until the gateway stops or, where gateways share
// their configuration, on all of them until it is released.
func (a *API) forceBreaker(c *web.Call, wanted *breakerRequest) (heldBreaker, error) {
	if utf8.RuneCountInString(wanted.Reason) > 200 {
		return heldBreaker{}, web.BadInput("reason", "field.characters", "most", "200")
	}
	instance, err := a.living(c, wanted.InstanceID)
	if err != nil {
		return heldBreaker{}, err
	}
	hold := breaker.Hold{By: c.Who.String(), Reason: wanted.Reason}
	if c.Who.IsOpen {
		hold.By = "" // nobody needs a token; the caller has no name
	}
	before := instance.Breaker.Snapshot()
	switch {
	case c.DryRun:
		c.Say("Dry run: nothing was changed.")
	case a.options.Control.Values() != nil:
		c.Say("The circuit breaker was set on all gateways that share the configuration.")
		err = a.options.Control.HoldBreaker(c.Context(), instance.Service, instance.ID, wanted.State, hold.By,
			hold.Reason)
	default:
		instance.Breaker.Force(wanted.State, hold, time.Now())
	}
	now := instance.Breaker.Snapshot()
	c.Done("circuit breaker %s→%s on %s", before.Forced, wanted.State, instance.Handle)
	return heldBreaker{
		instance.ID, now.State, now.Forced, now.Hold.By, now.Hold.Reason, web.TimeOrNil(now.Hold.Since),
		wanted.State != before.Forced, c.DryRun,
	}, err
}

// breakerRequest is the body for setting a circuit breaker.
type breakerRequest struct {
	InstanceID string       `json:"instanceId" required:"true" minLength:"1"`
	State      breaker.Mode `json:"state" required:"true" enum:"OPEN,CLOSED,AUTO" want:"field.state"`
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
