package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sample(t *testing.T) *release {
	t.Helper()
	r := &release{root: "../..", out: t.TempDir(), layout: filepath.Join(t.TempDir(), "image"), version: "v1.2.3", commit: "abc", date: time.Date(2030, 1, 31, 0, 0, 0, 0, time.UTC)}
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestArchivesAreTheSameEachTime(t *testing.T) {
	files := []file{{"a/b.txt", []byte("one"), 0o644}, {"patchbay", []byte("two"), 0o755}}
	write := map[string]func(*release) error{
		"x.tar.gz": func(r *release) error { return r.writeTarGz(filepath.Join(r.out, "x.tar.gz"), "x/", files) },
		"x.zip":    func(r *release) error { return r.writeZip(filepath.Join(r.out, "x.zip"), "x", files) },
		"patchbay_1.2.3_amd64.deb": func(r *release) error {
			return r.writeDeb("amd64", []byte("binary"), []file{{"man/patchbay.1", []byte(".TH"), 0o644}, {"deploy/systemd/patchbay.yaml", []byte("a: b"), 0o644}})
		},
		"patchbay_1.2.3_image_amd64.tar": func(r *release) error {
			return r.packageFor("amd64", product{[]byte("binary"), []file{{"LICENSE", []byte("text"), 0o644}}}, blobs{}, new([]descriptor))
		},
		"patchbay-1.2.3.tgz": func(r *release) error {
			documents, err := r.documents()
			if err != nil {
				return err
			}
			return r.writeChart(documents)
		},
	}
	for name, build := range write {
		var contents [][]byte
		for range 2 {
			r := sample(t)
			if err := build(r); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(filepath.Join(r.out, name))
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, content)
		}
		if !bytes.Equal(contents[0], contents[1]) {
			t.Errorf("%s differs", name)
		}
	}
}

func TestDebianReadsItsPackage(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg-deb")
	if err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	r := sample(t)
	if err := r.writeDeb("arm64", []byte("binary"), []file{{"deploy/systemd/patchbay.service", []byte("[Unit]"), 0o644}, {"deploy/systemd/patchbay.yaml", []byte("a: b"), 0o644}}); err != nil {
		t.Fatal(err)
	}
	deb := filepath.Join(r.out, "patchbay_1.2.3_arm64.deb")
	for _, test := range [][2]string{{"--info", "Architecture: arm64"}, {"--contents", "./usr/lib/systemd/system/patchbay.service"}, {"--contents", "-rwxr-xr-x root/root"}} {
		output, err := exec.Command(dpkg, test[0], deb).CombinedOutput()
		if err != nil || !strings.Contains(string(output), test[1]) {
			t.Errorf("%s: %v\n%s", test[0], err, output)
		}
	}
}

func TestVersionsOfDebian(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.2.3-4-gabc": "1.2.3+4+gabc", "v1.2.3-rc.1": "1.2.3~rc.1", "v1.2.3-rc.1-4-gabc": "1.2.3~rc.1+4+gabc",
		"a4dfe51": "0~a4dfe51", "4dfe51a": "0~4dfe51a", "dev": "0~dev",
	} {
		if got := (&release{version: version}).debVersion(); got != want {
			t.Errorf("%s is %s, want %s", version, got, want)
		}
	}
	if dpkg, err := exec.LookPath("dpkg"); err == nil {
		for _, order := range [][2]string{{"0~a4dfe51", "1.2.3~rc.1"}, {"1.2.3~rc.1", "1.2.3"}, {"1.2.3", "1.2.3+4+gabc"}, {"1.2.3+4+gabc", "1.2.4"}} {
			if err := exec.Command(dpkg, "--compare-versions", order[0], "lt", order[1]).Run(); err != nil {
				t.Errorf("%s does not come before %s", order[0], order[1])
			}
		}
	}
}

func TestLicencesAreRecognised(t *testing.T) {
	for text, want := range map[string]string{
		"                                 Apache License\n                           Version 2.0, January 2004": "Apache-2.0",
		"Permission is hereby granted, free of charge, to any person":                                           "MIT",
		"Redistributions in binary form must reproduce ... Neither the name of Google":                          "BSD-3-Clause",
		"all rights reserved": "",
	} {
		if got := nameOf(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
