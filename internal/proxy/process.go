package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/transport"
)

// awaitProcess waits until the process of the instance is ready, and returns where it is
// called. A process that cannot be started is no failure of a call: whoever runs it decides
// when it is tried again.
func (a *attempt) awaitProcess(ctx context.Context) (*transport.Origin, *fault) {
	began := time.Now()
	origin, permit, err := a.instance.AwaitProcess(ctx, a.permit)
	a.Record.Queued += time.Since(began)
	a.permit = permit
	if err == nil {
		return origin, nil
	}
	known := schema.NewError(schema.CodeServiceUnavailable, fmt.Sprintf("The server of the model %q could not be started, or was not ready in time.", a.Model))
	known.RetryAfter = time.Second
	a.Record.Try().Text = err.Error()
	return nil, &fault{err: known, outcome: breaker.Cancelled, failover: true, unsent: true}
}
