package control

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Version is one stored state of the services.
type Version struct {
	Number    int       `json:"version"`
	CreatedAt time.Time `json:"createdAt"`
	// Origin says where the change came from, Summary what it changed.
	Origin   string   `json:"origin"`
	Summary  string   `json:"summary"`
	Services Services `json:"services"`
}

// Services are the configured service types.
type Services map[schema.ServiceType]config.Service

// UnmarshalJSON reads services on top of their defaults, so that a version
// written before a setting existed gets the setting's default.
func (s *Services) UnmarshalJSON(data []byte) error {
	var raw map[schema.ServiceType]jsontext.Value
	if err := json.Unmarshal(data, &raw, strict); err != nil {
		return err
	}
	*s = make(Services, len(raw))
	for serviceType, value := range raw {
		service, err := readService(value)
		if err != nil {
			return err
		}
		(*s)[serviceType] = service
	}
	return nil
}

func readService(data jsontext.Value) (config.Service, error) {
	service := config.DefaultService()
	if err := json.Unmarshal(data, &service, strict); err != nil {
		return service, err
	}
	var lists struct {
		Instances []jsontext.Value `json:"instances"`
	}
	if err := json.Unmarshal(data, &lists); err != nil {
		return service, err
	}
	for i, value := range lists.Instances {
		service.Instances[i] = backend.DefaultSettings()
		if err := json.Unmarshal(value, &service.Instances[i], strict); err != nil {
			return service, err
		}
	}
	return service, nil
}

// strict refuses what this program does not know: a version that a newer one
// wrote must not lose half of its meaning without a word.
var strict = json.RejectUnknownMembers(true)
