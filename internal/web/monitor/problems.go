package monitor

import (
	"net/http"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// problemsQuery bounds the list of problems.
type problemsQuery struct {
	Limit int `json:"limit" empty:"true" minimum:"1" doc:"10 if left out."`
}

// problemList has the latest problems, which are remembered apart from the calls.
type problemList struct {
	Problems []problemView `json:"problems"`
}

// problemView is failures of the same kind.
type problemView struct {
	Kind       string             `json:"kind" enum:"attempt,request" doc:"attempt: an instance failed. request: the request was refused or failed without one to blame."`
	Service    schema.ServiceType `json:"service"`
	Model      string             `json:"model,omitzero"`
	InstanceID string             `json:"instanceId,omitzero"`
	Code       string             `json:"code"`
	Text       string             `json:"text,omitzero" doc:"What was said about the latest, without secrets and addresses."`
	HTTPStatus int                `json:"httpStatus,omitzero" doc:"What the latest caller was sent; 200 where another instance helped."`
	Count      int64              `json:"count"`
	First      string             `json:"first" format:"date-time"`
	Last       string             `json:"last" format:"date-time"`
	RequestID  string             `json:"requestId" doc:"Of the latest call."`
}

// problems answers GET /api/monitoring/problems.
func (a *API) problems(r *http.Request) (problemList, error) {
	limit, err := limitOf(r, 10)
	if err != nil {
		return problemList{}, err
	}
	list := problemList{[]problemView{}}
	for _, p := range a.recorder.Problems() {
		if len(list.Problems) == limit {
			break
		}
		kind := "request"
		if p.Attempt {
			kind = "attempt"
		}
		list.Problems = append(list.Problems, problemView{
			Kind: kind, Service: p.Service, Model: p.Model, InstanceID: p.Instance, Code: p.Code, Text: p.Text, HTTPStatus: p.Status,
			Count: p.Count, First: web.Time(p.First), Last: web.Time(p.Last), RequestID: p.RequestID,
		})
	}
	return list, nil
}

// limitOf reads how long a list may be.
func limitOf(r *http.Request, otherwise int) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return otherwise, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 {
		return 0, invalid("limit: want a number from 1 on")
	}
	return limit, nil
}
