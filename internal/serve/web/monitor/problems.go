package monitor

import (
	"cmp"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// problemsQuery bounds the list of problems.
type problemsQuery struct {
	Limit int `json:"limit" empty:"true" minimum:"1" doc:"10 if left out."`
}

// problemList has the latest problems, which are remembered apart from the calls.
type problemList struct {
	Problems []problemView `json:"problems"`
	Groups   []groupView   `json:"groups"`
}

// Docs says more about some members than a tag has room for.
func (problemList) Docs() map[string]string {
	return map[string]string{
		"groups": "The same by cause: the calls of one backend that fail alike, and what one limit or budget " +
			"refuses. The one that began last comes first. A group is over when nothing happened for 15 " +
			"minutes.",
	}
}

// groupView is problems with one cause.
type groupView struct {
	Kind       calls.GroupKind    `json:"kind" enum:"backend,refusal,request"`
	Subject    string             `json:"subject,omitzero"`
	Service    schema.ServiceType `json:"service"`
	Code       string             `json:"code"`
	Text       string             `json:"text,omitzero" doc:"Of the latest: the backend's words, or the client's."`
	Said       []say.Sentence     `json:"said,omitzero" doc:"The text as codes and values."`
	HTTPStatus int                `json:"httpStatus,omitzero" doc:"Of the backend's answer, or as the client was sent."`
	Models     []string           `json:"models"`
	Instances  []string           `json:"instances"`
	Rescued    int64              `json:"rescued" doc:"Requests that another instance or model answered, since then."`
	Fallbacks  []calls.Fallback   `json:"fallbacks,omitzero" doc:"The models for which another one answered."`
	Lost       int64              `json:"lost" doc:"Requests that failed, since then."`
	Calls      int64              `json:"calls,omitzero" doc:"All requests under that limit or budget in 5 minutes."`
	Refused    int64              `json:"refused,omitzero" doc:"Those of them that were refused."`
	Until      string             `json:"until,omitzero" format:"date-time"`
	Since      string             `json:"since" format:"date-time"`
	Last       string             `json:"last" format:"date-time"`
	RequestID  string             `json:"requestId" doc:"Of the latest call."`
}

// Docs says more about some members than a tag has room for.
func (groupView) Docs() map[string]string {
	return map[string]string{
		"kind": "backend: calls of a host fail. refusal: a limit or a budget refuses requests. request: " +
			"requests fail before a backend is asked.",
		"subject": "The host, whose limit or budget it is (as refusedBy of a call), or the name that was asked " +
			"for.",
		"until": "When requests may come again, if known.",
	}
}

// groups returns the problems by cause.
func (a *API) groups(now time.Time, words web.Wording) []groupView {
	list := []groupView{}
	for _, g := range a.recorder.Groups(now) {
		text, said := words(g.Text, g.Said)
		view := groupView{
			Kind: g.Kind, Subject: g.Subject, Service: g.Service, Code: g.Code, Text: text, Said: said,
			HTTPStatus: g.Status, Models: append([]string{}, g.Models...),
			Instances: append([]string{}, g.Instances...),
			Rescued:   g.Rescued, Fallbacks: g.Fallbacks, Lost: g.Lost, Calls: g.Calls, Refused: g.Refused,
			Since: web.Time(g.First), Last: web.Time(g.Last), RequestID: g.RequestID,
		}
		if !g.Until.IsZero() {
			view.Until = web.Time(g.Until)
		}
		list = append(list, view)
	}
	return list
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

// problems answers GET /api/monitoring/problems.
func (a *API) problems(c *web.Call, q *problemsQuery) (problemList, error) {
	limit, words := cmp.Or(q.Limit, 10), c.Words()
	list := problemList{[]problemView{}, a.groups(time.Now(), words)}
	for _, p := range a.recorder.Problems() {
		if len(list.Problems) == limit {
			break
		}
		kind := "request"
		if p.Instance != "" {
			kind = "attempt"
		}
		text, said := words(p.Text, p.Said)
		list.Problems = append(list.Problems, problemView{
			Kind: kind, Service: p.Service, Model: p.Model, InstanceID: p.Instance, Code: p.Code, Text: text,
			Said: said, HTTPStatus: p.Status,
			Count: p.Count, First: web.Time(p.First), Last: web.Time(p.Last), RequestID: p.RequestID,
		})
	}
	return list, nil
}
