// Package peers lists the gateways that share the configuration with this one (/api/cluster).
package peers

import (
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store/cluster"
)

// API answers the operation.
type API struct{ view func() cluster.View }

// New returns the operation, which shows the result of view.
func New(view func() cluster.View) *API { return &API{view} }

// Routes returns the operation, which the management API completes.
func (a *API) Routes() []web.Route {
	return []web.Route{{
		Tag: "Gateways", Pattern: "GET /api/cluster", Permission: access.ReadVersions, Does: web.Do(a.list),
		Summary: "The gateways that share the configuration: who they are, and whether each runs and has the latest " +
			"configuration",
		Says: "The gateways that are known here.",
	}}
}

// clusterView is the gateways that know each other.
type clusterView struct {
	Source string `json:"source" enum:"postgres,none" doc:"Where gateways announce themselves, if anywhere."`
	// Reached says whether that store can be used, and Reason why not; the members are then
	// the last known ones.
	Reached bool           `json:"reached"`
	Reason  string         `json:"reason,omitzero"`
	Said    []say.Sentence `json:"said,omitzero" doc:"The reason as codes and values."`
	Self    string         `json:"self" doc:"The id of the gateway that answers."`
	Members []memberView   `json:"members"`
}

type memberView struct {
	ID            string          `json:"id"`
	Address       string          `json:"address"`
	Version       string          `json:"version" doc:"Of the program."`
	ConfigVersion int             `json:"configVersion" doc:"The version of the configuration that is in force there."`
	State         string          `json:"state" enum:"up,behind,away,draining"`
	StartedAt     string          `json:"startedAt" format:"date-time"`
	LastSeen      string          `json:"lastSeen" format:"date-time"`
	Stores        map[string]bool `json:"stores" doc:"The stores that it uses, and whether it reaches each."`
}

// Docs says more about some members than a tag has room for.
func (memberView) Docs() map[string]string {
	return map[string]string{
		"state": "behind: it has not had the latest configuration for 10 s; away: it was not heard of for 10 " +
			"s; draining: it ends when its running requests have.",
	}
}

func (a *API) list(*web.Call) (clusterView, error) {
	known := a.view()
	view := clusterView{Source: "none", Reached: known.Failure == nil, Self: known.Self,
		Members: make([]memberView, 0, len(known.Members))}
	if known.IsShared {
		view.Source = "postgres"
	}
	if known.Failure != nil {
		view.Reason, view.Said = known.Failure.Reason, say.All(known.Failure.Said)
	}
	for _, m := range known.Members {
		member := memberView{
			ID: m.ID, Address: m.Address, Version: m.Version, ConfigVersion: m.ConfigVersion, State: string(m.State),
			StartedAt: web.Time(m.StartedAt), LastSeen: web.Time(m.LastSeen), Stores: m.Stores,
		}
		if member.Stores == nil {
			member.Stores = map[string]bool{}
		}
		view.Members = append(view.Members, member)
	}
	return view, nil
}
