package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

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

// Whoever gets the console gets the licences of what is built into it, which is what the
// lock names.
func TestTheConsoleHasTheLicencesOfItsPackages(t *testing.T) {
	files, err := console.Files()
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(files, "assets/licenses.txt")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	var lock struct {
		Packages map[string]struct {
			Version string `json:"version"`
		} `json:"packages"`
	}
	for name, to := range map[string]any{"package.json": &manifest, "package-lock.json": &lock} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(content, to); err != nil {
			t.Fatal(err)
		}
	}
	list, texts, _ := strings.Cut(string(text), "\n\n=")
	built := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^(\S+) +(\d\S+) +\S+$`).FindAllStringSubmatch(list, -1) {
		built[line[1]] = true
		if locked := lock.Packages["node_modules/"+line[1]].Version; locked != line[2] {
			t.Errorf("%s is %s, and the lock has %q; run 'make console'", line[1], line[2], locked)
		}
		if !strings.Contains(texts, "\n"+line[1]+" "+line[2]+"\n") {
			t.Errorf("the licence of %s is missing", line[1])
		}
	}
	for name := range manifest.Dependencies {
		isPart := func(part string) bool { return strings.HasPrefix(part, "@"+name+"/") } // all of radix-ui
		if !built[name] && !slices.ContainsFunc(slices.Collect(maps.Keys(built)), isPart) {
			t.Errorf("%s is not in the list", name)
		}
	}
	for _, notice := range []string{"Copyright (c) Meta Platforms, Inc. and affiliates.", "Leon Sorokin", "WorkOS", "Tanner Linsley", "Lucide"} {
		if !strings.Contains(texts, notice) {
			t.Errorf("the notice of %s is missing", notice)
		}
	}
}

// npm installs a package without a hash unchecked.
func TestLockedPackagesHaveHashes(t *testing.T) {
	for _, path := range []string{"package-lock.json", "../test/clients/package-lock.json", "../test/agents/package-lock.json"} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var lock struct {
			Packages map[string]struct {
				Integrity string `json:"integrity"`
				Link      bool   `json:"link"`
			} `json:"packages"`
		}
		if err := json.Unmarshal(content, &lock); err != nil {
			t.Fatal(err)
		}
		for name, locked := range lock.Packages {
			if name != "" && !locked.Link && locked.Integrity == "" {
				t.Errorf("%s: %s has no integrity", path, name)
			}
		}
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
			if err != nil || entry.IsDir() || name == "src/api/schema.ts" { // types alone, made before each build
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
		if sum, isOfWing := recorded[name], strings.HasPrefix(name, "../internal/wings/"); isOfWing {
			content, err := os.ReadFile(name)
			if found := sha256.Sum256(content); err == nil && sum != hex.EncodeToString(found[:]) {
				t.Errorf("%s has changed since the console was built; run 'make console'", name)
			}
			continue // a wing may be deleted
		}
		t.Errorf("%s was removed since the console was built; run 'make console'", name)
	}
}

// The gateway tells in Chinese what the console tells in Chinese.
func TestSentencesAreFoundByTheirCodes(t *testing.T) {
	if text := console.Chinese("token.lacks"); !strings.Contains(text, "{claim}") || strings.Contains(text, "\n") {
		t.Errorf("got %q", text)
	}
	if text := console.Chinese("token.no_such_code"); text != "" {
		t.Errorf("got %q", text)
	}
	if text := console.Chinese("own.code", "\n  'own.code': 'its text',\n"); text != "its text" {
		t.Errorf("got %q, want the sentence of the list that was given", text)
	}
}
