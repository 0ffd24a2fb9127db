package monitor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
	"github.com/patchbay-ai/patchbay/internal/serve/live"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// seriesQuery chooses a part of the history.
type seriesQuery struct {
	Metric     metricList `json:"metric" doc:"Those wanted, with commas between them; all if left out."`
	By         string     `json:"by" empty:"true" enum:"total,service,model,instance,host,tenant"`
	Range      string     `json:"range" empty:"true" enum:"5m,1h,24h,7d,30d"`
	Service    string     `json:"service" doc:"Only this service type."`
	Model      string     `json:"model" doc:"Only this model, or its instances, by model, instance and host."`
	InstanceID string     `json:"instanceId" doc:"Only this instance."`
	Host       string     `json:"host" doc:"Only this host, or its instances, by host and by instance."`
	Tenant     string     `json:"tenant" doc:"Only this tenant, by tenant."`
}

// Docs says more about some members than a tag has room for.
func (seriesQuery) Docs() map[string]string {
	return map[string]string{
		"by": "total if left out. Hosts and tenants have a series for each service type, and tenants what " +
			"sampling leaves of their requests.",
		"range": "5m if left out: 300 points of a second, 240 of 15 seconds, 288 of 5 minutes, 1008 of 10 minutes, " +
			"720 of an hour. All but 5m outlive a restart.",
	}
}

// metricList has names of metrics, with commas between them.
type metricList string

// Keywords describe such a list.
func (metricList) Keywords() map[string]any {
	const one = "(requests|latency|ttft|perToken|tokens|overhead|cost|whole)"
	return map[string]any{"pattern": "^(|" + one + "(," + one + ")*)$"}
}

// series answers GET /api/monitoring/series.
func (a *API) series(_ *web.Call, asked *seriesQuery) (live.History, error) {
	q, err := queryOf(asked)
	if err != nil {
		return live.History{}, err
	}
	if q.By == live.ByTenant {
		a.Recorder.Flush()
	}
	return a.sampler.History(q), nil
}

// queryOf reads a query of the history.
func queryOf(asked *seriesQuery) (live.Query, error) {
	q := live.Query{
		By: live.Grouping(cmp.Or(asked.By, string(live.Total))), Model: asked.Model, Instance: asked.InstanceID,
		Host: asked.Host, Tenant: asked.Tenant,
	}
	var err error
	if q.Metrics, err = live.ParseMetrics(string(asked.Metric)); err != nil {
		return live.Query{}, web.Invalid("metric", say.From(err))
	}
	if q.Range, err = rangeOf(asked.Range); err != nil {
		return live.Query{}, err
	}
	if all := live.Groupings(); !slices.Contains(all, string(q.By)) {
		return live.Query{}, web.BadInput("by", "field.want_one_of", "known", strings.Join(all, ", "))
	}
	if asked.Service != "" {
		service, err := schema.ParseServiceType(asked.Service)
		if err != nil {
			return live.Query{}, web.Invalid("service", say.From(err))
		}
		q.Service = &service
	}
	return q, nil
}

// rangeOf reads the range of a query, 5m if there is none.
func rangeOf(name string) (live.Range, error) {
	parsed, err := live.ParseRange(cmp.Or(name, live.FiveMinutes.String()))
	if err != nil {
		return 0, web.Invalid("range", say.From(err))
	}
	return parsed, nil
}

// sharesQuery chooses the time of the shares.
type sharesQuery struct {
	Range string `json:"range" empty:"true" enum:"5m,1h,24h,7d,30d" doc:"5m if left out."`
}

// shareList compares how requests should be distributed with how they were.
type shareList struct {
	Range  live.Range  `json:"range"`
	Shares []shareView `json:"shares"`
}

// shareView is the share of an instance among the instances of its model.
type shareView struct {
	Service       schema.ServiceType `json:"service"`
	Model         string             `json:"model"`
	InstanceID    string             `json:"instanceId"`
	Handle        string             `json:"handle"`
	Backend       string             `json:"backend" doc:"The address of the backend."`
	Requests      int64              `json:"requests" doc:"Ended calls; a second attempt counts where it was made."`
	Errors        int64              `json:"errors"`
	Share         *float64           `json:"share" minimum:"0" maximum:"1" doc:"Null where the model had no requests."`
	ExpectedShare float64            `json:"expectedShare" minimum:"0" maximum:"1" doc:"By weight, of those ready."`
	Reason        string             `json:"reason,omitzero" doc:"Why the instance would not be picked now."`
	Said          []say.Sentence     `json:"said,omitzero" doc:"The reason as codes and values."`
	P95           *float64           `json:"p95" doc:"Milliseconds; null without requests."`
}

// shares answers GET /api/monitoring/shares.
func (a *API) shares(_ *web.Call, q *sharesQuery) (shareList, error) {
	within, err := rangeOf(q.Range)
	if err != nil {
		return shareList{}, err
	}
	list := shareList{Range: within, Shares: []shareView{}}
	used, table, now := a.sampler.Usage(within), a.Current.Load(), time.Now()
	for _, serviceType := range schema.ServiceTypes() {
		service := table.Service(serviceType)
		if service == nil {
			continue
		}
		for _, pool := range service.Pools {
			var total int64
			for _, i := range pool.Instances {
				total += used[live.InstanceKey{Service: serviceType, ID: i.ID}].Calls
			}
			for _, candidate := range survey.ExplainModel(table,
				survey.Subject{Door: schema.Door(serviceType), Model: pool.Model}, now).Candidates {
				i := candidate.Instance
				usage := used[live.InstanceKey{Service: serviceType, ID: i.ID}]
				view := shareView{
					Service: serviceType, Model: pool.Model, InstanceID: i.ID, Handle: i.Handle,
					Backend:  i.Settings.BaseURL,
					Requests: usage.Calls, Errors: usage.Errors, ExpectedShare: candidate.Chance,
					Reason: candidate.Reason.String(), Said: say.All(candidate.Reason),
				}
				if total > 0 {
					share := float64(usage.Calls) / float64(total)
					view.Share = &share
				}
				if usage.Latency != nil {
					view.P95 = &usage.Latency.P95
				}
				list.Shares = append(list.Shares, view)
			}
		}
	}
	return list, nil
}
