// Command dist builds what is released: static binaries for every platform, archives,
// Debian packages, a software bill of materials, the licences of all modules, and
// checksums. The same commit always gives the same bytes.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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

// release is what is built, and from what.
type release struct {
	root, out string // directories
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

// build makes everything.
func (r *release) build(ctx context.Context, only string) error {
	var err error
	if r.root, err = filepath.Abs(r.root); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
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
	for _, p := range platforms {
		if only != "" && only != p.os+"/"+p.arch {
			continue
		}
		fmt.Println("building", p.os+"/"+p.arch)
		if err := r.buildFor(ctx, work, p, extras); err != nil {
			return fmt.Errorf("%s/%s: %w", p.os, p.arch, err)
		}
	}
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	return r.checksums()
}

// buildFor makes binary, archive and package for a platform.
func (r *release) buildFor(ctx context.Context, work string, p platform, extras []file) error {
	name := "patchbay"
	if p.os == "windows" {
		name += ".exe"
	}
	binary := filepath.Join(work, p.os+"-"+p.arch, name)
	if err := r.compile(ctx, binary, p.os, p.arch); err != nil {
		return err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	base := fmt.Sprintf("patchbay_%s_%s_%s", r.plainVersion(), p.os, p.arch)
	files := append([]file{{name, content, 0o755}}, extras...)
	if p.os == "windows" {
		err = r.writeZip(filepath.Join(r.out, base+".zip"), base, files)
	} else {
		err = r.writeTarGz(filepath.Join(r.out, base+".tar.gz"), base+"/", files)
	}
	if err != nil {
		return err
	}
	if err := r.writeSBOM(filepath.Join(r.out, base+".cdx.json"), binary, base); err != nil {
		return err
	}
	if p.os != "linux" {
		return nil
	}
	return r.writeDeb(p.arch, content, extras)
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

// documents are the files that people read, and that README links to.
var documents = []string{"LICENSE", "*.md", "docs/*.md", "docs/images/*"}

// extras returns what stands beside the binary: documents, licences, manual pages,
// completions, the unit and a configuration. The binary of this machine writes some of it.
func (r *release) extras(ctx context.Context, work string) ([]file, error) {
	host := filepath.Join(work, "host", "patchbay")
	if err := r.compile(ctx, host, "", ""); err != nil {
		return nil, err
	}
	var files []file
	add := func(name string, content []byte) { files = append(files, file{name, content, 0o644}) }
	sources := map[string]string{"systemd/patchbay.service": "deploy/systemd/patchbay.service", "systemd/patchbay.yaml": "deploy/systemd/patchbay.yaml"}
	for _, pattern := range documents {
		found, err := fs.Glob(os.DirFS(r.root), pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			sources[name] = name
		}
	}
	for name, source := range sources {
		content, err := os.ReadFile(filepath.Join(r.root, source))
		if err != nil {
			return nil, err
		}
		add(name, content)
	}
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
	licences, err := r.licences(host)
	if err != nil {
		return nil, err
	}
	add("THIRD_PARTY_LICENSES.txt", licences)
	sortFiles(files)
	return files, nil
}
