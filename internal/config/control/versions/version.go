package versions

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/stored"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// Version is one stored state of the services.
type Version struct {
	Number    int       `json:"version"`
	CreatedAt time.Time `json:"createdAt"`
	// Origin is the source of the change, Author the person who made it, Summary a
	// description.
	Origin  string `json:"origin"`
	Author  string `json:"author,omitzero"`
	Summary string `json:"summary"`
	// Said is the description as codes and values.
	Said []say.Sentence `json:"said,omitzero"`
	// Added is when each instance was added.
	Added    routing.Since `json:"added,omitzero"`
	Services Services      `json:"services"`
	// Terms are the terms of keys and tenants. Nil means that each gateway uses the terms of
	// its own configuration file.
	Terms *access.TermSet `json:"terms,omitzero"`
	// Settings are the sections that management has changed. A section that is not there is
	// that of each gateway's configuration file.
	Settings config.Managed `json:"settings,omitzero"`

	// record is the version as it is stored, if it was read.
	record []byte
	// restore is the id of the restore of an unsigned backup with the version that is not confirmed,
	// empty if there is none.
	restore string
}

// ReadVersion decodes a stored version, which must have this number. It refuses unknown
// members: a setting of a version that a newer release wrote must not be dropped
// silently.
func ReadVersion(number int, data []byte) (*Version, error) {
	v := new(Version)
	if err := json.Unmarshal(data, v, strict()); err != nil {
		return nil, fmt.Errorf("version %d: %w", number, err)
	}
	if v.Number != number {
		return nil, fmt.Errorf("version %d: what is stored is version %d", number, v.Number)
	}
	v.record = data
	return v, nil
}

// Since returns when the instances of the version were added.
func (v *Version) Since() routing.Since {
	return AddedTimes(v.Services, v.Added, v.CreatedAt)
}

// AddedTimes returns when each instance of the services was added: the time that
// is known from before, or now for a new one.
func AddedTimes(services Services, before routing.Since, now time.Time) routing.Since {
	since := make(routing.Since, len(services))
	for serviceType, service := range services {
		if len(service.Instances) == 0 {
			continue
		}
		added := make(map[string]time.Time, len(service.Instances))
		for _, instance := range service.Instances {
			id := instance.ID()
			added[id] = now
			if known, ok := before[serviceType][id]; ok {
				added[id] = known
			}
		}
		since[serviceType] = added
	}
	return since
}

// Services are the configured service types.
type Services map[schema.ServiceType]config.Service

// MarshalJSON writes services as they are stored.
func (s Services) MarshalJSON() ([]byte, error) { return stored.Marshal(s) }

// UnmarshalJSON reads services over their defaults: a version that was written before a
// setting existed gets the setting's default.
func (s *Services) UnmarshalJSON(data []byte) (err error) {
	*s, err = stored.Unmarshal(data)
	return err
}

// strict refuses unknown members.
func strict() json.Options { return json.RejectUnknownMembers(true) }
