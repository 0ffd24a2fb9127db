package manage

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// maxAdded is the greatest number of instances that one request may add.
const maxAdded = 1000

// additions is the body for adding several instances.
type additions struct {
	Instances []addition `json:"instances"`
	Residency bool       `json:"residency"`
}

type addition struct {
	ServiceType string           `json:"serviceType"`
	Instance    backend.Settings `json:"instance"`
}

// SetDefaults gives the instance the settings that hold where the body has none.
func (a *addition) SetDefaults() { *a = addition{Instance: backend.DefaultSettings()} }

// addRequest describes additions in the OpenAPI document.
type addRequest struct {
	Instances []addedInstance `json:"instances" required:"true" minItems:"1"`
	Residency bool            `json:"residency" doc:"Turns residency.enabled of their service types on."`
}

type addedInstance struct {
	ServiceType schema.ServiceType `json:"serviceType" required:"true"`
	Instance    instanceView       `json:"instance" required:"true"`
}

// addInstances makes one version of instances of any service types, such as all models of a
// backend.
func (a *API) addInstances(c *web.Call) (changeView, error) {
	var body additions
	given, err := config.DecodeJSON(c.Content, &body, readOnly()...)
	if err != nil {
		return changeView{}, err
	}
	c.Say("Added %s.", say.Counted(len(body.Instances), "instance"))
	return a.edit(c, func(doc *config.Document) error {
		if len(body.Instances) == 0 {
			return web.BadInput("instances", "field.required")
		}
		if len(body.Instances) > maxAdded {
			return web.BadInput("instances", "field.count", "most", maxAdded)
		}
		for i := range body.Instances {
			at := fmt.Sprintf("instances[%d].", i)
			if err := keepSecrets(&body.Instances[i].Instance, nil, given, at+"instance.", c.Who); err != nil {
				return err
			}
			if err := add(doc, &body.Instances[i], body.Residency, at); err != nil {
				return err
			}
		}
		return nil
	})
}

// add adds an instance to a document, and has its service type load models and put them to
// sleep where that is wanted. The path is its place in the body.
func add(doc *config.Document, next *addition, residency bool, path string) error {
	serviceType, err := schema.ParseServiceType(next.ServiceType)
	if err != nil {
		return web.Invalid(path+"serviceType", say.From(err))
	}
	service, exists := doc.Services[serviceType]
	if !exists {
		service = config.DefaultService()
	}
	if indexOf(service.Instances, next.Instance.ID()) >= 0 {
		return existing(path+"instance.name, "+path+"instance.baseUrl", next.Instance.ID())
	}
	service.Instances = append(service.Instances, next.Instance)
	service.Residency.Enabled = service.Residency.Enabled || residency
	doc.Services[serviceType] = service
	return nil
}
