package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// The two languages of a page have the same structure: headings, commands, links, tables.
func TestTranslationsHaveTheStructureOfTheirPages(t *testing.T) {
	s := readSite(t, root)
	pages := map[string]string{"README.zh-CN.md": "README.md"}
	for name := range s.documents {
		if strings.HasPrefix(name, translations) {
			pages[name] = english.in(name)
		}
	}
	const atLeast = 6
	if len(pages) < atLeast {
		t.Errorf("there are %d translations, not %d", len(pages), atLeast)
	}
	for translation, page := range pages {
		if said := s.differ(page, translation); said != "" {
			t.Error(said)
		}
		// Even code and names of settings leave most of a page to its language.
		source := string(s.documents[translation].source)
		if han := regexp.MustCompile(`\p{Han}`).FindAllString(source, -1); len(han)*8 < len(source) {
			t.Errorf("%s has only %d Chinese characters in %d bytes", translation, len(han), len(source))
		}
	}
}

func TestAPageThatChangesWithoutItsTranslationIsFound(t *testing.T) {
	const page = "# A\n\ntext `x` [b](b.md#part-b)\n\n## B\n\n```yaml\na: 1 # why\n```\n\n| a | b |\n|---|---|\n| c | `d` |\n"
	const same = "# 甲\n\n[乙](b.md#乙) 文字 `x`\n\n## 乙\n\n```yaml\na: 1 # 为何\n```\n\n| 甲 | 乙 |\n|---|---|\n| 丙 | `d` |\n"
	for change, want := range map[string]string{
		"":                      "",
		"# 甲\n > # 甲\n\n## 丙\n": `change both pages in the same way`,
		"a: 1 > a: 2":           `below "B"`,
		"| 丙 | `d` |\n > | 丙 | `d` |\n| 丁 | |\n": `below "B"`,
		"| 丙 | `d` | > | 丙 | d |":                `below "B"`,
		"文字 `x` > 文字":                            `below "A"`,
		"b.md#乙 > b.md#书":                        `below "A"`,
	} {
		dir := t.TempDir()
		before, after, _ := strings.Cut(change, " > ")
		for name, content := range map[string]string{
			"docs/README.md": "# Index\n", "docs/a.md": page, "docs/b.md": "# B\n\n## Part B\n", "docs/zh/b.md": "# 书\n\n## 乙\n",
			"docs/zh/a.md": strings.Replace(same, before, after, 1),
		} {
			writeFile(t, filepath.Join(dir, name), content)
		}
		s := readSite(t, dir)
		if said := s.differ("docs/a.md", "docs/zh/a.md"); !strings.Contains(said, want) || (want == "") != (said == "") {
			t.Errorf("%q: %q", change, said)
		}
	}
}

// A page in Chinese leads to pages in Chinese where these exist.
func TestTranslationsLeadToTranslations(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"docs/README.md": "# Index\n\n## Group\n- [A](a.md)\n- [B](b.md)\n- [甲](zh/a.md)\n- [丙](zh/c.md)\n",
		"docs/a.md":      "# A\n\n## Part\n", "docs/b.md": "# B\n",
		"docs/zh/a.md": "# 甲\n\n[A](../a.md) [B](../b.md)\n", "docs/zh/c.md": "# 丙\n",
	} {
		writeFile(t, filepath.Join(dir, name), content)
	}
	_, problems, err := serve(dir, filepath.Join(dir, "out"))
	want := []string{
		"docs/zh/a.md:3: ../a.md: lead to docs/zh/a.md, which is the same in Chinese",
		"docs/zh/a.md: it has 1 headings and docs/a.md has 2; change both pages in the same way",
		"docs/zh/c.md: it translates docs/c.md, which is no page",
	}
	if err != nil || !slices.Equal(problems, want) {
		t.Errorf("%v\n%s", err, strings.Join(problems, "\n"))
	}
}

// differ says where a translation has another structure than its page, and what to do.
func (s *site) differ(page, translation string) string {
	if len(s.documents[page].headings) != len(s.documents[translation].headings) {
		return page + " and " + translation + " have different headings; change both pages in the same way, and run make docs-served"
	}
	one, other := s.structure(page), s.structure(translation)
	for i := range max(len(one), len(other)) {
		a, b := one[len(one)-1], one[len(one)-1] // where one ends before the other
		a.what, b.what = "nothing more", "nothing more"
		if i < len(one) {
			a = one[i]
		}
		if i < len(other) {
			b = other[i]
		}
		if a.what != b.what {
			return page + " and its translation " + translation + " differ below \"" + a.below + "\": the one has\n" + a.what + "\nand the other\n" + b.what +
				"\nChange both pages in the same way, and run make docs-served."
		}
	}
	return ""
}

// A part is something that a page and its translation both have, below a heading of the page.
type part struct{ below, what string }

// structure returns what both languages have: headings by level, blocks of code without
// comments, the shape of tables; and of each section its links, pictures and code, whose
// order depends on the language.
func (s *site) structure(name string) []part {
	d := s.documents[name]
	titles := s.documents[page(name)].headings
	comment := regexp.MustCompile(`(?m) *# .*$`)
	var parts []part
	var inline []string
	below := ""
	add := func(what ...string) {
		slices.Sort(inline)
		for _, w := range append(inline, what...) {
			parts = append(parts, part{below, w})
		}
		inline = nil
	}
	d.walk(d.tree, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Heading:
			add()
			below, titles = titles[0].text, titles[1:]
			add(strings.Repeat("#", n.Level))
		case *ast.FencedCodeBlock:
			add()
			if n.Info != nil {
				add(string(n.Info.Segment.Value(d.source)))
			}
			add(comment.ReplaceAllString(string(n.Lines().Value(d.source)), "#"))
		case *extast.TableRow, *extast.TableHeader, *extast.TableCell, *ast.List, *ast.ListItem:
			add(n.Kind().String())
		case *ast.Link:
			inline = append(inline, s.target(d, string(n.Destination)))
		case *ast.Image:
			inline = append(inline, s.target(d, string(n.Destination)))
		case *ast.CodeSpan:
			inline = append(inline, d.plain(n))
		}
	})
	add()
	return parts
}

// page returns the page that a translation translates, or the page itself.
func page(name string) string {
	switch {
	case name == "README.zh-CN.md":
		return "README.md"
	case strings.HasPrefix(name, translations):
		return english.in(name)
	}
	return name
}

// target returns where a link leads, in the same words for both languages. The two pages of
// the repository lead to each other.
func (s *site) target(d *document, target string) string {
	if isExternal(target) {
		return target
	}
	file, anchor := d.resolve(target)
	if to := s.documents[file]; to != nil {
		anchor = to.anchor(anchor)
	}
	return page(file) + "#" + anchor
}

func readSite(t *testing.T, root string) *site {
	t.Helper()
	s, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	s.align()
	return s
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
