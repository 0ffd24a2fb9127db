// Package pages answers browsers: it decides which paths are pages of the console and of
// the documentation, how their files are cached and compressed, and which files the pages
// may load.
package pages

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Pages serves the console and the documentation.
type Pages struct {
	// console returns the files of the console. It reads them when somebody first asks for
	// one: without readers the gateway need not hold them.
	console func() (*console, error)
	// documents returns the documentation in the same way.
	documents func() (*documents, error)
	// documentsApart returns it as it is on ports without the console.
	documentsApart func() (*documents, error)
	// links is the reply to programs at the address of the gateway itself.
	links []byte
	// notFound answers programs at paths that are pages for browsers.
	notFound http.HandlerFunc
}

// console is the files of the console.
type console struct {
	// index is the one page of the console, and build names the files that
	// belong to it: a hash of all of them.
	index *file
	build string
	// assets are the files by their names below assets/.
	assets map[string]*file
}

// consolePaths are the pages of the console. The page itself chooses its content by its
// path.
var consolePaths = [...]string{
	"/services", "/playground", "/calls", "/runs", "/resilience", "/quota", "/spend", "/batches", "/versions", "/keys",
	"/settings",
	"/instance", "/model", "/host", "/tenant", "/gateways", "/me", "/team",
}

// policy lists the things that pages may load: files of their own, and pictures and sounds
// that they have made or got as part of a reply.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' blob: data:; media-src 'self' blob: data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// New returns the pages of a console that was built into files, and the pages of the
// documentation. NotFound answers programs at paths that are pages for browsers.
func New(files, documentation fs.FS, version string, notFound http.HandlerFunc) (*Pages, error) {
	if _, err := fs.Stat(files, indexName); err != nil {
		return nil, fmt.Errorf("the console: %w", err)
	}
	p := &Pages{
		notFound:  notFound,
		console:   sync.OnceValues(func() (*console, error) { return readConsole(files) }),
		documents: sync.OnceValues(func() (*documents, error) { return readDocuments(documentation) }),
	}
	p.documentsApart = sync.OnceValues(func() (*documents, error) {
		d, err := p.documents()
		if err != nil {
			return nil, err
		}
		return d.apart(), nil
	})
	var err error
	p.links, err = json.Marshal(links{"patchbay", version, map[string]string{
		"console": "/", "models": "/v1/models", "docs": "/docs", "api": "/docs/api", "openapi": "/openapi.json",
		"health": "/actuator/health", "info": "/actuator/info", "metrics": "/actuator/prometheus",
	}}, json.Deterministic(true))
	return p, err
}

// indexName is the name of the one page of the console.
const indexName = "index.html"

// readConsole reads the files of the console.
func readConsole(files fs.FS) (*console, error) {
	c := &console{assets: make(map[string]*file)}
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(content))
		sum.Write(content)
		if path.Dir(name) == "assets" {
			c.assets[path.Base(name)] = newFile(path.Base(name), content)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the console: %w", err)
	}
	const enough = 8
	c.build = hex.EncodeToString(sum.Sum(nil)[:enough])
	index, err := fs.ReadFile(files, indexName)
	if err != nil {
		return nil, fmt.Errorf("the console: %w", err)
	}
	// The files of each build have addresses of their own: browsers may keep them for ever,
	// and files of two builds never meet. Scripts name each other relative to their own
	// address.
	c.index = newFile(indexName, bytes.ReplaceAll(index, []byte(`"/assets/`), []byte(`"/assets/`+c.build+`/`)))
	return c, nil
}

// links is the reply to programs at the address of the gateway itself.
type links struct {
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Links   map[string]string `json:"links"`
}

// Routes returns the pages and their files.
func (p *Pages) Routes() []web.Route {
	var routes []web.Route
	add := func(pattern string, handler http.HandlerFunc, op web.Route) {
		routes = append(routes, p.route(pattern, handler, op))
	}
	add("GET /", p.Root, web.Route{
		Summary: "Version and links; the console where Accept names text/html", Reply: links{},
		Media: map[string]any{"text/html": ""},
	})
	for _, page := range consolePaths {
		add("GET "+page, p.Page, web.Route{Undescribed: true})
	}
	add("GET /docs/api", p.Docs, web.Route{
		Summary: "The page of the console that shows this document and tries the operations",
		Media:   map[string]any{"text/html": ""},
	})
	add("GET /admin", p.Redirect, web.Route{Undescribed: true})
	add("GET /assets/{build}/{file}", p.Asset, web.Route{Undescribed: true})
	return append(routes, p.documentRoutes()...)
}

func (*Pages) route(pattern string, handler http.HandlerFunc, op web.Route) web.Route {
	op.Pattern, op.Permission, op.Handler = pattern, access.Anyone, handler
	op.Tag, op.Error = "This document", web.Fault{}
	return op
}

// Root answers GET /: the console for browsers, which ask for a page, and links
// for programs.
func (p *Pages) Root(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if wantsPage(r) {
		p.sendIndex(w, r, http.StatusOK)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(p.links)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(p.links) // a client that left does not need it
}

// Page answers the other paths of the console. To programs they do not exist.
func (p *Pages) Page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if !wantsPage(r) {
		p.notFound(w, r)
		return
	}
	p.sendIndex(w, r, http.StatusOK)
}

// Missing answers paths that are of no part of the gateway: the console says so to people,
// and leads on. Programs get an error.
func (p *Pages) Missing(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if !wantsPage(r) || r.Method != http.MethodGet && r.Method != http.MethodHead {
		p.notFound(w, r)
		return
	}
	p.sendIndex(w, r, http.StatusNotFound)
}

// Docs answers GET /docs/api, which is a page for everybody.
func (p *Pages) Docs(w http.ResponseWriter, r *http.Request) { p.sendIndex(w, r, http.StatusOK) }

// Redirect leads people to the console from the address where they may know it.
func (p *Pages) Redirect(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/", http.StatusFound)
}

// Asset answers with a file of this build of the console.
func (p *Pages) Asset(w http.ResponseWriter, r *http.Request) {
	c, err := p.console()
	if err != nil || c.assets[r.PathValue("file")] == nil || r.PathValue("build") != c.build {
		w.Header().Set("Cache-Control", "no-store")
		p.notFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	c.assets[r.PathValue("file")].send(w, r, http.StatusOK)
}

func (p *Pages) sendIndex(w http.ResponseWriter, r *http.Request, status int) {
	c, err := p.console()
	if err != nil {
		p.notFound(w, r)
		return
	}
	protect(w.Header())
	w.Header().Set("Cache-Control", "no-cache")
	c.index.send(w, r, status)
}

// protect sets the headers that limit the files a page may load, and the pages that may
// frame it.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Permissions-Policy", "microphone=(self), camera=(), geolocation=()")
}

// wantsPage distinguishes browsers from programs: browsers accept a page.
func wantsPage(r *http.Request) bool {
	return strings.Contains(strings.ToLower(strings.Join(r.Header.Values("Accept"), ",")), "text/html")
}
