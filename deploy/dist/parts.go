package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
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

// thirdParty is the file with the licences of all third-party parts of a binary.
const thirdParty = "THIRD_PARTY_LICENSES.txt"

// part is a third-party part of the binary.
type part struct {
	name, version string
	licence       string // its identifier, as SPDX has it
	text          string // the licence, and the notices that go along with it
	purl          string
	hashes        []hash
}

// partsOf returns the parts of a binary: Go itself, the modules that the binary names,
// and the packages of the console.
func (r *release) partsOf(binary string) ([]part, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	standard, err := partOfGo(info.GoVersion)
	if err != nil {
		return nil, err
	}
	parts := []part{standard}
	for _, module := range modulesOf(info) {
		id, text, err := licenceOf(module)
		if err != nil {
			return nil, err
		}
		if id == "" {
			return nil, fmt.Errorf("the licence of %s is not one that this program knows", module.Path)
		}
		parts = append(parts, part{
			module.Path, module.Version, id, text,
			"pkg:golang/" + module.Path + "@" + module.Version, moduleHash(module.Sum),
		})
	}
	packages, err := r.consoleParts()
	return append(parts, packages...), err
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

// partOfGo returns the runtime and the standard library, which are in every binary.
func partOfGo(version string) (part, error) {
	root, err := goEnv("GOROOT")
	if err != nil {
		return part{}, err
	}
	// Where Go comes from a distribution, its documents may be elsewhere.
	text, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return part{}, fmt.Errorf("the licence of Go: %w", err)
	}
	return part{
		name: "stdlib", version: version, licence: "BSD-3-Clause", text: string(text),
		purl: "pkg:golang/stdlib@" + strings.TrimPrefix(version, "go"),
	}, nil
}

func goEnv(name string) (string, error) {
	output, err := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(output)), err
}

// consolePackage matches a line of the list of packages that the build of the console
// writes.
var consolePackage = regexp.MustCompile(`(?m)^(\S+) +(\d\S+) +(\S+)$`)

// consoleParts returns the packages that are in the built files of the console, as its
// build has written them down beside them.
func (r *release) consoleParts() ([]part, error) {
	content, err := os.ReadFile(filepath.Join(r.root, "console/dist/assets/licenses.txt"))
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(r.root, "console/package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Integrity string `json:"integrity"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return nil, err
	}
	sections := strings.Split(string(content), "\n"+strings.Repeat("=", 78)+"\n")
	var parts []part
	for _, line := range consolePackage.FindAllStringSubmatch(sections[0], -1) {
		p := part{
			name: line[1], version: line[2], licence: line[3],
			purl: "pkg:npm/" + strings.Replace(line[1], "@", "%40", 1) + "@" + line[2],
		}
		for _, section := range sections[1:] {
			packages, text, _ := strings.Cut(section, "\n\n")
			if slices.Contains(strings.Split(packages, "\n"), p.name+" "+p.version) {
				p.text = text
			}
		}
		if p.text == "" {
			return nil, fmt.Errorf("the licence of %s is missing; run 'make console'", p.name)
		}
		if p.hashes = packageHash(lock.Packages["node_modules/"+p.name].Integrity); p.hashes == nil {
			return nil, fmt.Errorf("the lock of the console has no hash of %s", p.name)
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil, errors.New("the console names no packages; run 'make console'")
	}
	return parts, nil
}

// licences returns the list of parts, and after it their licences.
func licences(parts []part) []byte {
	var list, texts bytes.Buffer
	list.WriteString("Patchbay is built of these parts. Their licences follow.\n\n")
	for _, p := range parts {
		fmt.Fprintf(&list, "%-60s %-40s %s\n", p.name, p.version, p.licence)
		fmt.Fprintf(&texts, "\n%s\n%s %s\n%s\n\n%s\n", strings.Repeat("=", 78), p.name, p.version, p.licence, strings.TrimSpace(p.text))
	}
	return append(list.Bytes(), texts.Bytes()...)
}

// licenceFile matches the names of files that go along with a module.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// licenceOf reads the licence of a module in the module cache, and names it. Notices, which
// the Apache License asks for, come after it.
func licenceOf(module *debug.Module) (id, text string, err error) {
	cache, err := goEnv("GOMODCACHE")
	if err != nil {
		return "", "", err
	}
	dir := filepath.Join(cache, escaped(module.Path)+"@"+escaped(module.Version))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", "", err
	}
	for _, entry := range entries {
		if !licenceFile.MatchString(entry.Name()) || entry.IsDir() {
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

// moduleHash reads the hash of go.sum, which is one over the hashes of a module's files.
func moduleHash(sum string) []hash { return decodedHash("SHA-256", sum, "h1:") }

// packageHash reads the hash of a package in a lock of npm.
func packageHash(integrity string) []hash { return decodedHash("SHA-512", integrity, "sha512-") }

func decodedHash(algorithm, text, prefix string) []hash {
	encoded, isKnown := strings.CutPrefix(text, prefix)
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !isKnown || err != nil {
		return nil
	}
	return []hash{{algorithm, hex.EncodeToString(raw)}}
}
