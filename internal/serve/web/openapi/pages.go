package openapi

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Pages answers with the document.
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
	return []web.Route{{
		Pattern: "GET /openapi.json", Permission: access.Anyone, Handler: p.Document,
		Tag: "This document", Summary: "This document", Reply: map[string]any{}, Error: web.Fault{},
	}}
}

// Document answers GET /openapi.json.
func (p *Pages) Document(w http.ResponseWriter, _ *http.Request) {
	document, err := p.document()
	if err != nil { // a route names a type that has no schema; a test finds that
		web.Refuse(w, http.StatusInternalServerError, say.From(err))
		return
	}
	send(w, "application/json", document)
}

func send(w http.ResponseWriter, contentType string, content []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(content) // a client that left does not need it
}
