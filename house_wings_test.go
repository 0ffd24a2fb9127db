package patchbay_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const wingsDir = "internal/wings/"

// wingLists name the wings: their settings, those of the gateway, and those of the program.
var wingLists = []string{"internal/wings/wings.go", "internal/gateway/wings.go", "cmd/patchbay/wings.go"}

// verbFiles are the files of the program that belong to the wing which they import: its verbs
// and their tests. Files that import none say so in their first line.
var verbFiles = map[string]string{
	"cmd/patchbay/audit.go":               "audit",
	"cmd/patchbay/audit_test.go":          "audit",
	"cmd/patchbay/backup.go":              "backup",
	"cmd/patchbay/backup_kept_test.go":    "backup",
	"cmd/patchbay/rekey.go":               "backup",
	"cmd/patchbay/bench.go":               "measure",
	"cmd/patchbay/bench_test.go":          "measure",
	"cmd/patchbay/demo.go":                "demo",
	"cmd/patchbay/demo_test.go":           "demo",
	"cmd/patchbay/doctor.go":              "doctor",
	"cmd/patchbay/import.go":              "importer",
	"cmd/patchbay/init.go":                "starter",
	"cmd/patchbay/processes.go":           "processes",
	"cmd/patchbay/processes_test.go":      "processes",
	"cmd/patchbay/processes_verb_test.go": "processes",
	"cmd/patchbay/runs.go":                "runs",
	"cmd/patchbay/watch.go":               "terminal",
}

// stillNamed are files of the core that import a wing. The list only shrinks.
var stillNamed = []string{}

// alliedWings are wings that import another one, "importer imported", with the reason.
var alliedWings = map[string]string{}

// coreNamesNoWing finds imports of wings outside of the lists, and wings that need each other.
func coreNamesNoWing(tr *tree) []string {
	var found []string
	named, allied := map[string]bool{}, map[string]bool{}
	for _, f := range tr.files {
		own := wingOf(f.path)
		for _, spec := range f.Imports {
			imported := wingOf(strings.TrimPrefix(importPath(spec), module+"/") + "/")
			pair := own + " " + imported
			switch {
			case imported == "" || imported == own || slices.Contains(wingLists, f.path), verbFiles[f.path] == imported:
			case own != "" && alliedWings[pair] != "":
				allied[pair] = true
			case own != "":
				found = append(found, tr.at(spec.Pos(), "the wing %s imports the wing %s; let the gateway pass in what is needed, or give a reason in alliedWings", own, imported))
			case slices.Contains(stillNamed, f.path):
				named[f.path] = true
			default:
				found = append(found, tr.at(spec.Pos(), "the core names the wing %s; let the wing bring what is needed (internal/serve/wing), or move this file into its folder", imported))
			}
		}
	}
	present := map[string]bool{}
	for _, f := range tr.files {
		present[wingOf(f.path)] = true
		if slices.Contains(stillNamed, f.path) && !named[f.path] {
			found = append(found, tr.at(f.Package, "names no wing any more; take it out of stillNamed in house_wings_test.go"))
		}
	}
	for _, pair := range slices.Sorted(maps.Keys(alliedWings)) {
		if importer, _, _ := strings.Cut(pair, " "); present[importer] && !allied[pair] {
			found = append(found, fmt.Sprintf("house_wings_test.go: %s: the first needs the second no more; take them out of alliedWings", pair))
		}
	}
	return found
}

// wingOf returns the wing to which a file or a package belongs, "" where it is in none.
func wingOf(path string) string {
	rest, inside := strings.CutPrefix(path, wingsDir)
	wing, _, isFolder := strings.Cut(rest, "/")
	if !inside || !isFolder {
		return ""
	}
	return wing
}
