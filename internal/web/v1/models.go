package v1

import (
	"net/http"
	"time"

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

func modelOf(m routing.Model) model {
	return model{ID: m.ID, Object: "model", Created: m.Created.Unix(), OwnedBy: "patchbay"}
}

// Models answers GET /v1/models.
func (a *API) Models(w http.ResponseWriter, r *http.Request) {
	if !a.admitted(w, r) {
		return
	}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list", Data: []model{}}
	w.Header()["X-Router-Attempts"] = smallNumbers[:1:1]
	for _, m := range a.current.Load().Models() {
		list.Data = append(list.Data, modelOf(m))
	}
	web.WriteJSON(w, http.StatusOK, list)
}

// Model answers GET /v1/models/{id}.
func (a *API) Model(w http.ResponseWriter, r *http.Request) {
	if !a.admitted(w, r) {
		return
	}
	id := r.PathValue("id")
	for _, m := range a.current.Load().Models() {
		if m.ID == id {
			w.Header()["X-Router-Attempts"] = smallNumbers[:1:1]
			web.WriteJSON(w, http.StatusOK, modelOf(m))
			return
		}
	}
	param := "model"
	WriteError(w, &schema.Error{
		Message: "The model '" + shorten(id) + "' does not exist.",
		Type:    schema.TypeNotFound,
		Param:   &param,
		Code:    schema.CodeModelNotFound,
	})
}

// admitted checks the caller's key for an endpoint without a body.
func (a *API) admitted(w http.ResponseWriter, r *http.Request) bool {
	guard := a.options.Keys.Guard()
	if guard == nil {
		return true
	}
	if _, err := guard.Identify(r.Header, time.Now()); err != nil {
		WriteError(w, err)
		return false
	}
	return true
}
