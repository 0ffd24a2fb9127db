// Package catalog lists the models that a caller may use, in the shape of each API that
// clients of the gateway speak.
package catalog

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Catalog answers requests for lists of models, and for single ones.
type Catalog struct {
	// Current holds the table in force.
	Current *routing.Current
	// Keys decides who may ask, and TrustedProxies are the proxies that may set
	// X-Forwarded-For.
	Keys           access.Callers
	TrustedProxies []netip.Prefix
	// Fail answers with an error, in the dialect of the endpoint.
	Fail func(w http.ResponseWriter, r *http.Request, e *schema.Error)
}

// model is an entry of the model list, as clients of the unified API know it.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Sizes
}

// Sizes are the sizes of a model: its context window under the names that clients look for, and the
// longest answer.
type Sizes struct {
	ContextLength   int64 `json:"context_length,omitzero"`
	ContextWindow   int64 `json:"context_window,omitzero"`
	MaxModelLen     int64 `json:"max_model_len,omitzero"`
	MaxOutputTokens int64 `json:"max_output_tokens,omitzero"`
}

// SizesOf returns sizes as lists have them.
func SizesOf(s engines.Sizes) Sizes { return Sizes{s.Window, s.Window, s.Window, s.Output} }

type modelList struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

func modelOf(m asked) model {
	return model{ID: m.ID, Object: "model", Created: m.Created.Unix(), OwnedBy: "patchbay", Sizes: SizesOf(m.Sizes)}
}

// Models answers GET /v1/models.
func (c *Catalog) Models(w http.ResponseWriter, r *http.Request) {
	if SpeaksGemini(r) {
		c.GeminiModels(w, r)
		return
	}
	models, err := c.models(r)
	hasMore := false
	if err == nil {
		models, hasMore, err = selectModels(models, r.URL.Query())
	}
	if err != nil {
		c.Fail(w, r, err)
		return
	}
	tellNone(w)
	if SpeaksMessages(r) {
		tellID(w)
		web.WriteJSON(w, http.StatusOK, messagesPage(models, hasMore))
		return
	}
	web.WriteJSON(w, http.StatusOK, modelList{"list", models})
}

// Model answers GET /v1/models/{id}.
func (c *Catalog) Model(w http.ResponseWriter, r *http.Request) {
	if SpeaksGemini(r) {
		c.GeminiModel(w, r)
		return
	}
	id := r.PathValue("id")
	models, err := c.models(r, id)
	if err != nil {
		c.Fail(w, r, err)
		return
	}
	if n := c.indexOf(models, id); n >= 0 {
		tellNone(w)
		if SpeaksMessages(r) {
			tellID(w)
			web.WriteJSON(w, http.StatusOK, messagesModelOf(models[n]))
			return
		}
		web.WriteJSON(w, http.StatusOK, models[n])
		return
	}
	param := "model"
	known := schema.CodedError(schema.CodeModelNotFound, "call.no_model", "model", web.CutText(id, longestName))
	known.Param = &param
	c.Fail(w, r, known)
}

// indexOf returns where the model that a path names is in the list, -1 if it is not there.
func (c *Catalog) indexOf(models []model, id string) int {
	table := c.Current.Load()
	for _, name := range spellings(id) {
		listed := table.ModelName(name)
		if n := slices.IndexFunc(models, func(m model) bool { return m.ID == listed }); n >= 0 {
			return n
		}
	}
	return -1
}

// spellings returns the names that a path may mean: as it is written, because names may begin
// with a slash, and without slashes that a client put in front of a name or into it.
func spellings(id string) [2]string {
	return [...]string{id, strings.TrimPrefix(web.CollapseSlashes(id), "/")}
}

// models lists the models that the caller may use, each once, and of the names those that a pattern
// rewrites.
func (c *Catalog) models(r *http.Request, names ...string) ([]model, *schema.Error) {
	list, err := c.list(r, func(schema.ServiceType) bool { return true }, names)
	models := []model{}
	for _, m := range list {
		models = append(models, modelOf(m))
	}
	return models, err
}

// asked is a model in lists, with the services that some APIs name.
type asked struct {
	routing.Model
	engines.Sizes
	chats, embeds bool
}

