package catalog

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect/gemini/genai"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// GeminiModelEntry is a model as Google's Gemini API shows it.
type GeminiModelEntry struct {
	Name        string   `json:"name"`
	BaseModelID string   `json:"baseModelId"`
	Version     string   `json:"version"`
	DisplayName string   `json:"displayName"`
	InputLimit  int64    `json:"inputTokenLimit,omitzero"`
	OutputLimit int64    `json:"outputTokenLimit,omitzero"`
	Methods     []string `json:"supportedGenerationMethods"`
}

// GeminiModels is a page of the list.
type GeminiModels struct {
	Models        []GeminiModelEntry `json:"models"`
	NextPageToken string             `json:"nextPageToken,omitzero"`
}

// GeminiQuery selects a page of the list.
type GeminiQuery struct {
	PageSize  int64  `json:"pageSize" minimum:"1" maximum:"1000" doc:"How many models; all if it is left out."`
	PageToken string `json:"pageToken" doc:"The nextPageToken of the page before."`
	GeminiKey
}

// GeminiKey is the key in the query.
type GeminiKey struct {
	Key string `json:"key" doc:"The API key, in place of the header x-goog-api-key."`
}

// SpeaksGemini reports whether the caller of an endpoint that several APIs have speaks
// Google's API: its clients have a header of their own for the key.
func SpeaksGemini(r *http.Request) bool {
	return !SpeaksMessages(r) && r.Header.Get("X-Goog-Api-Key") != ""
}

func geminiEntry(m asked) GeminiModelEntry {
	entry := GeminiModelEntry{Name: "models/" + m.ID, BaseModelID: m.ID, Version: "001", DisplayName: m.ID,
		InputLimit: m.Window, OutputLimit: m.Output}
	if m.chats {
		entry.Methods = append(entry.Methods, "generateContent", "streamGenerateContent", "countTokens")
	}
	if m.embeds {
		entry.Methods = append(entry.Methods, "embedContent", "batchEmbedContents")
	}
	return entry
}

// GeminiModels answers GET /v1beta/models.
func (c *Catalog) GeminiModels(w http.ResponseWriter, r *http.Request) {
	models, err := c.listModels(r)
	if err != nil {
		c.Fail(w, r, err)
		return
	}
	const most = 1000
	from, limit := 0, len(models)
	query := r.URL.Query()
	if text := query.Get("pageSize"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			c.Fail(w, r, schema.BadField("pageSize", "field.range", "least", "1", "most", "1000"))
			return
		}
		limit = n
	}
	if last := query.Get("pageToken"); last != "" {
		from = slices.IndexFunc(models, func(a asked) bool { return a.ID == last }) + 1
	}
	to := min(from+limit, len(models))
	page := GeminiModels{Models: []GeminiModelEntry{}}
	for _, m := range models[from:to] {
		page.Models = append(page.Models, geminiEntry(m))
	}
	if to < len(models) && to > 0 {
		page.NextPageToken = models[to-1].ID
	}
	tellNone(w)
	web.WriteJSON(w, http.StatusOK, page)
}

// GeminiModel answers GET /v1beta/models/{id}.
func (c *Catalog) GeminiModel(w http.ResponseWriter, r *http.Request) {
	table, id := c.Current.Load(), r.PathValue("id")
	models, err := c.listModels(r, id)
	if err != nil {
		c.Fail(w, r, err)
		return
	}
	for _, name := range spellings(id) {
		listed := table.ModelName(name)
		for _, m := range models {
			if m.ID == name || m.ID == listed {
				tellNone(w)
				web.WriteJSON(w, http.StatusOK, geminiEntry(m))
				return
			}
		}
	}
	c.Fail(w, r, genai.NotFound(web.CutText(id, longestName)))
}
