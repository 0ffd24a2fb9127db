package main

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// A document is a Markdown file of the repository.
type document struct {
	path     string // in the repository, such as docs/traffic.md
	source   []byte
	tree     ast.Node
	title    string
	headings []heading
	links    []link
	lines    []int // where each line begins
	// renamed maps the names of headings in the file to the names on the page, where a
	// translation has taken over others.
	renamed map[string]string
}

// A heading is a place that links can lead to.
type heading struct {
	level    int
	text, id string
}

// A link is a reference of a document to something else, as it is written.
type link struct {
	target string
	line   int
	set    func(string)
	node   ast.Node
}

// markdown reads GitHub's Markdown, with GitHub's names of anchors.
func markdown() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
}

func parse(name string, source []byte) *document {
	d := &document{path: name, source: source, lines: []int{0}}
	for i, c := range source {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	d.tree = markdown().Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{taken: map[string]int{}}))))
	line := 0
	d.walk(d.tree, func(n ast.Node) {
		if n.Type() == ast.TypeBlock && n.Lines() != nil && n.Lines().Len() > 0 {
			line = d.line(n.Lines().At(0).Start)
		}
		switch n := n.(type) {
		case *ast.Heading:
			h := heading{level: n.Level, text: d.plain(n)}
			if id, ok := n.AttributeString("id"); ok {
				h.id = string(id.([]byte))
			}
			if d.title == "" {
				d.title = h.text
			}
			d.headings = append(d.headings, h)
		case *ast.Link:
			d.links = append(d.links, link{string(n.Destination), line, func(s string) { n.Destination = []byte(s) }, n})
		case *ast.Image:
			d.links = append(d.links, link{string(n.Destination), line, func(s string) { n.Destination = []byte(s) }, n})
		}
	})
	return d
}

func (d *document) walk(from ast.Node, visit func(ast.Node)) {
	// The visitor never fails.
	_ = ast.Walk(from, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			visit(n)
		}
		return ast.WalkContinue, nil
	})
}

// line returns the number of the line that an offset is in, counted from 1.
func (d *document) line(offset int) int {
	n := 0
	for n < len(d.lines) && d.lines[n] <= offset {
		n++
	}
	return n
}

// plain returns the text of a node, without markup.
func (d *document) plain(from ast.Node) string {
	var b strings.Builder
	d.walk(from, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(d.source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(d.source))
		case *ast.FencedCodeBlock:
			if n.Info == nil {
				return // a drawing
			}
			for i := range n.Lines().Len() {
				segment := n.Lines().At(i)
				b.Write(segment.Value(d.source))
			}
		case *extast.TableCell, *ast.ListItem:
			b.WriteByte(' ')
		}
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// hasAnchor reports whether a heading has this name.
func (d *document) hasAnchor(id string) bool {
	for _, h := range d.headings {
		if h.id == id {
			return true
		}
	}
	return false
}

func (d *document) html() (string, error) {
	var b bytes.Buffer
	if err := markdown().Renderer().Render(&b, d.source, d.tree); err != nil {
		return "", fmt.Errorf("%s: %w", d.path, err)
	}
	return b.String(), nil
}

// resolve returns the path in the repository that a link leads to, and its anchor.
func (d *document) resolve(target string) (file, anchor string) {
	file, anchor, _ = strings.Cut(target, "#")
	if file == "" {
		return d.path, anchor
	}
	return path.Join(path.Dir(d.path), file), anchor
}

func isExternal(target string) bool {
	return strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:")
}

// anchors names headings as GitHub does.
type anchors struct {
	taken map[string]int
}

// Generate implements parser.IDs.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(string(value))) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_', r == '-':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	id := b.String()
	times, again := a.taken[id]
	a.taken[id] = times + 1
	if again {
		id = fmt.Sprintf("%s-%d", id, times)
	}
	return []byte(id)
}

// Put implements parser.IDs.
func (a *anchors) Put(value []byte) { a.taken[string(value)]++ }
