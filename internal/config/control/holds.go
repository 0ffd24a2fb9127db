package control

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
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

// holds are the circuit breakers that are held on all gateways, by the names of their
// values.
type holds map[string]hold

// HoldBreaker holds the circuit breaker of an instance on all gateways of the
// shared configuration, or releases it.
func (c *Control) HoldBreaker(ctx context.Context, service schema.ServiceType, instance string, mode breaker.Mode,
	operator, reason string) error {
	return c.shared.values.Change(ctx, func() (string, []byte, error) {
		value, err := json.Marshal(hold{mode, operator, time.Now().UTC(), reason})
		return holdPrefix + service.String() + "/" + instance, value, err
	})
}

// TakeHolds is the Follower that applies held circuit breakers on this gateway. Values
// calls its followers with the lock of Control.
func (c *Control) TakeHolds(_ string, whole bool, values map[string]seal.Value) {
	released := c.holds.take(whole, values, c.log)
	table := c.current.Load()
	released.apply(table)
	c.holds.apply(table)
}

// take takes values over, and returns the breakers that are not held any more. Whole says
// that these are all values.
func (h holds) take(whole bool, values map[string]seal.Value, log *slog.Logger) (released holds) {
	released = holds{}
	if whole {
		for name := range h {
			released[name] = hold{State: breaker.Auto}
		}
		clear(h)
	}
	for name, value := range values {
		if !strings.HasPrefix(name, holdPrefix) {
			continue
		}
		var next hold
		if err := json.Unmarshal(value.Data, &next, strict()); err != nil {
			log.Error("a shared circuit breaker cannot be read and stays as it is", "name", name, "error", err)
			continue
		}
		delete(released, name)
		if next.State == breaker.Auto {
			delete(h, name)
			released[name] = next
			continue
		}
		h[name] = next
	}
	return released
}

// apply sets the circuit breakers of the instances in a table. Breakers that are set
// already do not change.
func (h holds) apply(table *routing.Table) {
	if table == nil {
		return
	}
	for name, held := range h {
		serviceName, id, _ := strings.Cut(strings.TrimPrefix(name, holdPrefix), "/")
		service, err := schema.ParseServiceType(serviceName)
		if err != nil {
			continue
		}
		if instance := table.Service(service).Instance(id); instance != nil {
			instance.Breaker.Force(held.State, breaker.Hold{By: held.By, Reason: held.Reason}, held.Since)
		}
	}
}
