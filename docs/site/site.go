package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// index is the page that lists the others, in reading order. The navigation of the site
// is made from it.
const index = "docs/README.md"

// repository is the address of files that are not part of the site.
const repository = "https://github.com/patchbay-ai/patchbay"

//go:embed assets/page.html
var layout string

//go:embed assets/style.css
var style []byte

//go:embed assets/theme.js
var theme []byte

//go:embed assets/site.js
var script []byte

//go:embed assets/search.js
var search []byte

//go:embed assets/icon.svg
var icon []byte

// A site is the documents of the repository and the order of its pages.
type site struct {
	root      string
	documents map[string]*document
	groups    []group
	order     []string // paths of the pages, the index first
}

// A group is a part of the navigation.
type group struct {
	Title string
	Pages []string
}

// read parses every Markdown file of the repository.
func read(root string) (*site, error) {
	s := &site{root: root, documents: map[string]*document{}}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", "node_modules", "testdata":
				return fs.SkipDir
			}
			if name == "bin" || name == "data" {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		s.documents[name] = parse(name, content)
		return err
	})
	if err != nil {
		return nil, err
	}
	if s.documents[index] == nil {
		return nil, fmt.Errorf("there is no %s", index)
	}
	s.readIndex()
	return s, nil
}

// readIndex takes the groups and pages from the index: its headings of the second level,
// and the first link of every item below them.
func (s *site) readIndex() {
	d := s.documents[index]
	s.order = []string{index}
	for n := d.tree.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				s.groups = append(s.groups, group{Title: d.plain(n)})
			}
		case *ast.List:
			for item := n.FirstChild(); item != nil && len(s.groups) > 0; item = item.NextSibling() {
				if target := firstLink(d, item); target != "" && !isExternal(target) {
					file, _ := d.resolve(target)
					last := &s.groups[len(s.groups)-1]
					last.Pages = append(last.Pages, file)
					s.order = append(s.order, file)
				}
			}
		}
	}
}

func firstLink(d *document, item ast.Node) string {
	target := ""
	d.walk(item, func(n ast.Node) {
		if l, ok := n.(*ast.Link); ok && target == "" {
			target = string(l.Destination)
		}
	})
	return target
}

// check returns the faults, each as "file:line: fault".
func (s *site) check() []string {
	var problems []string
	for _, name := range sortedNames(s.documents) {
		d := s.documents[name]
		for _, l := range d.links {
			if problem := s.checkLink(d, l.target); problem != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %s: %s", name, l.line, l.target, problem))
			}
		}
		problems = append(problems, s.checkTranslation(d)...)
		if (path.Dir(name) == "docs" || strings.HasPrefix(name, translations)) && !slices.Contains(s.order, name) {
			problems = append(problems, fmt.Sprintf("%s: %s does not list it", name, index))
		}
	}
	for i, name := range s.order {
		switch {
		case s.documents[name] == nil:
			problems = append(problems, fmt.Sprintf("%s: it lists %s, which is no page", index, name))
		case slices.Contains(s.order[:i], name):
			problems = append(problems, fmt.Sprintf("%s: it lists %s twice", index, name))
		}
	}
	return problems
}

func (s *site) checkLink(d *document, target string) string {
	if isExternal(target) {
		return ""
	}
	file, anchor := d.resolve(target)
	if strings.HasPrefix(target, "/") || strings.HasPrefix(file, "../") {
		return "leads out of the repository"
	}
	if _, err := os.Stat(filepath.Join(s.root, file)); err != nil {
		return "there is no such file"
	}
	if problem := s.checkLanguage(d, file); problem != "" || anchor == "" {
		return problem
	}
	to := s.documents[file]
	if to == nil || !to.hasAnchor(anchor) {
		return "there is no such heading"
	}
	return ""
}

// address returns the name of the file in the site that a page becomes.
func address(name string) string {
	switch {
	case name == index:
		return "index.html"
	case name == "README.md":
		return "readme.html"
	case strings.HasPrefix(name, translations):
		return string(chinese) + "-" + strings.TrimSuffix(path.Base(name), ".md") + ".html"
	}
	return strings.ToLower(strings.TrimSuffix(path.Base(name), ".md")) + ".html"
}

