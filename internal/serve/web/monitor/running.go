package monitor

import (
	"cmp"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// maxRunning is the greatest number of running requests in the list.
const maxRunning = 500

// runningQuery chooses requests that run; the filters are compared whole, except q.
type runningQuery struct {
	Limit    int    `json:"limit" empty:"true" minimum:"1" doc:"At most 500, as if left out; total counts all."`
	Service  string `json:"service"`
	Model    string `json:"model"`
	Instance string `json:"instance"`
	Host     string `json:"host" doc:"The host of the instance, as the groups of problems name it."`
	KeyID    string `json:"keyId"`
	Tenant   string `json:"tenant"`
	User     string `json:"user"`
	Q        string `json:"q" doc:"A part of the request id, model, instance, key, tenant or user, in any case."`
}

// runningCalls are the requests that run.
type runningCalls struct {
	Running []runningCall `json:"running" doc:"The newest first."`
	Total   int           `json:"total" doc:"How many match."`
}

// runningCall is a request that runs.
type runningCall struct {
	RequestID string             `json:"requestId"`
	Time      string             `json:"time" format:"date-time"`
	RunningMs float64            `json:"runningMs"`
	Service   schema.ServiceType `json:"service"`
	Door      schema.Door        `json:"door"`
	Model     string             `json:"model,omitzero"`
	Instance  string             `json:"instance,omitzero" doc:"That has the request now; left out while it waits."`
	Attempts  int                `json:"attempts"`
	KeyID     string             `json:"keyId,omitzero"`
	Tenant    string             `json:"tenant,omitzero"`
	User      string             `json:"user,omitzero"`
	ClientIP  string             `json:"clientIp,omitzero"`
}

// running answers GET /api/monitoring/running.
func (a *API) running(c *web.Call, q *runningQuery) (runningCalls, error) {
	filter, err := newCallFilter(&CallsQuery{Service: q.Service, Model: q.Model, Instance: q.Instance, Host: q.Host,
		KeyID: q.KeyID, Tenant: q.Tenant, User: q.User, Q: q.Q}, c.Words())
	if err != nil {
		return runningCalls{}, err
	}
	now, limit := time.Now(), min(cmp.Or(q.Limit, maxRunning), maxRunning)
	list := runningCalls{Running: []runningCall{}}
	for one := range a.Recorder.Running() {
		call := one.Record()
		if !filter.wants(&call) {
			continue
		}
		if list.Total++; len(list.Running) < limit {
			list.Running = append(list.Running, viewRunning(&call, now))
		}
	}
	return list, nil
}

func viewRunning(c *calls.Record, now time.Time) runningCall {
	view := runningCall{
		RequestID: c.RequestID, Time: web.Time(c.Started), RunningMs: inMilliseconds(now.Sub(c.Started)),
		Service: c.Service, Door: c.Door, Model: c.Model, Instance: c.Instance, Attempts: c.Attempts, KeyID: c.KeyID,
		Tenant: c.Tenant, User: c.User,
	}
	if c.Client.IsValid() {
		view.ClientIP = c.Client.String()
	}
	return view
}

// stopRequest says why a request is stopped.
type stopRequest struct {
	Reason string `json:"reason" maxLength:"200" doc:"Is told to the client, and in the audit log."`
}

// stopped describes the stopped request.
type stopped struct {
	Stopped int `json:"stopped" doc:"How many requests with this id ran: one, unless a client reuses it."`

	tenant string
}

// maxReason bounds a reason.
const maxReason = 200

// stopRunning answers POST /api/monitoring/running/{requestId}/stop. The client gets an
// error, the gateway closes the connection to the backend and settles the use so far.
func (a *API) stopRunning(c *web.Call, body *stopRequest) (found stopped, err error) {
	if len(body.Reason) > maxReason {
		return found, web.BadInput("reason", "field.bytes", "most", "200")
	}
	said := say.New("call.stopped")
	if body.Reason != "" {
		said = say.New("call.stopped_why", "why", body.Reason)
	}
	cause := schema.NewError(schema.CodeStopped, said)
	cause.NoRetry = true
	id := c.PathValue("requestId")
	for one := range a.Recorder.Running() {
		if one.RequestID == id {
			one.Stopper.Stop(cause)
			found.Stopped++
			found.tenant = one.Tenant
		}
	}
	if found.Stopped == 0 {
		return found, web.NoSuch("manage.not_running")
	}
	c.Done("request %s stopped by %s", id, c.Who.String())
	return found, nil
}
