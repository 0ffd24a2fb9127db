package v1

import (
	"net/http"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// model is an entry of the model list, as clients of the unified API know it.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type modelList struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

func modelOf(m routing.Model) model {
	return model{ID: m.ID, Object: "model", Created: m.Created.Unix(), OwnedBy: "patchbay"}
}

// Models answers GET /v1/models.
func (a *API) Models(w http.ResponseWriter, r *http.Request) {
	models, err := a.models(r)
	hasMore := false
	if err == nil {
		models, hasMore, err = selectModels(models, r.URL.Query())
	}
	if err != nil {
		Fail(w, r, err)
		return
	}
	w.Header()["X-Router-Attempts"] = attemptsText(0)
	if speaksMessages(r) {
		showRequestID(w.Header())
		web.WriteJSON(w, http.StatusOK, messagesPage(models, hasMore))
		return
	}
	web.WriteJSON(w, http.StatusOK, modelList{"list", models})
}

// Model answers GET /v1/models/{id}.
func (a *API) Model(w http.ResponseWriter, r *http.Request) {
	models, err := a.models(r)
	if err != nil {
		Fail(w, r, err)
		return
	}
	id := r.PathValue("id")
	n := a.indexOf(models, id)
	if n < 0 { // a client may have put a slash too many in front of the name, or into it
		n = a.indexOf(models, strings.TrimPrefix(web.CollapseSlashes(id), "/"))
	}
	if n >= 0 {
		w.Header()["X-Router-Attempts"] = attemptsText(0)
		if speaksMessages(r) {
			showRequestID(w.Header())
			web.WriteJSON(w, http.StatusOK, messagesModelOf(models[n]))
			return
		}
		web.WriteJSON(w, http.StatusOK, models[n])
		return
	}
	param := "model"
	Fail(w, r, &schema.Error{
		Message: "The model '" + shorten(id) + "' does not exist.",
		Type:    schema.TypeNotFound,
		Param:   &param,
		Code:    schema.CodeModelNotFound,
	})
}

// indexOf returns where the model with a name is in the list, -1 if it is not there.
func (a *API) indexOf(models []model, name string) int {
	listed := a.current.Load().ModelName(name)
	return slices.IndexFunc(models, func(m model) bool { return m.ID == listed })
}

// models lists the models that the caller may use, each once.
func (a *API) models(r *http.Request) ([]model, *schema.Error) {
	table := a.current.Load()
	usable := func(routing.Model) bool { return true }
	grant, err := a.options.Keys.Identify(r.Header, web.ClientAddr(r, a.options.TrustedProxies))
	if err != nil {
		return nil, err
	}
	if grant != nil {
		good := make(map[string]bool)
		for _, m := range table.Entries() {
			good[m.ID] = good[m.ID] || grant.MayUse(m.Service, m.ID) || m.Target != "" && grant.MayUse(m.Service, m.Target)
		}
		usable = func(m routing.Model) bool { return good[m.ID] }
	}
	models := []model{}
	for _, m := range table.Models() {
		if usable(m) {
			models = append(models, modelOf(m))
		}
	}
	return models, nil
}
