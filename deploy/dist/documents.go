package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// patterns name the files of the repository that a release holds: the documents, and the
// files that the documents tell people to use.
var patterns = []string{
	"LICENSE", "*.md", "docs/*.md", "docs/images/*",
	"deploy/cluster/*", "deploy/compose/*", "deploy/compose/grafana/*", "deploy/grafana/*",
	"deploy/helm/patchbay/*", "deploy/helm/patchbay/templates/*", "deploy/nginx/*", "deploy/prometheus/*", "deploy/systemd/*",
}

// documents returns the files of the repository that a release holds, as they are within
// it: the configurations run the image of the release, and links to other files lead to
// the repository.
func (r *release) documents() ([]file, error) {
	var files []file
	held := map[string]bool{".": true}
	for _, pattern := range patterns {
		names, err := fs.Glob(os.DirFS(r.root), pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			info, err := os.Stat(filepath.Join(r.root, name))
			if err != nil || info.IsDir() {
				continue
			}
			content, err := os.ReadFile(filepath.Join(r.root, name))
			if err != nil {
				return nil, err
			}
			mode := int64(0o644)
			if info.Mode()&0o100 != 0 {
				mode = 0o755
			}
			files = append(files, file{name, r.stamped(name, content), mode})
			for held[name] = true; name != "."; name = path.Dir(name) {
				held[path.Dir(name)] = true
			}
		}
	}
	for i, f := range files {
		if path.Ext(f.name) != ".md" {
			continue
		}
		content, err := r.relinked(f, held)
		if err != nil {
			return nil, err
		}
		files[i].content = content
	}
	return files, nil
}

// stamped returns a file with the version of the release where it names the image or the
// chart of the newest one.
func (r *release) stamped(name string, content []byte) []byte {
	text := string(content)
	switch {
	case strings.HasPrefix(name, "deploy/compose/"):
		text = strings.ReplaceAll(text, r.image()+":latest", r.image()+":"+r.plainVersion())
	case name == "deploy/helm/patchbay/Chart.yaml":
		text = strings.Replace(text, "\nversion: 0.0.0\n", "\nversion: "+r.chartVersion()+"\n", 1)
		text = strings.Replace(text, "\nappVersion: \"latest\"\n", fmt.Sprintf("\nappVersion: %q\n", r.plainVersion()), 1)
	}
	return []byte(text)
}

// link matches the destination of a link or picture in Markdown that is not an address.
var link = regexp.MustCompile(`\]\(([^)\s:#]+)(#[^)\s]*)?\)`)

// relinked returns a document with working links: to files within the release, else to
// the repository.
func (r *release) relinked(f file, held map[string]bool) ([]byte, error) {
	var broken error
	text := link.ReplaceAllStringFunc(string(f.content), func(found string) string {
		parts := link.FindStringSubmatch(found)
		target := path.Join(path.Dir(f.name), parts[1])
		if held[target] {
			return found
		}
		info, err := os.Stat(filepath.Join(r.root, target))
		if err != nil || strings.HasPrefix(target, "../") {
			broken = fmt.Errorf("%s: the link to %s leads nowhere", f.name, parts[1])
			return found
		}
		kind := "blob"
		if info.IsDir() {
			kind = "tree"
		}
		return "](" + r.home() + "/" + kind + "/" + r.reference() + "/" + target + parts[2] + ")"
	})
	return []byte(text), broken
}

// releaseNotes is the name of the notes among the files of a release.
const releaseNotes = "RELEASE_NOTES.md"

// writeNotes writes the notes of the version, with links to the repository. A version that has
// none gets what the release workflow makes of its commits.
func (r *release) writeNotes() error {
	name := "docs/releases/" + r.version + ".md"
	content, err := os.ReadFile(filepath.Join(r.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	content, err = r.relinked(file{name, content, 0o644}, nil)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, releaseNotes), content, 0o644)
}

// modulePath matches the line of go.mod that says where the project is at home.
var modulePath = regexp.MustCompile(`(?m)^module (\S+)$`)

// home returns the address of the repository, which is the path of the module.
func (r *release) home() string { return "https://" + r.module }

// image returns the name of the image without its tag: it is beside the repository.
func (r *release) image() string {
	return "ghcr.io/" + strings.TrimPrefix(r.module, "github.com/")
}

// reference names the sources of the release in the repository.
func (r *release) reference() string {
	if isTag.MatchString(r.version) {
		return r.version
	}
	return r.commit
}

// isTag matches versions that are tags of releases and prereleases, but not commits
// behind a tag.
var isTag = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[A-Za-z][0-9A-Za-z.]*)?$`)

// isRelease reports whether the version is a release that everybody should use, and not a
// prerelease such as v1.2.3-rc.1.
func (r *release) isRelease() bool {
	return isTag.MatchString(r.version) && !strings.Contains(r.version, "-")
}
