package main

import (
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The chart has the figures of docs/performance.md, and each picture of a terminal shows the
// commands of its script. Both languages of the README show all of them.
func TestPicturesShowWhatTheirSourcesSay(t *testing.T) {
	const remedy = "; run make pictures, and commit docs/images"
	made, err := chart(readFile(t, filepath.Join(root, performancePage)))
	if err != nil {
		t.Fatal(err)
	}
	if string(made) != readFile(t, filepath.Join(root, images, "first-token.svg")) {
		t.Error("first-token.svg is not the chart of " + performancePage + remedy)
	}
	pictures, err := filepath.Glob(filepath.Join(root, images, "*.svg"))
	const all = 4
	if err != nil || len(pictures) != all {
		t.Fatalf("%d pictures: %v", len(pictures), err)
	}
	for _, picture := range pictures {
		content := readFile(t, picture)
		const most = 8 << 10
		if name := "docs/images/" + filepath.Base(picture); len(content) > most || strings.Contains(content, "<script") {
			t.Errorf("%s has %d bytes", name, len(content))
		} else {
			for _, page := range []string{"README.md", "README.zh-CN.md"} {
				if !strings.Contains(readFile(t, filepath.Join(root, page)), "]("+name+")") {
					t.Errorf("%s does not show %s", page, name)
				}
			}
		}
		file := strings.TrimSuffix(picture, ".svg") + ".sh"
		if _, err := os.Stat(file); err != nil {
			continue // the chart
		}
		s, err := readSession(file)
		if err != nil {
			t.Fatal(err)
		}
		shown := html.UnescapeString(content)
		for _, one := range s.steps {
			for _, line := range one.shown() {
				if one.hidden == strings.Contains(shown, ">"+line+"</text>") {
					t.Errorf("%s: %q is shown or missing%s", picture, line, remedy)
				}
			}
		}
	}
}

func TestAChartNeedsItsFigures(t *testing.T) {
	for page, want := range map[string]string{
		"": "has no table", "\n| strategy | from caches | p50 |\n|---|---|---|\n| a | b | 1.0 |\n": "has no means",
	} {
		if _, err := chart(page); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", page, err)
		}
	}
}