// write makes the site in an empty directory.
func (s *site) write(out string) error {
	s.align()
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	page, err := template.New("page").Parse(layout)
	if err != nil {
		return err
	}
	var entries []entry
	for i, name := range s.order {
		d := s.documents[name]
		entries = append(entries, s.entries(d)...)
		if err := s.relink(d, out); err != nil {
			return err
		}
		body, err := d.html()
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(out, address(name)))
		if err != nil {
			return err
		}
		//nolint:gosec // The text is that of the repository; a page may have markup.
		err = page.Execute(f, s.view(i, d, template.HTML(body)))
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
	}
	found, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	// A page that is read from a disk may load scripts, and no other files.
	found = append(append([]byte("window.searchIndex = "), found...), ";\n"...)
	for name, content := range map[string][]byte{
		"style.css": style, "theme.js": theme, "site.js": script, "search.js": search, "icon.svg": icon, "search-index.js": found,
	} {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// relink turns the links of a page into links of the site. Files that are no pages are
// copied, directories are shown by the repository.
func (s *site) relink(d *document, out string) error {
	for _, l := range d.links {
		if isExternal(l.target) {
			continue
		}
		file, anchor := d.resolve(l.target)
		info, err := os.Stat(filepath.Join(s.root, file))
		if err != nil {
			return err
		}
		switch {
		case slices.Contains(s.order, file):
			to := address(file)
			if file == d.path {
				to = ""
			}
			if anchor != "" {
				to += "#" + s.documents[file].anchor(anchor)
			}
			l.set(to)
		case info.IsDir():
			l.set(repository + "/tree/main/" + file)
		default:
			to := path.Join("files", file)
			if !slices.Contains([]string{".webp", ".png", ".svg", ".json"}, path.Ext(file)) {
				to += ".txt" // browsers show text files
			}
			content, err := os.ReadFile(filepath.Join(s.root, file))
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Join(out, path.Dir(to)), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(out, to), content, 0o644); err != nil {
				return err
			}
			l.set(to)
		}
	}
	return nil
}

// view is the data of the layout.
type view struct {
	Title, Language string
	Body            template.HTML
	Groups          []viewGroup
	Contents        []viewLink
	Before, After   *viewLink
	Source          string
	Words           words
	// Assets is where the files beside the pages are, and Home the page of contents.
	Assets, Home string
	// Served is the language of a page that the program serves, and Other the same page in
	// the other language. The site has a search in their place.
	Served string
	Other  *viewLink
}

type viewGroup struct {
	Title string
	Pages []viewLink
}

type viewLink struct {
	Title, Address string
	Level          int
	Here           bool
	// Language and Name describe a page in another language.
	Language, Name string
}

func (s *site) view(i int, d *document, body template.HTML) view {
	l := languageOf(d.path)
	v := view{
		Title: d.title, Language: l.tag(), Body: body, Contents: contents(d), Words: wordsOf[l], Home: address(index), Source: repository + "/blob/main/" + d.path,
	}
	for _, g := range s.groups {
		shown := viewGroup{Title: g.Title}
		for _, name := range g.Pages {
			shown.Pages = append(shown.Pages, viewLink{Title: s.label(name), Address: address(name), Here: name == d.path})
		}
		v.Groups = append(v.Groups, shown)
	}
	if i > 0 {
		v.Before = &viewLink{Title: s.label(s.order[i-1]), Address: address(s.order[i-1])}
	}
	if i+1 < len(s.order) {
		v.After = &viewLink{Title: s.label(s.order[i+1]), Address: address(s.order[i+1])}
	}
	return v
}

// contents returns the links to the sections of a page.
func contents(d *document) []viewLink {
	var found []viewLink
	for _, h := range d.headings {
		if h.level == 2 || h.level == 3 {
			found = append(found, viewLink{Title: h.text, Address: "#" + h.id, Level: h.level})
		}
	}
	return found
}

// label is the name of a page in the navigation.
func (s *site) label(name string) string {
	switch name {
	case index:
		return "Overview"
	case "README.zh-CN.md":
		return "中文"
	}
	return s.documents[name].title
}

// An entry is a section of a page for the search.
type entry struct {
	Page    string `json:"p"`
	Title   string `json:"t"`
	Heading string `json:"h,omitempty"`
	Anchor  string `json:"a,omitempty"`
	Text    string `json:"x"`
}

func (s *site) entries(d *document) []entry {
	var found []entry
	for n := d.tree.FirstChild(); n != nil; n = n.NextSibling() {
		h, isHeading := n.(*ast.Heading)
		if isHeading || len(found) == 0 {
			e := entry{Page: address(d.path), Title: s.label(d.path)}
			if isHeading && h.Level > 1 {
				id, _ := h.AttributeString("id")
				e.Heading, e.Anchor = d.plain(h), string(id.([]byte))
			}
			found = append(found, e)
		}
		if !isHeading {
			last := &found[len(found)-1]
			last.Text = strings.TrimSpace(last.Text + " " + d.plain(n))
		}
	}
	return found
}

func sortedNames(documents map[string]*document) []string {
	var names []string
	for name := range documents {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
