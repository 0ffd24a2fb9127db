package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
)

// component is a module in a bill of materials of the CycloneDX format.
type component struct {
	Type     string     `json:"type"`
	BOMRef   string     `json:"bom-ref,omitempty"`
	Name     string     `json:"name"`
	Version  string     `json:"version"`
	PURL     string     `json:"purl,omitempty"`
	Hashes   []hash     `json:"hashes,omitempty"`
	Licenses []licensed `json:"licenses,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type licensed struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

func licence(id string) []licensed {
	if id == "" {
		return nil
	}
	var l licensed
	l.License.ID = id
	return []licensed{l}
}

// writeSBOM writes the modules that a binary was built of, as the binary itself says.
func (r *release) writeSBOM(path, binary, name string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	components := []component{{
		Type: "library", BOMRef: "pkg:golang/stdlib@" + info.GoVersion, Name: "stdlib", Version: info.GoVersion,
		PURL: "pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go"), Licenses: licence("BSD-3-Clause"),
	}}
	for _, module := range modulesOf(info) {
		id, _, err := r.licenceOf(module)
		if err != nil {
			return err
		}
		purl := "pkg:golang/" + module.Path + "@" + module.Version
		components = append(components, component{
			Type: "library", BOMRef: purl, Name: module.Path, Version: module.Version, PURL: purl, Hashes: moduleHash(module.Sum), Licenses: licence(id),
		})
	}
	document := map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"serialNumber": "urn:uuid:" + uuidOf(sum[:]),
		"metadata": map[string]any{
			"timestamp": r.date.Format("2006-01-02T15:04:05Z"),
			"component": component{
				Type: "application", BOMRef: name, Name: "patchbay", Version: r.version, PURL: "pkg:golang/" + info.Main.Path + "@" + r.version,
				Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Licenses: licence("Apache-2.0"),
			},
		},
		"components": components,
	}
	data, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// uuidOf makes a UUID of a hash, so that the same binary has the same.
func uuidOf(sum []byte) string {
	u := slices.Clone(sum[:16])
	u[6], u[8] = u[6]&0x0f|0x50, u[8]&0x3f|0x80
	text := hex.EncodeToString(u)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// moduleHash reads the hash of go.sum, which is one over the hashes of a module's files.
func moduleHash(sum string) []hash {
	encoded, isKnown := strings.CutPrefix(sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !isKnown || err != nil {
		return nil
	}
	return []hash{{"SHA-256", hex.EncodeToString(raw)}}
}

func modulesOf(info *debug.BuildInfo) []*debug.Module {
	var modules []*debug.Module
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		modules = append(modules, module)
	}
	slices.SortFunc(modules, func(a, b *debug.Module) int { return strings.Compare(a.Path, b.Path) })
	return modules
}

// licences returns the licences of all modules of a binary, with their texts.
func (r *release) licences(binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var list, texts bytes.Buffer
	list.WriteString("Patchbay is built of these modules. Their licences follow.\n\n")
	for _, module := range modulesOf(info) {
		id, text, err := r.licenceOf(module)
		if err != nil {
			return nil, err
		}
		if id == "" {
			return nil, fmt.Errorf("the licence of %s is not one that this program knows", module.Path)
		}
		fmt.Fprintf(&list, "%-60s %-40s %s\n", module.Path, module.Version, id)
		fmt.Fprintf(&texts, "\n%s\n%s %s\n%s\n\n%s\n", strings.Repeat("=", 78), module.Path, module.Version, id, strings.TrimSpace(text))
	}
	return append(list.Bytes(), texts.Bytes()...), nil
}

// licenceOf reads the licence of a module in the module cache, and names it.
func (r *release) licenceOf(module *debug.Module) (id, text string, err error) {
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return "", "", err
	}
	dir := filepath.Join(strings.TrimSpace(string(cache)), escaped(module.Path)+"@"+escaped(module.Version))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", "", err
	}
	for _, entry := range entries {
		if !regexp.MustCompile(`(?i)^(licen[cs]e|copying)`).MatchString(entry.Name()) || entry.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return "", "", err
		}
		if id == "" {
			id = nameOf(string(content))
		}
		text += string(content) + "\n"
	}
	return id, text, nil
}

// nameOf recognises a licence by its words.
func nameOf(text string) string {
	plain := strings.Join(strings.Fields(text), " ")
	for _, known := range []struct{ id, words string }{
		{"Apache-2.0", "Apache License Version 2.0"},
		{"MPL-2.0", "Mozilla Public License Version 2.0"},
		{"BSD-3-Clause", "Neither the name of"},
		{"BSD-3-Clause", "names of its contributors may be used to endorse"},
		{"BSD-2-Clause", "Redistributions in binary form must reproduce"},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
		{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose"},
		{"MIT", "Permission is hereby granted, free of charge"},
		{"Apache-2.0", "Licensed under the Apache License, Version 2.0"},
		{"Unlicense", "This is free and unencumbered software released into the public domain"},
	} {
		if strings.Contains(strings.ToLower(plain), strings.ToLower(known.words)) {
			return known.id
		}
	}
	return ""
}

// escaped writes a path as the module cache does: capital letters as ! and the small one.
func escaped(path string) string {
	var b strings.Builder
	for _, c := range path {
		if unicode.IsUpper(c) {
			b.WriteByte('!')
			c = unicode.ToLower(c)
		}
		b.WriteRune(c)
	}
	return b.String()
}
