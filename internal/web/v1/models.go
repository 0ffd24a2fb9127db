package v1

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/messages"
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

// speaksMessages tells whether the caller of an endpoint that several APIs have speaks
// Anthropic's: its clients always say which version of it they speak.
func speaksMessages(r *http.Request) bool { return r.Header.Get("Anthropic-Version") != "" }

// messagesModel is a model as Anthropic's API shows it.
type messagesModel struct {
	Type        string `json:"type" const:"model"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at" format:"date-time"`
	Lifecycle   string `json:"lifecycle" const:"active"`
}

// messagesModelOf returns a model as Anthropic's API shows it. A model that is listed can be
// used, which that API calls active.
func messagesModelOf(m model) messagesModel {
	return messagesModel{"model", m.ID, m.ID, time.Unix(m.Created, 0).UTC().Format(time.RFC3339), "active"}
}

// messagesModelPage is a page of the list of models.
type messagesModelPage struct {
	Data    []messagesModel `json:"data"`
	HasMore bool            `json:"has_more"`
	FirstID *string         `json:"first_id"`
	LastID  *string         `json:"last_id"`
}

// modelsQuery selects a page of the list, in the shape of either API.
type modelsQuery struct {
	Limit    int64  `json:"limit" minimum:"1" maximum:"1000" doc:"How many models; all if it is left out."`
	AfterID  string `json:"after_id" doc:"Those after this model."`
	BeforeID string `json:"before_id" doc:"Those before this model."`
}

// selectModels returns the models that a query selects, and whether there are more in
// the direction in which the query goes.
func selectModels(models []model, query url.Values) (selected []model, hasMore bool, failed *schema.Error) {
	const most = 1000
	limit := len(models)
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return nil, false, schema.InvalidValue("limit", "'limit' must be between 1 and 1000.")
		}
		limit = n
	}
	at := func(id string) int { return slices.IndexFunc(models, func(m model) bool { return m.ID == id }) }
	from, to := 0, len(models)
	if n := at(query.Get("after_id")); n >= 0 {
		from = n + 1
	}
	if n := at(query.Get("before_id")); n >= 0 {
		to = max(from, n)
		from = max(from, to-limit)
	}
	hasMore = from+limit < to
	if query.Has("before_id") {
		hasMore = from > 0
	}
	return models[from:min(to, from+limit)], hasMore, nil
}

// messagesPage returns models as a page of Anthropic's API.
func messagesPage(models []model, hasMore bool) messagesModelPage {
	page := messagesModelPage{Data: []messagesModel{}, HasMore: hasMore}
	for _, m := range models {
		page.Data = append(page.Data, messagesModelOf(m))
	}
	if n := len(page.Data); n > 0 {
		page.FirstID, page.LastID = &page.Data[0].ID, &page.Data[n-1].ID
	}
	return page
}

// estimateTokens returns the reply to a request for the number of tokens that no
// backend has answered.
func estimateTokens(req *schema.Request) []byte {
	return messages.CountBody(messages.Estimate(req), true)
}

// Replies that have the shape of the API that the caller speaks.
type (
	anyModelList = either[modelList, messagesModelPage]
	anyModel     = either[model, messagesModel]
	anyError     = either[ErrorBody, messages.ErrorBody]
)

// tokenCount is the reply to a request for the number of tokens.
type tokenCount struct {
	InputTokens int64 `json:"input_tokens"`
	Estimated   bool  `json:"estimated,omitzero" doc:"No backend counted them; the header X-Router-Estimated says so, too."`
}
