package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/dialect/ollama"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// OllamaVersion is the version of Ollama with the API that the gateway speaks. Clients ask
// for it to learn which features they can use.
const OllamaVersion = "0.17.4"

// OllamaDetails describes a model. The gateway does not know these facts, and clients want
// the members all the same.
type OllamaDetails struct {
	ParentModel       string   `json:"parent_model"`
	Format            string   `json:"format"`
	Family            string   `json:"family"`
	Families          []string `json:"families"`
	ParameterSize     string   `json:"parameter_size"`
	QuantizationLevel string   `json:"quantization_level"`
}

// OllamaModel is a model as /api/tags lists it.
type OllamaModel struct {
	Name       string        `json:"name"`
	Model      string        `json:"model"`
	ModifiedAt time.Time     `json:"modified_at" format:"date-time"`
	Size       int64         `json:"size"`
	Digest     string        `json:"digest"`
	Details    OllamaDetails `json:"details"`
}

// OllamaTags is the reply of /api/tags.
type OllamaTags struct {
	Models []OllamaModel `json:"models"`
}

// OllamaRunning is a model as /api/ps lists it.
type OllamaRunning struct {
	Name      string        `json:"name"`
	Model     string        `json:"model"`
	Size      int64         `json:"size"`
	Digest    string        `json:"digest"`
	Details   OllamaDetails `json:"details"`
	ExpiresAt time.Time     `json:"expires_at" format:"date-time"`
	SizeVRAM  int64         `json:"size_vram"`
	Context   int64         `json:"context_length,omitzero"`
}

// OllamaProcesses is the reply of /api/ps.
type OllamaProcesses struct {
	Models []OllamaRunning `json:"models"`
}

// OllamaShow is the reply of /api/show.
type OllamaShow struct {
	Modelfile    string         `json:"modelfile"`
	Parameters   string         `json:"parameters"`
	Template     string         `json:"template"`
	Details      OllamaDetails  `json:"details"`
	ModelInfo    map[string]any `json:"model_info"`
	Capabilities []string       `json:"capabilities"`
	ModifiedAt   time.Time      `json:"modified_at" format:"date-time"`
}

// OllamaShowRequest is the body of /api/show. Old clients call the model name.
type OllamaShowRequest struct {
	Model string `json:"model"`
	Name  string `json:"name"`
}

// OllamaVersionReply is the reply of /api/version.
type OllamaVersionReply struct {
	Version string `json:"version"`
}

// listModels lists the models for chats and embeddings that the caller may use, and of the names those
// that a pattern rewrites.
func (c *Catalog) listModels(r *http.Request, names ...string) ([]asked, *schema.Error) {
	return c.list(r, func(s schema.ServiceType) bool { return s == schema.Chat || s == schema.Embedding }, names)
}

// digest returns the identity of a model, of which Ollama's command line prints the first twelve
// digits. Instances of a model may have different files, so it is a hash of the name.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// Tags answers GET /api/tags.
func (c *Catalog) Tags(w http.ResponseWriter, r *http.Request) {
	models, err := c.listModels(r)
	if err != nil {
		c.Fail(w, r, err)
		return
	}
	tags := OllamaTags{Models: []OllamaModel{}}
	for _, m := range models {
		tags.Models = append(tags.Models, OllamaModel{Name: m.ID, Model: m.ID, ModifiedAt: m.Created.UTC(),
			Digest: digest(m.ID)})
	}
	tellNone(w)
	web.WriteJSON(w, http.StatusOK, tags)
}

// Processes answers GET /api/ps: the models that answer without being loaded first, as far
// as the gateway knows.
func (c *Catalog) Processes(w http.ResponseWriter, r *http.Request) {
	models, err := c.listModels(r)
	if err != nil {
		c.Fail(w, r, err)
		return
	}
	running := OllamaProcesses{Models: []OllamaRunning{}}
	now := time.Now()
	for _, m := range models {
		if bytes, isThere := c.inMemory(m, now); isThere {
			// The gateway does not know how long it stays. Clients show the time as one
			// that passes.
			running.Models = append(running.Models, OllamaRunning{Name: m.ID, Model: m.ID, Size: bytes,
				Digest: digest(m.ID), ExpiresAt: now.UTC().Add(time.Hour), Context: m.Window})
		}
	}
	tellNone(w)
	web.WriteJSON(w, http.StatusOK, running)
}

// inMemory reports whether an instance of a model is well and does not sleep, and how much
// memory the model takes there, if that is known.
func (c *Catalog) inMemory(m asked, now time.Time) (bytes int64, isThere bool) {
	pool := c.Current.Load().Service(m.Service).Find(m.ID)
	if pool == nil {
		return 0, false
	}
	for _, i := range pool.Instances {
		if process := i.Process(); !i.Settings.Enabled || !i.Healthy() || process != nil && !process.IsRunning() {
			continue
		}
		model := i.Resident()
		if model == nil {
			return 0, true
		}
		if at := model.Place().Residence(now); at.State == "loaded" {
			return at.Bytes, true
		}
	}
	return 0, false
}

// architecture begins the names of facts about a model. The gateway does not know the real one.
const architecture = "patchbay"

// mostShow bounds the body of a request for a model.
const mostShow = 64 << 10

// Show answers POST /api/show.
func (c *Catalog) Show(w http.ResponseWriter, r *http.Request) {
	var request OllamaShowRequest
	body, err := io.ReadAll(io.LimitReader(r.Body, mostShow))
	if err != nil || json.Unmarshal(body, &request) != nil {
		c.Fail(w, r, schema.CodedError(schema.CodeInvalidJSON, "call.not_named_model"))
		return
	}
	name := request.Model
	if name == "" {
		name = request.Name
	}
	models, refused := c.listModels(r, name)
	if refused != nil {
		c.Fail(w, r, refused)
		return
	}
	named := func(name string) int { return slices.IndexFunc(models, func(a asked) bool { return a.ID == name }) }
	n := named(name)
	if n < 0 {
		n = named(c.Current.Load().ModelName(name))
	}
	if n < 0 {
		n = named(strings.TrimSuffix(name, ":latest"))
	}
	if n < 0 {
		c.Fail(w, r, ollama.NotFound(web.CutText(name, longestName)))
		return
	}
	shown := OllamaShow{ModifiedAt: models[n].Created.UTC(),
		ModelInfo: map[string]any{"general.basename": models[n].ID, "general.architecture": architecture}}
	if window := models[n].Window; window > 0 {
		shown.ModelInfo[architecture+".context_length"] = window
	}
	if models[n].chats {
		shown.Capabilities = append(shown.Capabilities, "completion", "tools")
	}
	if models[n].embeds {
		shown.Capabilities = append(shown.Capabilities, "embedding")
	}
	tellNone(w)
	web.WriteJSON(w, http.StatusOK, shown)
}

// Version answers GET /api/version.
func (c *Catalog) Version(w http.ResponseWriter, _ *http.Request) {
	tellNone(w)
	web.WriteJSON(w, http.StatusOK, OllamaVersionReply{OllamaVersion})
}

// Running answers GET / of Ollama's listener. Clients ask it whether a server is there.
func (c *Catalog) Running(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	tellNone(w)
	_, _ = io.WriteString(w, "Ollama is running") // a client that left does not need it
}

// Refused answers requests that would change the models of an Ollama server. The
// configuration defines the models of a gateway.
func (c *Catalog) Refused(w http.ResponseWriter, r *http.Request) {
	if _, err := c.listModels(r); err != nil {
		c.Fail(w, r, err)
		return
	}
	c.Fail(w, r, schema.CodedError(schema.CodePermissionDenied, "call.no_pull"))
}
