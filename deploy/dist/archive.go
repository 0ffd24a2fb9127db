package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// file is a file of an archive.
type file struct {
	name    string
	content []byte
	mode    int64
}

func sortFiles(files []file) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// tarOf writes files with the time of the release and the owner root. Directories come
// before their files.
func (r *release) tarOf(to io.Writer, prefix string, files []file) error {
	archive := tar.NewWriter(to)
	made := map[string]bool{}
	for _, f := range files {
		name := prefix + f.name
		for i, c := range name {
			if c != '/' || i == 0 || made[name[:i+1]] || name[:i+1] == "./" {
				continue
			}
			made[name[:i+1]] = true
			if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name[:i+1], Mode: 0o755, ModTime: r.date, Uname: "root", Gname: "root", Format: tar.FormatGNU}); err != nil {
				return err
			}
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: f.mode, Size: int64(len(f.content)), ModTime: r.date, Uname: "root", Gname: "root", Format: tar.FormatGNU}); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// tarGz returns a compressed archive. Its head has no time and no name.
func (r *release) tarGz(prefix string, files []file) ([]byte, error) {
	var b bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := r.tarOf(compressed, prefix, files); err != nil {
		return nil, err
	}
	err = compressed.Close()
	return b.Bytes(), err
}

func (r *release) writeTarGz(path, prefix string, files []file) error {
	content, err := r.tarGz(prefix, files)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func (r *release) writeZip(path, prefix string, files []file) error {
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	for _, f := range files {
		head := &zip.FileHeader{Name: prefix + "/" + f.name, Method: zip.Deflate, Modified: r.date}
		head.SetMode(os.FileMode(f.mode))
		w, err := archive.CreateHeader(head)
		if err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// checksums writes the hashes of all files, as sha256sum does.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}
