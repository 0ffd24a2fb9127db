package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/console"
)

// The policy that the gateway sends allows files of its own only, so the page
// must name files that are there, and must hold no script or style itself.
func TestPageNamesItsFilesAndHoldsNoScript(t *testing.T) {
	files, err := console.Files()
	if err != nil {
		t.Fatal(err)
	}
	page, err := fs.ReadFile(files, "index.html")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?:src|href)="/([^"]+)"`).FindAllStringSubmatch(string(page), -1)
	if len(named) < 3 {
		t.Fatalf("the page names %d files, want its script, its style and its icon: %s", len(named), page)
	}
	for _, name := range named {
		if _, err := fs.Stat(files, name[1]); err != nil {
			t.Errorf("the page names a file that is not there: %v", err)
		}
	}
	if found := regexp.MustCompile(`<style|style=|\son\w+=|<script[^>]*>[^<]`).Find(page); found != nil {
		t.Errorf("the page holds %q, which the policy forbids", found)
	}
}

// Names of other hosts in scripts are links for people, never things to load.
func TestFilesLoadNothingFromElsewhere(t *testing.T) {
	files, err := console.Files()
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".css") && !strings.HasSuffix(name, ".html") {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if found := regexp.MustCompile(`(?:url\(|src=|href=|@import)\s*["']?(?:https?:)?//[^"')\s]+`).Find(content); found != nil {
			t.Errorf("%s loads %s", name, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The build writes down the hashes of its sources and of its output. A source
// that has changed since, or a built file that the build did not make, is a build
// that was forgotten.
func TestBuiltFilesMatchTheirSources(t *testing.T) {
	list, err := os.ReadFile("dist.sha256")
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]string{}
	for line := range strings.Lines(string(list)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		recorded[name] = sum
	}
	for _, root := range []string{"dist", "index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.ts"} {
		err := fs.WalkDir(os.DirFS("."), root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(name)
			sum := sha256.Sum256(content)
			if recorded[name] != hex.EncodeToString(sum[:]) {
				t.Errorf("%s has changed since the console was built; run 'make console'", name)
			}
			delete(recorded, name)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range recorded {
		t.Errorf("%s was removed since the console was built; run 'make console'", name)
	}
}
