package main

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func documentsOf(t *testing.T, r *release) map[string]file {
	t.Helper()
	files, err := r.documents()
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]file{}
	for _, f := range files {
		held[f.name] = f
	}
	return held
}

// Every link of a document in an archive leads to something in the archive or to the
// repository, at the version of the archive, and every file of deploy/ that a document
// names is there.
func TestAnArchiveHoldsWhatItsDocumentsUse(t *testing.T) {
	r := sample(t)
	held := documentsOf(t, r)
	isHeld := func(name string) bool {
		_, isFile := held[name]
		return isFile || slices.ContainsFunc(slices.Collect(maps.Keys(held)), func(other string) bool { return strings.HasPrefix(other, name+"/") })
	}
	links := 0
	for name, f := range held {
		if path.Ext(name) != ".md" {
			continue
		}
		text := string(f.content)
		for _, found := range regexp.MustCompile(`\]\(([^)\s#]+)`).FindAllStringSubmatch(text, -1) {
			links++
			if within, isRepository := strings.CutPrefix(found[1], r.home()+"/"); isRepository {
				if strings.Contains(within, "/v1.2.3/") && strings.HasPrefix(within, "blob/") != strings.HasPrefix(within, "tree/") || strings.HasPrefix(within, "releases") {
					continue
				}
			} else if strings.Contains(found[1], "://") || isHeld(path.Join(path.Dir(name), found[1])) {
				continue
			}
			t.Errorf("%s: %s leads nowhere", name, found[1])
		}
		if name == "CONTRIBUTING.md" || name == "CHANGELOG.md" || name == "docs/decisions.md" || name == "docs/architecture.md" { // these are about the repository
			continue
		}
		for _, found := range regexp.MustCompile("(?:^|[ `(])(deploy/[\\w./-]*\\w)").FindAllStringSubmatch(text, -1) {
			if !isHeld(found[1]) {
				t.Errorf("%s: %s is not in the archive", name, found[1])
			}
		}
	}
	const enough = 200
	if links < enough {
		t.Errorf("only %d links", links)
	}
	if mode := held["deploy/cluster/start.sh"].mode; mode != 0o755 {
		t.Errorf("start.sh cannot be run: %o", mode)
	}
}

func TestALinkThatLeadsNowhereStopsTheBuild(t *testing.T) {
	r := sample(t)
	for _, target := range []string{"gone.md", "../../outside"} {
		if _, err := r.relinked(file{"docs/a.md", []byte("[x](" + target + ")"), 0o644}, map[string]bool{}); err == nil {
			t.Errorf("%s: no error", target)
		}
	}
}

// A release has the notes of its version, whose links lead to the repository; a version
// without notes has no such file.
func TestAReleaseHasItsNotes(t *testing.T) {
	r := sample(t)
	r.version, r.out = "v0.1.0", t.TempDir()
	if err := r.writeNotes(); err != nil {
		t.Fatal(err)
	}
	notes, err := os.ReadFile(filepath.Join(r.out, releaseNotes))
	if err != nil || !strings.Contains(string(notes), "]("+r.home()+"/blob/v0.1.0/docs/turn-on.md)") || strings.Contains(string(notes), "](..") {
		t.Errorf("%v\n%s", err, notes)
	}
	r.version, r.out = "v9.9.9", t.TempDir()
	if err := r.writeNotes(); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(r.out); err != nil || len(files) > 0 {
		t.Errorf("%v %v", files, err)
	}
}

// The compose files and the chart of an archive run the image that was made with it.
func TestConfigurationsOfAnArchiveRunItsOwnImage(t *testing.T) {
	for version, want := range map[string]struct{ tag, chart string }{
		"v1.2.3":      {"1.2.3", "1.2.3"},
		"v1.2.3-rc.1": {"1.2.3-rc.1", "1.2.3-rc.1"},
		"0123456":     {"0123456", "0.0.0-g0123456"},
	} {
		r := sample(t)
		r.version = version
		held := documentsOf(t, r)
		for _, name := range []string{"deploy/compose/compose.yaml", "deploy/compose/cluster.yaml"} {
			if text := string(held[name].content); !strings.Contains(text, "ghcr.io/patchbay-ai/patchbay:"+want.tag+"}") || strings.Contains(text, ":latest") {
				t.Errorf("%s of %s has another image:\n%s", name, version, text)
			}
		}
		chart := string(held["deploy/helm/patchbay/Chart.yaml"].content)
		if !strings.Contains(chart, "\nversion: "+want.chart+"\n") || !strings.Contains(chart, "\nappVersion: \""+want.tag+"\"\n") {
			t.Errorf("the chart of %s:\n%s", version, chart)
		}
	}
}
