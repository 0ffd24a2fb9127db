package openapi

import (
	"embed"
	"net/http"
	"strconv"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// files are the viewer: a page, its script and its style.
//
//go:embed viewer
var files embed.FS

// Pages answers with the document and the page that shows it.
type Pages struct {
	// document is made when it is first asked for, because it takes several
	// milliseconds of a start and most gateways are never asked.
	document func() ([]byte, error)
}

// NewPages returns the pages; Describe gives them their document.
func NewPages() *Pages { return new(Pages) }

// Describe says which routes the document is about.
func (p *Pages) Describe(version string, routes []web.Route) {
	p.document = sync.OnceValues(func() ([]byte, error) { return Document(version, routes) })
}

// Routes returns the pages.
func (p *Pages) Routes() []web.Route {
	var routes []web.Route
	add := func(pattern string, handler http.HandlerFunc, op web.Operation) {
		op.Tag, op.Error = "This document", web.Fault{}
		routes = append(routes, web.Route{Pattern: pattern, Permission: access.Anyone, Handler: handler, Operation: op})
	}
	page := map[string]any{"text/html": ""}
	add("GET /openapi.json", p.Document, web.Operation{Summary: "This document", Reply: map[string]any{}})
	add("GET /docs/api", p.Viewer, web.Operation{Summary: "A page that shows this document and tries the operations", Media: page})
	add("GET /docs/api/{file}", p.File, web.Operation{
		Summary: "The script and the style of that page", Media: map[string]any{"text/html": "", "text/javascript": "", "text/css": ""},
	})
	return routes
}

// Document answers GET /openapi.json.
func (p *Pages) Document(w http.ResponseWriter, _ *http.Request) {
	document, err := p.document()
	if err != nil { // a route names a type that has no schema; a test finds that
		web.Refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	send(w, "application/json", document)
}

// Viewer answers GET /docs/api.
func (p *Pages) Viewer(w http.ResponseWriter, _ *http.Request) { serveFile(w, "index.html") }

// File answers GET /docs/api/{file}.
func (p *Pages) File(w http.ResponseWriter, r *http.Request) { serveFile(w, r.PathValue("file")) }

func serveFile(w http.ResponseWriter, name string) {
	contentType := map[string]string{
		"index.html": "text/html; charset=utf-8",
		"viewer.js":  "text/javascript; charset=utf-8",
		"viewer.css": "text/css; charset=utf-8",
	}[name]
	content, err := files.ReadFile("viewer/" + name)
	if err != nil || contentType == "" {
		web.Refuse(w, http.StatusNotFound, "There is no such file.")
		return
	}
	// Everything comes from here, and nobody may show the page inside another.
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("Referrer-Policy", "no-referrer")
	send(w, contentType, content)
}

func send(w http.ResponseWriter, contentType string, content []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(content) // a client that left does not need it
}
