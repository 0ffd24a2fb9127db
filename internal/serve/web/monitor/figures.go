package monitor

import (
	"cmp"
	"time"

	"github.com/patchbay-ai/patchbay/internal/serve/live"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// figuresQuery chooses figures.
type figuresQuery struct {
	By         string `json:"by" empty:"true" enum:"service,model,instance,host" doc:"instance if left out."`
	Range      string `json:"range" empty:"true" enum:"5m,1h,24h,7d,30d" doc:"5m if left out."`
	Service    string `json:"service" doc:"Only this service type."`
	Model      string `json:"model" doc:"Only this model, or its instances, by model, instance and host."`
	InstanceID string `json:"instanceId" doc:"Only this instance, by instance."`
	Host       string `json:"host" doc:"Only this host, or its instances, by host and by instance."`
}

// figures answers GET /api/monitoring/figures.
func (a *API) figures(_ *web.Call, asked *figuresQuery) (live.FigureList, error) {
	by := cmp.Or(asked.By, string(live.ByInstance))
	q, err := queryOf(&seriesQuery{Metric: metricList(live.Whole), By: by, Range: asked.Range, Service: asked.Service,
		Model: asked.Model, InstanceID: asked.InstanceID, Host: asked.Host})
	if err != nil {
		return live.FigureList{}, err
	}
	if q.By == live.Total || q.By == live.ByTenant {
		return live.FigureList{}, web.BadInput("by",
			"field.want_one_of", "known", "service, model, instance, host")
	}
	return a.sampler.Figures(q, time.Now()), nil
}
