package monitor

import (
	"cmp"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/problems"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// problemsQuery narrows the problems, and bounds the list of problems.
type problemsQuery struct {
	Limit    int    `json:"limit" empty:"true" minimum:"1" doc:"Of the member problems; 10 if left out."`
	Service  string `json:"service" doc:"Only of this service type."`
	Model    string `json:"model" doc:"Only of this model."`
	Instance string `json:"instance" doc:"Only of this instance."`
	Host     string `json:"host" doc:"Only of the instances of this host."`
	Tenant   string `json:"tenant" doc:"Only what calls of this tenant met; the counts are those of its calls."`
	KeyID    string `json:"keyId" doc:"Only what calls with this key met; the counts are those of its calls."`
}

// problemList says what is wrong.
type problemList struct {
	Headline headlineView  `json:"headline"`
	Groups   []groupView   `json:"groups"`
	Problems []problemView `json:"problems"`
}

// Docs says more about some members than a tag has room for.
func (problemList) Docs() map[string]string {
	return map[string]string{
		"groups": "What is wrong, each a cause at an object, in the order in which people should hear of it: " +
			"by state, then the one that began last. Models of one host that fail alike are one group, unless " +
			"one object is asked for. A group is over when nothing happened for 15 minutes; what comes later " +
			"is a new one. At most 200 are kept.",
		"problems": "The same by instance or model, the latest first.",
	}
}

// headlineView is the worst of what is wrong now.
type headlineView struct {
	State problems.State `json:"state,omitzero" doc:"Of the worst group; left out where nothing is wrong now."`
	Text  string         `json:"text"`
	Said  []say.Sentence `json:"said,omitzero" doc:"The text as codes and values."`
}

// groupView is one problem.
type groupView struct {
	Kind       problems.Kind      `json:"kind"`
	State      problems.State     `json:"state"`
	Subject    string             `json:"subject,omitzero"`
	Service    schema.ServiceType `json:"service"`
	Summary    string             `json:"summary" doc:"The object and the cause in a sentence."`
	Summarised []say.Sentence     `json:"summarySaid,omitzero" doc:"The summary as codes and values."`
	Code       string             `json:"code"`
	Text       string             `json:"text,omitzero" doc:"Of the latest: the backend's words, or the client's."`
	Said       []say.Sentence     `json:"said,omitzero" doc:"The text as codes and values."`
	HTTPStatus int                `json:"httpStatus,omitzero" doc:"Of the backend's answer, or as the client was sent."`
	Models     []string           `json:"models"`
	Instances  []string           `json:"instances"`
	problems.Counts
	Fallbacks    []problems.Fallback `json:"fallbacks,omitzero" doc:"The models for which another one answered."`
	Calls        int64               `json:"calls,omitzero" doc:"All calls under that limit or budget in 5 minutes."`
	CallsRefused int64               `json:"callsRefused,omitzero" doc:"Those of them that were refused."`
	Until        string              `json:"until,omitzero" format:"date-time"`
	Since        string              `json:"since" format:"date-time"`
	Last         string              `json:"last" format:"date-time"`
	RequestID    string              `json:"requestId" doc:"Of the latest call; empty where no call failed."`
}

// Docs says more about some members than a tag has room for.
func (groupView) Docs() map[string]string {
	return map[string]string{
		"kind": "backend: calls of a host fail. refusal: a limit or a budget refuses calls. request: calls " +
			"fail before a backend is asked. stranger: calls come without a valid key. Others are findings, " +
			"for which no call failed: down, replaced, troubled, budget, slow.",
		"state": "losing: a call was lost in the last minute. unserved: no instance can serve it. refusing: a " +
			"call was refused in the last minute. rescuing: a call was rescued in the last minute. found: a " +
			"finding. waiting: nothing happened for a minute. over: nothing happened for 15 minutes.",
		"subject": "The host, whose limit or budget it is (as refusedBy of a call), or the name that was asked " +
			"for.",
		"until": "When requests may come again, if known.",
	}
}

func viewOfGroup(g *problems.Group, words web.Wording) groupView {
	text, said := words(g.Said)
	view := groupView{
		Kind: g.Kind, State: g.State, Subject: g.Object, Service: g.Service, Code: g.Code, Text: text, Said: said,
		Summary: g.Summary.String(), Summarised: say.All(g.Summary),
		HTTPStatus: g.Status, Models: append([]string{}, g.Models...), Instances: append([]string{}, g.Instances...),
		Counts: g.Counts, Fallbacks: g.Fallbacks, Calls: g.Calls, CallsRefused: g.CallsRefused,
		Since: web.Time(g.First), Last: web.Time(g.Last), RequestID: g.RequestID,
	}
	if g.Host != "" {
		view.Subject = g.Host
	}
	if !g.Until.IsZero() {
		view.Until = web.Time(g.Until)
	}
	return view
}

// problemView is failures of the same kind.
type problemView struct {
	Kind       string             `json:"kind" enum:"attempt,request"`
	Service    schema.ServiceType `json:"service"`
	Model      string             `json:"model,omitzero"`
	InstanceID string             `json:"instanceId,omitzero"`
	Code       string             `json:"code"`
	Text       string             `json:"text,omitzero" doc:"About the latest, without secrets and addresses."`
	Said       []say.Sentence     `json:"said,omitzero" doc:"The text as codes and values."`
	HTTPStatus int                `json:"httpStatus,omitzero" doc:"Of the latest reply; 200 if another helped."`
	Count      int64              `json:"count"`
	First      string             `json:"first" format:"date-time"`
	Last       string             `json:"last" format:"date-time"`
	RequestID  string             `json:"requestId" doc:"Of the latest call."`
}

// Docs says more about some members than a tag has room for.
func (problemView) Docs() map[string]string {
	return map[string]string{
		"kind": "attempt: an instance failed. request: the request was refused or failed without one to blame.",
	}
}

func viewOfProblem(g *problems.Group, words web.Wording) problemView {
	text, said := words(g.Said)
	view := problemView{
		Kind: "request", Service: g.Service, Code: g.Code, Text: text, Said: said, HTTPStatus: g.Sent,
		Count: g.Lost + g.Rescued + g.Refused, First: web.Time(g.First), Last: web.Time(g.Last), RequestID: g.RequestID,
	}
	if len(g.Models) > 0 {
		view.Model = g.Models[len(g.Models)-1]
	}
	if g.Kind == problems.AtBackend {
		view.Kind, view.InstanceID, view.Count = "attempt", g.Object, g.Tried
	}
	return view
}

// problems answers GET /api/monitoring/problems.
func (a *API) problems(c *web.Call, q *problemsQuery) (problemList, error) {
	asked := problems.Question{Words: c.Who.Role.SeesWords(), Budgets: c.Who.Role.Holds(access.ReadQuotaUsage),
		Object: problems.Object{Model: q.Model, Instance: q.Instance, Host: q.Host,
			Accounts: problems.AccountsOf(q.Tenant, q.KeyID)}}
	if q.Service != "" {
		service, err := schema.ParseServiceType(q.Service)
		if err != nil {
			return problemList{}, web.Invalid("service", say.From(err))
		}
		asked.Service = &service
	}
	now, words := time.Now(), c.Words()
	report := a.Problems.Report(now, problems.Slow(a.sampler.Slow), asked)
	list := problemList{Groups: []groupView{}, Problems: []problemView{},
		Headline: headlineView{report.State, report.Said.String(), say.All(report.Said)}}
	for i := range report.Groups {
		list.Groups = append(list.Groups, viewOfGroup(&report.Groups[i], words))
	}
	for _, one := range a.Problems.Latest(now, asked.Object, cmp.Or(q.Limit, 10)) {
		list.Problems = append(list.Problems, viewOfProblem(&one, words))
	}
	return list, nil
}
