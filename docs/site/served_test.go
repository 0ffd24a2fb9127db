package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages that the program holds are those of the sources.
func TestServedPagesAreThoseOfTheSources(t *testing.T) {
	made, kept := servedFiles(t), unpacked(t, filepath.Join(root, "docs/served"))
	const remedy = "; run make docs-served, and commit docs/served"
	if !slices.Equal(slices.Sorted(maps.Keys(made)), slices.Sorted(maps.Keys(kept))) {
		t.Fatal("docs/served has other files than its sources make" + remedy)
	}
	for name, content := range made {
		if kept[name] != content {
			t.Error("docs/served/" + name + " is not that of its sources" + remedy)
		}
	}
}

// A section has the same address in both languages, and no link of a page leads to a section
// that is not there.
func TestServedPagesHaveTheSameSectionsInBothLanguages(t *testing.T) {
	files := servedFiles(t)
	id, link := regexp.MustCompile(`<h[1-4] id="([^"]+)"`), regexp.MustCompile(`href="(?:/docs/([a-z-]+)\?lang=(en|zh))?#([^"]+)"`)
	pages := 0
	for name, content := range files {
		if !strings.HasPrefix(name, "en/") || name == "en/index.html.gz" || name == "en/missing.html.gz" {
			continue
		}
		pages++
		translated := files[strings.Replace(name, "en/", "zh/", 1)]
		if ids := id.FindAllStringSubmatch(content, -1); len(ids) < 2 || !slices.EqualFunc(ids, id.FindAllStringSubmatch(translated, -1), func(a, b []string) bool { return a[1] == b[1] }) {
			t.Errorf("%s has other sections in Chinese", name)
		}
		for _, text := range []string{content, translated} {
			for _, match := range link.FindAllStringSubmatch(text, -1) {
				to := text
				if match[1] != "" {
					to = files[match[2]+"/"+match[1]+".html.gz"]
				}
				if !strings.Contains(to, `id="`+match[3]+`"`) {
					t.Errorf("%s: %s leads to no section", name, match[0])
				}
			}
		}
	}
	const enough = 5
	if pages < enough {
		t.Errorf("only %d pages are served", pages)
	}
}

func servedFiles(t *testing.T) map[string]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "served")
	_, problems, err := serve(root, out)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, strings.Join(problems, "\n"))
	}
	return unpacked(t, out)
}

// unpacked returns the compressed files below a directory by their names.
func unpacked(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		packed, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		from, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return err
		}
		content, err := io.ReadAll(from)
		found[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
