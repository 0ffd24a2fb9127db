package pages

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// documents are the pages of the documentation that the program holds, by language and
// name, and the files that they load.
type documents struct {
	pages map[string]map[string]*file
	files map[string]*file
}

// The languages of the pages, which are also the languages of the console.
const (
	english = "en"
	chinese = "zh"
)

// The names of the pages with an address of their own: /docs itself, and the page for
// addresses that do not exist.
const (
	contents = "index"
	missing  = "missing"
)

// readDocuments reads the pages, which stay compressed.
func readDocuments(files fs.FS) (*documents, error) {
	d := &documents{pages: map[string]map[string]*file{english: {}, chinese: {}}, files: map[string]*file{}}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		packed, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		name = strings.TrimSuffix(name, ".gz")
		f := newPacked(name, packed)
		if pages := d.pages[path.Dir(name)]; pages != nil {
			pages[strings.TrimSuffix(path.Base(name), ".html")] = f
		} else {
			d.files[name] = f
		}
		return nil
	})
	if err == nil && (d.pages[english][missing] == nil || d.pages[chinese][missing] == nil) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("the documentation: %w", err)
	}
	return d, nil
}

// apart returns the pages for a gateway with neither the console nor the page of the API.
// It removes the links to them; each link has a line of its own.
func (d *documents) apart() *documents {
	without := &documents{pages: map[string]map[string]*file{}, files: d.files}
	for language, pages := range d.pages {
		without.pages[language] = make(map[string]*file, len(pages))
		for name, page := range pages {
			var content []byte
			for line := range bytes.Lines(page.plain()) {
				if !bytes.Contains(line, []byte(`href="/"`)) && !bytes.Contains(line, []byte(`href="/docs/api"`)) {
					content = append(content, line...)
				}
			}
			without.pages[language][name] = newFile(name+".html", content)
		}
	}
	return without
}

// Document answers GET /docs and all paths below it: pages for everybody. For an unknown
// path it shows people the list of pages, and programs get an error.
func (p *Pages) Document(w http.ResponseWriter, r *http.Request) { p.document(w, r, p.documents) }

// documentApart answers in place of Document on a port that does not serve the console.
func (p *Pages) documentApart(w http.ResponseWriter, r *http.Request) {
	p.document(w, r, p.documentsApart)
}

func (p *Pages) document(w http.ResponseWriter, r *http.Request, documents func() (*documents, error)) {
	d, err := documents()
	if err != nil {
		p.notFound(w, r)
		return
	}
	name := strings.TrimSuffix(r.PathValue("page"), "/")
	header := w.Header()
	header.Set("Cache-Control", "no-cache")
	if asset := d.files[name]; asset != nil {
		asset.send(w, r, http.StatusOK)
		return
	}
	if name == "" {
		name = contents
	}
	header.Add("Vary", "Accept-Language")
	pages, status := d.pages[languageOf(r)], http.StatusOK
	page := pages[name]
	if page == nil || name == missing || r.URL.Path == "/docs/"+contents {
		header.Add("Vary", "Accept")
		if !wantsPage(r) {
			p.notFound(w, r)
			return
		}
		page, status = pages[missing], http.StatusNotFound
	}
	protect(header)
	page.send(w, r, status)
}

// languageOf returns the language for a page: the one that the address names, or else the
// language that the console shows to the same browser when it is opened first, which is
// Chinese for all who read it. Only the page knows a choice that the console keeps; it then
// asks for that language.
func languageOf(r *http.Request) string {
	switch lang, _, _ := strings.Cut(strings.ToLower(r.URL.Query().Get("lang")), "-"); lang {
	case english, chinese:
		return lang
	}
	for _, accepted := range listed(r.Header.Values("Accept-Language")) {
		tag, quality, _ := strings.Cut(accepted, ";")
		if tag, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-"); tag == chinese && !refused(quality) {
			return chinese
		}
	}
	return english
}

// refused reports whether a member of a list has the quality 0.
func refused(quality string) bool {
	value, ok := strings.CutPrefix(strings.ReplaceAll(quality, " ", ""), "q=")
	return ok && strings.Trim(value, "0.") == ""
}

// documentRoutes returns the routes of the documentation. Errors of the unified API lead to
// it; every port therefore serves it.
func (p *Pages) documentRoutes() []web.Route {
	routes := []web.Route{p.route("GET /docs", p.Document, web.Route{Undescribed: true}),
		p.route("GET /docs/{page...}", p.Document, web.Route{Undescribed: true})}
	for i := range routes {
		routes[i].Apart = p.documentApart
	}
	return routes
}
