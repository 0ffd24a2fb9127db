package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// translations is the folder of the pages in Chinese, each with the name of the page that
// it translates.
const translations = "docs/zh/"

// A language is one that has pages.
type language string

const (
	english language = "en"
	chinese language = "zh"
)

// tag is the name of a language for browsers.
func (l language) tag() string {
	if l == chinese {
		return "zh-CN"
	}
	return string(l)
}

// languageOf returns the language of a page.
func languageOf(name string) language {
	if strings.HasPrefix(name, translations) || strings.Contains(name, ".zh-CN.") {
		return chinese
	}
	return english
}

// in returns the path of a page in a language, as if it were there.
func (l language) in(name string) string {
	if name = "docs/" + path.Base(name); l == chinese {
		return translations + path.Base(name)
	}
	return name
}

// align gives the headings of translations the names of the headings that they translate:
// an address then leads to the same section in both languages.
func (s *site) align() {
	for name, d := range s.documents {
		if original := s.documents[english.in(name)]; strings.HasPrefix(name, translations) && original != nil && len(original.headings) == len(d.headings) {
			d.rename(original.headings)
		}
	}
}

// rename gives the headings the names of others.
func (d *document) rename(others []heading) {
	d.renamed = map[string]string{}
	i := 0
	d.walk(d.tree, func(n ast.Node) {
		if h, ok := n.(*ast.Heading); ok {
			d.renamed[d.headings[i].id] = others[i].id
			d.headings[i].id = others[i].id
			h.SetAttributeString("id", []byte(others[i].id))
			i++
		}
	})
}

// anchor returns the name of a heading on the written page, by its name in the file.
func (d *document) anchor(name string) string {
	if renamed, ok := d.renamed[name]; ok {
		return renamed
	}
	return name
}

// checkTranslation returns the faults of a page in Chinese, except for its links.
func (s *site) checkTranslation(d *document) []string {
	if !strings.HasPrefix(d.path, translations) {
		return nil
	}
	original := s.documents[english.in(d.path)]
	if original == nil {
		return []string{fmt.Sprintf("%s: it translates %s, which is no page", d.path, english.in(d.path))}
	}
	if len(original.headings) != len(d.headings) {
		return []string{fmt.Sprintf("%s: it has %d headings and %s has %d; change both pages in the same way", d.path, len(d.headings), original.path, len(original.headings))}
	}
	return nil
}

// checkLanguage reports a link from a page in Chinese to a page in English that exists in
// Chinese as well.
func (s *site) checkLanguage(d *document, file string) string {
	translated := chinese.in(file)
	if languageOf(d.path) != chinese || path.Dir(file) != "docs" || s.documents[translated] == nil {
		return ""
	}
	return "lead to " + translated + ", which is the same in Chinese"
}