// list lists the models of service types that the caller may use, sorted, and of the names those that
// a pattern rewrites.
func (c *Catalog) list(
	r *http.Request, wanted func(schema.ServiceType) bool, names []string,
) ([]asked, *schema.Error) {
	grant, err := c.Keys.Identify(r.Header, web.ClientAddr(r, c.TrustedProxies))
	if err != nil {
		return nil, err
	}
	table := c.Current.Load()
	entries := table.Entries()
	for _, name := range names {
		entries = slices.Concat(entries, table.Rewritten(name))
	}
	var list []asked
	places := map[string]int{}
	for _, m := range entries {
		if !wanted(m.Service) || !mayUse(grant, table, m) {
			continue
		}
		n, isThere := places[m.ID]
		if !isThere {
			n = len(list)
			places[m.ID], list = n, append(list, asked{Model: m})
		}
		sizes := table.Service(m.Service).Find(m.ID).Sizes(grant)
		list[n].Window, list[n].Output = max(list[n].Window, sizes.Window), max(list[n].Output, sizes.Output)
		list[n].chats = list[n].chats || m.Service == schema.Chat
		list[n].embeds = list[n].embeds || m.Service == schema.Embedding
	}
	slices.SortFunc(list, func(a, b asked) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// mayUse reports whether the bearer of a grant may use an entry of the table: by its name or the
// name of its model, and at one of its instances.
func mayUse(grant *access.Grant, table *routing.Table, m routing.Model) bool {
	if !grant.MayUse(m.Service, m.ID) && (m.Target == "" || !grant.MayUse(m.Service, m.Target)) {
		return false
	}
	pool := table.Service(m.Service).Find(m.ID)
	return !grant.IsPlaced() || pool == nil ||
		slices.ContainsFunc(pool.Instances, func(i *backend.Instance) bool { return grant.MayCall(i.ID) })
}

// SpeaksMessages reports whether the caller of an endpoint that several APIs have speaks
// Anthropic's API: its clients always send the version that they speak.
func SpeaksMessages(r *http.Request) bool { return r.Header.Get("Anthropic-Version") != "" }

// messagesModel is a model as Anthropic's API shows it.
type messagesModel struct {
	Type        string `json:"type" const:"model"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at" format:"date-time"`
	Lifecycle   string `json:"lifecycle" const:"active"`
	MaxInput    int64  `json:"max_input_tokens,omitzero"`
	MaxTokens   int64  `json:"max_tokens,omitzero"`
}

// messagesModelOf returns a model as Anthropic's API shows it. A model that is listed can be
// used, which that API calls active.
func messagesModelOf(m model) messagesModel {
	return messagesModel{"model", m.ID, m.ID, time.Unix(m.Created, 0).UTC().Format(time.RFC3339), "active",
		m.ContextLength, m.MaxOutputTokens}
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
// the direction of the query.
func selectModels(models []model, query url.Values) (selected []model, hasMore bool, failed *schema.Error) {
	const most = 1000
	limit := len(models)
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return nil, false, schema.BadField("limit", "field.range", "least", "1", "most", "1000")
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

// Replies that have the shape of the API that the caller speaks, and their query.
type (
	// AnyList is a list of models.
	AnyList struct{}
	// AnyModel is one model.
	AnyModel struct{}
	// Query selects a page of the list.
	Query = modelsQuery
)

// Alternatives are the shapes of the list.
func (AnyList) Alternatives() []any { return []any{modelList{}, messagesModelPage{}, GeminiModels{}} }

// Alternatives are the shapes of a model.
func (AnyModel) Alternatives() []any { return []any{model{}, messagesModel{}, GeminiModelEntry{}} }

// longestName is the length to which the name of an unknown model is cut.
const longestName = 120

// tellNone says that no instance was called.
func tellNone(w http.ResponseWriter) { w.Header()["X-Router-Attempts"] = noAttempts }

var noAttempts = []string{"0"}

// tellID says the id of the request where clients of other dialects look for it.
func tellID(w http.ResponseWriter) {
	header := w.Header()
	header["Request-Id"] = header["X-Request-Id"]
}
