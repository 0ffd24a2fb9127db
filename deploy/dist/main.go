// Command dist builds the files of a release: static binaries for every platform,
// archives, Debian packages, container images, the Helm chart, a software bill of
// materials, the licences of all parts, and checksums. The same commit always gives the
// same bytes.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// platform is a system that a binary is for.
type platform struct{ os, arch string }

var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// release describes a build: its directories, its version and its commit.
type release struct {
	root, out string // directories
	layout    string // the directory of the image for a registry
	module    string // the path of the module
	version   string
	commit    string
	date      time.Time // of the commit; everything has this time
	branch    string
}

func main() {
	r := release{}
	only := flag.String("only", "", "one platform, such as linux/amd64")
	flag.StringVar(&r.root, "root", "../..", "directory of the module")
	flag.StringVar(&r.out, "out", "../../bin/dist", "directory to write to; it is emptied")
	flag.StringVar(&r.layout, "layout", "../../bin/image", "directory to write the image of all architectures to, for a registry; it is emptied")
	flag.StringVar(&r.version, "version", "dev", "version")
	flag.StringVar(&r.commit, "commit", "unknown", "commit")
	flag.StringVar(&r.branch, "branch", "", "branch")
	date := flag.String("date", "", "time of the commit, RFC 3339")
	flag.Parse()
	var err error
	if r.date, err = time.Parse(time.RFC3339, *date); err != nil {
		r.date = time.Unix(0, 0)
	}
	r.date = r.date.UTC()
	if err := r.build(context.Background(), *only); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// prepare makes the directories absolute, and reads where the project is at home.
func (r *release) prepare() error {
	for _, dir := range []*string{&r.root, &r.out, &r.layout} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return err
		}
		*dir = absolute
	}
	content, err := os.ReadFile(filepath.Join(r.root, "go.mod"))
	if err != nil {
		return err
	}
	found := modulePath.FindSubmatch(content)
	if found == nil {
		return errors.New("go.mod names no module")
	}
	r.module = string(found[1])
	return nil
}

// build makes everything.
func (r *release) build(ctx context.Context, only string) error {
	if err := r.prepare(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	work := filepath.Join(r.out, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	extras, err := r.extras(ctx, work)
	if err != nil {
		return err
	}
	images, manifests := blobs{}, []descriptor(nil)
	for _, p := range platforms {
		if only != "" && only != p.os+"/"+p.arch {
			continue
		}
		fmt.Println("building", p.os+"/"+p.arch)
		built, err := r.buildFor(ctx, work, p, extras)
		if err == nil && p.os == "linux" {
			err = r.packageFor(p.arch, built, images, &manifests)
		}
		if err != nil {
			return fmt.Errorf("%s/%s: %w", p.os, p.arch, err)
		}
	}
	if len(manifests) > 0 {
		if err := r.writeLayout(images, manifests); err != nil {
			return err
		}
	}
	if err := r.writeChart(extras); err != nil {
		return err
	}
	if err := r.writeNotes(); err != nil {
		return err
	}
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	return r.checksums()
}

// product is a binary and the files beside it.
type product struct {
	binary []byte
	extras []file
}

// buildFor makes binary, archive and bill of materials for a platform.
func (r *release) buildFor(ctx context.Context, work string, p platform, extras []file) (product, error) {
	name := "patchbay"
	if p.os == "windows" {
		name += ".exe"
	}
	binary := filepath.Join(work, p.os+"-"+p.arch, name)
	if err := r.compile(ctx, binary, p.os, p.arch); err != nil {
		return product{}, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return product{}, err
	}
	parts, err := r.partsOf(binary) // some parts are for one platform only
	if err != nil {
		return product{}, err
	}
	built := product{content, append(slices.Clip(extras), file{thirdParty, licences(parts), 0o644})}
	sortFiles(built.extras)
	base := fmt.Sprintf("patchbay_%s_%s_%s", r.plainVersion(), p.os, p.arch)
	files := append([]file{{name, content, 0o755}}, built.extras...)
	if p.os == "windows" {
		err = r.writeZip(filepath.Join(r.out, base+".zip"), base, files)
	} else {
		err = r.writeTarGz(filepath.Join(r.out, base+".tar.gz"), base+"/", files)
	}
	if err != nil {
		return product{}, err
	}
	return built, r.writeSBOM(filepath.Join(r.out, base+".cdx.json"), base, content, parts)
}

// packageFor makes the Debian package and the image for an architecture, with the binary
// that is in the archive.
func (r *release) packageFor(arch string, built product, images blobs, manifests *[]descriptor) error {
	if err := r.writeDeb(arch, built.binary, built.extras); err != nil {
		return err
	}
	manifest, err := r.addImage(images, arch, built.binary, built.extras)
	if err != nil {
		return err
	}
	*manifests = append(*manifests, manifest)
	return r.writeImage(images, manifest)
}

// compile builds the binary as the Makefile does.
func (r *release) compile(ctx context.Context, to, goos, goarch string) error {
	stamp := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s -X main.date=%s -X main.branch=%s", r.version, r.commit, r.date.Format(time.RFC3339), r.branch)
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", stamp, "-o", to, "./cmd/patchbay")
	command.Dir = r.root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0")
	return run(command)
}

func run(command *exec.Cmd) error {
	var errs bytes.Buffer
	command.Stderr = &errs
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command.Args[:2], " "), err, errs.String())
	}
	return nil
}

// plainVersion is the version without the v of its tag.
func (r *release) plainVersion() string { return strings.TrimPrefix(r.version, "v") }

// extras returns the files beside the binaries of all platforms: documents,
// configurations, manual pages and completions. The binary of this machine writes some of
// them.
func (r *release) extras(ctx context.Context, work string) ([]file, error) {
	host := filepath.Join(work, "host", "patchbay")
	if err := r.compile(ctx, host, "", ""); err != nil {
		return nil, err
	}
	files, err := r.documents()
	if err != nil {
		return nil, err
	}
	add := func(name string, content []byte) { files = append(files, file{name, content, 0o644}) }
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		output, err := exec.CommandContext(ctx, host, "completion", shell).Output()
		if err != nil {
			return nil, err
		}
		add("completions/patchbay."+shell, output)
	}
	pages := filepath.Join(work, "man")
	if err := run(exec.CommandContext(ctx, host, "man", pages, "--date", r.date.Format(time.DateOnly))); err != nil {
		return nil, err
	}
	found, err := filepath.Glob(filepath.Join(pages, "*.1"))
	if err != nil {
		return nil, err
	}
	for _, page := range found {
		content, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		add("man/"+filepath.Base(page), content)
	}
	sortFiles(files)
	return files, nil
}
