package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// A binary names what it was built of. What the console brings, and Go itself, are parts
// of it as well, each with its licence, and with the hash by which others know it.
func TestPartsOfABinary(t *testing.T) {
	r := sample(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := r.partsOf(self)
	if err != nil {
		t.Fatal(err)
	}
	text := string(licences(parts))
	sbom := filepath.Join(r.out, "x.cdx.json")
	if err := r.writeSBOM(sbom, "x", []byte("binary"), parts); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(sbom)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct{ Components []component }
	if err := json.Unmarshal(content, &bill); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ purl, licence, notice, algorithm string }{
		{"pkg:golang/stdlib@", "BSD-3-Clause", "Copyright 2009 The Go Authors.", ""},
		{"pkg:golang/golang.org/x/crypto/x509roots/fallback@", "BSD-3-Clause", "The Go Authors", "SHA-256"},
		{"pkg:npm/react@", "MIT", "Copyright (c) Meta Platforms, Inc. and affiliates.", "SHA-512"},
		{"pkg:npm/%40radix-ui/react-menu@", "MIT", "WorkOS", "SHA-512"},
		{"pkg:npm/uplot@", "MIT", "Leon Sorokin", "SHA-512"},
		{"pkg:npm/lucide-react@", "ISC", "Lucide", "SHA-512"},
		{"pkg:npm/tslib@", "0BSD", "Microsoft", "SHA-512"},
		{"pkg:npm/tailwindcss@", "MIT", "Tailwind Labs", "SHA-512"},
	} {
		at := slices.IndexFunc(bill.Components, func(c component) bool { return strings.HasPrefix(c.PURL, want.purl) })
		if at < 0 {
			t.Errorf("the bill of materials lacks %s", want.purl)
			continue
		}
		c := bill.Components[at]
		if c.Licenses[0].License.ID != want.licence || want.algorithm != "" && (len(c.Hashes) != 1 || c.Hashes[0].Algorithm != want.algorithm) {
			t.Errorf("%+v", c)
		}
		_, its, found := strings.Cut(text, "\n"+c.Name+" "+c.Version+"\n"+want.licence+"\n")
		its, _, _ = strings.Cut(its, strings.Repeat("=", 78))
		if !found || !strings.Contains(its, want.notice) {
			t.Errorf("the licences have no notice %q of %s", want.notice, c.Name)
		}
	}
}

// The Apache License asks for the notices of a work, which are in a file of their own.
func TestNoticesGoAlong(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("GOMODCACHE", cache)
	dir := filepath.Join(cache, "example.com/!some@v1.0.0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"LICENSE": "Apache License\nVersion 2.0", "NOTICE": "made by somebody", "main.go": "package main"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	id, text, err := licenceOf(&debug.Module{Path: "example.com/Some", Version: "v1.0.0"})
	if err != nil || id != "Apache-2.0" || !strings.Contains(text, "Version 2.0") || !strings.Contains(text, "made by somebody") || strings.Contains(text, "package main") {
		t.Errorf("%s, %v: %s", id, err, text)
	}
}
