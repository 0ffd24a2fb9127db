package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// serve makes the pages that the program holds (package docs) and serves below /docs: the
// pages that exist in both languages, a page of contents and one for addresses that do
// not exist. They are compressed, because that is how they are stored and sent.
func serve(root, out string) (int, []string, error) {
	s, err := read(root)
	if err != nil {
		return 0, nil, err
	}
	if problems := s.check(); len(problems) > 0 {
		return 0, problems, nil
	}
	s.align()
	files := map[string][]byte{"style.css": style, "site.js": script, "theme.js": theme, "icon.svg": icon}
	for _, l := range []language{english, chinese} {
		if err := s.serveIn(l, files); err != nil {
			return 0, nil, err
		}
	}
	if err := os.RemoveAll(out); err != nil {
		return 0, nil, err
	}
	for name, content := range files {
		to := filepath.Join(out, name+".gz")
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return 0, nil, err
		}
		if err := os.WriteFile(to, compress(content), 0o644); err != nil {
			return 0, nil, err
		}
	}
	return len(files), nil, nil
}

// serveIn adds the pages of one language to the files.
func (s *site) serveIn(l language, files map[string][]byte) error {
	page, err := template.New("page").Parse(layout)
	if err != nil {
		return err
	}
	text := wordsOf[l]
	names := append(s.served(l), "index", "missing")
	for i, name := range names {
		d := s.documents[name]
		switch name {
		case "index":
			d = parse(l.in("README.md"), []byte(text.Contents+s.list(l)))
		case "missing":
			d = parse(l.in("missing.md"), []byte(text.Missing+s.list(l)))
		}
		s.relinkServed(d)
		body, err := d.html()
		if err != nil {
			return err
		}
		var b bytes.Buffer
		//nolint:gosec // The text is that of the repository; a page may have markup.
		if err := page.Execute(&b, s.viewServed(names, i, d, template.HTML(body))); err != nil {
			return err
		}
		files[path.Join(string(l), strings.TrimSuffix(path.Base(name), ".md")+".html")] = b.Bytes()
	}
	return nil
}

// served returns the pages that the program holds, in a language and in the order of the
// translations in the index.
func (s *site) served(l language) []string {
	var names []string
	for _, name := range s.order {
		if strings.HasPrefix(name, translations) {
			names = append(names, l.in(name))
		}
	}
	return names
}

// list returns the items of the index that are served, in Markdown.
func (s *site) list(l language) string {
	d := s.documents[index]
	items := map[string]string{}
	for line := range strings.Lines(string(d.source)) {
		if _, target, ok := strings.Cut(line, "]("); ok && strings.HasPrefix(line, "- [") {
			target, _, _ = strings.Cut(target, ")")
			file, _ := d.resolve(target)
			items[file] = strings.Replace(line, "("+target+")", "("+path.Base(file)+")", 1)
		}
	}
	var b strings.Builder
	for _, name := range s.served(l) {
		b.WriteString(items[name])
	}
	return "\n" + b.String() + "- " + wordsOf[l].API + "\n"
}

// servedAt returns the address of a page that is served.
func servedAt(l language, name string) string {
	return "/docs" + strings.TrimSuffix("/"+strings.TrimSuffix(path.Base(name), ".md"), "/README") + "?lang=" + string(l)
}

// relinkServed turns the links of a page into links of the program. The repository shows
// files that the program does not serve.
func (s *site) relinkServed(d *document) {
	for _, l := range d.links {
		if strings.HasPrefix(l.target, "/") {
			continue // an address of the program itself
		}
		if to := l.target; !isExternal(to) {
			if to = s.addressServed(d, l.target); !isExternal(to) {
				l.set(to)
				continue
			}
			l.set(to)
		}
		l.node.SetAttributeString("rel", []byte("noreferrer"))
	}
}

func (s *site) addressServed(d *document, target string) string {
	file, anchor := d.resolve(target)
	to, language := s.documents[file], languageOf(file)
	address := repository + "/blob/main/" + file
	switch {
	case file == d.path && anchor != "":
		address = ""
	case slices.Contains(s.served(language), file):
		address = servedAt(language, file)
	case path.Ext(file) == "":
		address = repository + "/tree/main/" + file
	}
	if to != nil && anchor != "" {
		return address + "#" + to.anchor(anchor)
	}
	return address
}

func (s *site) viewServed(names []string, i int, d *document, body template.HTML) view {
	l := languageOf(d.path)
	text := wordsOf[l]
	v := view{
		Title: d.title, Language: l.tag(), Body: body, Contents: contents(d), Words: text,
		Assets: "/docs/", Home: servedAt(l, "README.md"), Served: string(l), Source: repository + "/blob/main/" + d.path,
	}
	other := english
	if l == english {
		other = chinese
	}
	v.Other = &viewLink{Title: text.Other, Address: "?lang=" + string(other), Language: other.tag(), Name: string(other)}
	shown := viewGroup{Title: text.Pages}
	pages := s.served(l)
	for _, name := range pages {
		shown.Pages = append(shown.Pages, viewLink{Title: s.documents[name].title, Address: servedAt(l, name), Here: name == d.path})
	}
	shown.Pages = append(shown.Pages, viewLink{Title: "API", Address: "/docs/api"})
	v.Groups = []viewGroup{shown}
	if i >= len(pages) {
		v.Source = "" // it has no file
		return v
	}
	if i > 0 {
		v.Before = &viewLink{Title: s.documents[names[i-1]].title, Address: servedAt(l, names[i-1])}
	}
	if i+1 < len(pages) {
		v.After = &viewLink{Title: s.documents[names[i+1]].title, Address: servedAt(l, names[i+1])}
	}
	return v
}

// compress packs a file in its stored form. A write to memory cannot fail.
func compress(content []byte) []byte {
	var b bytes.Buffer
	to, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = to.Write(content)
	}
	if err == nil {
		err = to.Close()
	}
	if err != nil {
		panic(fmt.Errorf("compressing in memory: %w", err))
	}
	return b.Bytes()
}
