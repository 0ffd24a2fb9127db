package control

import (
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// holdPrefix begins the names of the shared values that say which circuit breakers
// operators hold. The service type and the id of the instance follow.
const holdPrefix = "breaker/"

// hold is a circuit breaker that an operator holds on all gateways.
type hold struct {
	State breaker.Mode `json:"state"`
	By    string       `json:"by"`
	Since time.Time    `json:"since"`

	Reason string `json:"reason,omitzero"`
}

// HoldBreaker holds the circuit breaker of an instance on all gateways of the
// shared configuration, or releases it.
func (c *Control) HoldBreaker(ctx context.Context, service schema.ServiceType, instance string, mode breaker.Mode, operator, reason string) error {
	return c.values.Change(ctx, func() (string, []byte, error) {
		value, err := json.Marshal(hold{mode, operator, time.Now().UTC(), reason})
		return holdPrefix + service.String() + "/" + instance, value, err
	})
}

// TakeHolds is the Follower that applies held circuit breakers on this gateway.
func (c *Control) TakeHolds(_ string, whole bool, values map[string][]byte) {
	released := map[string]hold{}
	if whole {
		for name := range c.holds {
			released[name] = hold{State: breaker.Auto}
		}
		c.holds = nil
	}
	for name, value := range values {
		if !strings.HasPrefix(name, holdPrefix) {
			continue
		}
		var next hold
		if err := json.Unmarshal(value, &next, strict()); err != nil {
			c.log.Error("a shared circuit breaker cannot be read and stays as it is", "name", name, "error", err)
			continue
		}
		delete(released, name)
		if next.State == breaker.Auto {
			delete(c.holds, name)
			released[name] = next
			continue
		}
		if c.holds == nil {
			c.holds = map[string]hold{}
		}
		c.holds[name] = next
	}
	table := c.current.Load()
	applyHolds(table, released)
	applyHolds(table, c.holds)
}

// applyHolds sets the circuit breakers of the instances that a table has. Those
// that are set already do not change.
func applyHolds(table *routing.Table, holds map[string]hold) {
	if table == nil {
		return
	}
	for name, h := range holds {
		serviceName, id, _ := strings.Cut(strings.TrimPrefix(name, holdPrefix), "/")
		service, err := schema.ParseServiceType(serviceName)
		if err != nil {
			continue
		}
		if instance := table.Service(service).Instance(id); instance != nil {
			instance.Breaker.Force(h.State, breaker.Hold{By: h.By, Reason: h.Reason}, h.Since)
		}
	}
}
