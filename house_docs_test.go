package patchbay_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// decisionsPage lists what was decided where the specification is silent, and holesPage the
// holes of other gateways. Every row of their first tables ends in the tests that hold the
// gateway to it.
const (
	decisionsPage = "docs/decisions.md"
	holesPage     = "docs/holes.md"
)

var (
	tableRow    = regexp.MustCompile(`^\| .* \|$`)
	namedInTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
)

// decisionsHaveTests finds decisions that name no test, or one that is gone.
func decisionsHaveTests(tr *tree) []string {
	known := tr.tests()
	var found []string
	for _, page := range tr.texts {
		if page.path != decisionsPage && page.path != holesPage {
			continue
		}
		for i, line := range strings.Split(string(page.content), "\n") {
			if strings.HasPrefix(line, "## Libraries") || strings.HasPrefix(line, "## Other people's code") {
				break
			}
			if !tableRow.MatchString(line) || strings.HasPrefix(line, "| gap |") || strings.HasPrefix(line, "| hole |") {
				continue
			}
			names := namedInTest.FindAllStringSubmatch(line, -1)
			if len(names) == 0 {
				found = append(found, fmt.Sprintf("%s:%d: this row names no test; write the test that fails when it is not kept, and name it", page.path, i+1))
			}
			for _, name := range names {
				if !known[name[1]] {
					found = append(found, fmt.Sprintf("%s:%d: there is no %s; name the test that took its place", page.path, i+1, name[1]))
				}
			}
		}
	}
	return found
}

// testOfAnotherModule matches the tests of modules of which only the texts are known.
var testOfAnotherModule = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)

// tests returns the names of all tests, those of other modules of the repository included.
func (tr *tree) tests() map[string]bool {
	known := map[string]bool{}
	for _, file := range tr.texts {
		if !strings.HasSuffix(file.path, "_test.go") {
			continue
		}
		for _, found := range testOfAnotherModule.FindAllSubmatch(file.content, -1) {
			known[string(found[1])] = true
		}
	}
	for _, f := range tr.files {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
				known[fn.Name.Name] = true
			}
		}
	}
	return known
}

var (
	fence = regexp.MustCompile("^ *```([a-z]*) ?(.*)$")
	// aCommand is a line of a block without a language that somebody would paste into
	// a terminal.
	aCommand = regexp.MustCompile(`^ *(\$ |(make|curl|patchbay|go|docker|npm|sudo|helm) [a-z./-])`)
)

// yamlBlocksAreTried finds blocks of YAML with a mark that is not known. "```yaml" is a
// configuration that TestConfigurationsOfTheDocumentsWork tries, and "```yaml no-test: reason"
// none, or one that needs more than the block.
func yamlBlocksAreTried(tr *tree) []string {
	var found []string
	for _, page := range tr.texts {
		if !strings.HasSuffix(page.path, ".md") {
			continue
		}
		inside := false
		for i, line := range strings.Split(string(page.content), "\n") {
			match := fence.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			if inside = !inside; !inside {
				continue
			}
			reason, isExempt := strings.CutPrefix(match[2], "no-test: ")
			if match[1] == "yml" || match[1] == "yaml" && match[2] != "" && (!isExempt || reason == "") {
				found = append(found, fmt.Sprintf("%s:%d: write ```yaml for a configuration that is tried, or ```yaml no-test: and the reason", page.path, i+1))
			}
		}
	}
	return found
}

// shellBlocksAreRun finds blocks of commands in documents that no test runs and that do
// not say why. "```sh test" is run against the demo (cmd/patchbay/docs_test.go), "```sh
// test=TestName" by that test, and "```sh no-test: reason" by nobody.
func shellBlocksAreRun(tr *tree) []string {
	known := tr.tests()
	var found []string
	for _, page := range tr.texts {
		if !strings.HasSuffix(page.path, ".md") {
			continue
		}
		language, inside := "", false
		for i, line := range strings.Split(string(page.content), "\n") {
			at := fmt.Sprintf("%s:%d: ", page.path, i+1)
			match := fence.FindStringSubmatch(line)
			switch {
			case match != nil && inside:
				inside = false
			case match != nil:
				language, inside = match[1], true
				name, isTest := strings.CutPrefix(match[2], "test=")
				reason, isExempt := strings.CutPrefix(match[2], "no-test: ")
				switch {
				case !slices.Contains([]string{"sh", "bash", "shell", "console", "zsh"}, language), match[2] == "test", isExempt && reason != "":
				case isTest && known[name]:
				case isTest:
					found = append(found, at+"there is no "+name+"; name the test that runs this block")
				default:
					found = append(found, at+"nothing runs this block; write ```sh test, ```sh test=TestName or ```sh no-test: and the reason")
				}
			case inside && language == "" && aCommand.MatchString(line):
				found = append(found, at+"these are commands; begin the block with ```sh")
			}
		}
	}
	return found
}

// architecturePage shows every folder of folderOrder in a table, in that order, on three screens.
// Package comments describe the packages.
const architecturePage = "docs/architecture.md"

const maxArchitectureLines = 150

var folderRow = regexp.MustCompile("^\\| `((?:internal/[a-z]+|cmd|console|docs))` \\|")

// architectureShowsTheTree finds folders that the table lacks, rows of folders that do not exist,
// and rows that are out of order.
func architectureShowsTheTree(tr *tree) []string {
	shown, missing := map[string]bool{}, map[string]bool{}
	var found []string
	for _, page := range tr.texts {
		if page.path != architecturePage {
			continue
		}
		if n := bytes.Count(page.content, []byte("\n")); n > maxArchitectureLines {
			found = append(found, fmt.Sprintf("%s: %d lines, %d are allowed; move facts about a package into its comment", page.path, n, maxArchitectureLines))
		}
		last := -1
		for i, line := range strings.Split(string(page.content), "\n") {
			match := folderRow.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			folder := match[1]
			shown[folder] = true
			position := slices.Index(folderOrder, folder)
			switch {
			case !slices.ContainsFunc(tr.files, func(f goFile) bool { return folderOf(f.dir) == folder }):
				found = append(found, fmt.Sprintf("%s:%d: there is no folder %s; remove it", page.path, i+1, folder))
			case position < last:
				found = append(found, fmt.Sprintf("%s:%d: %s is not in the order of folderOrder in house_test.go; move it", page.path, i+1, folder))
			}
			last = max(last, position)
		}
	}
	for _, f := range tr.files {
		if folder := folderOf(f.dir); !f.test && !shown[folder] && !missing[folder] {
			missing[folder] = true
			found = append(found, tr.at(f.Package, "the folder %s is not in %s; add a row with its idea", folder, architecturePage))
		}
	}
	return found
}

const (
	// turnOnPage lists what can be switched on, each feature with its setting and default.
	turnOnPage    = "docs/turn-on.md"
	referencePage = "docs/configuration.md"
)

var (
	turnOnRow    = regexp.MustCompile("^\\| [^|]+ \\| `([a-zA-Z.-]+): [^`]+` \\| ([^|]+) \\|")
	ofAService   = regexp.MustCompile(`^services\.[a-z]+\.(instances\.)?`)
	referenceRow = regexp.MustCompile("(?m)^\\| `([a-zA-Z.-]+)` \\| [^|]+ \\| ([^|]+) \\|")
)

// featuresHaveTheirDefaults finds rows of the page of features with a setting that the
// reference does not have, or with another default.
func featuresHaveTheirDefaults(tr *tree) []string {
	defaults := map[string]string{}
	for _, page := range tr.texts {
		if page.path == referencePage {
			for _, match := range referenceRow.FindAllSubmatch(page.content, -1) {
				defaults[string(match[1])] = string(match[2])
			}
		}
	}
	var found []string
	for _, page := range tr.texts {
		if page.path != turnOnPage {
			continue
		}
		for i, line := range strings.Split(string(page.content), "\n") {
			match := turnOnRow.FindStringSubmatch(line)
			switch {
			case match == nil && (!tableRow.MatchString(line) || strings.HasPrefix(line, "| you want |")):
			case match == nil:
				found = append(found, fmt.Sprintf("%s:%d: write the row as: feature, `setting: value`, default", page.path, i+1))
			case defaults[ofAService.ReplaceAllString(match[1], "")] != match[2]:
				found = append(found, fmt.Sprintf("%s:%d: %s does not say that the default of %s is %s", page.path, i+1,
					referencePage, match[1], match[2]))
			}
		}
	}
	return found
}

// versionsSayWhatToDo finds versions of the changelog that do not begin with what people have to
// do who come from the version before.
func versionsSayWhatToDo(tr *tree) []string {
	var found []string
	for _, page := range tr.texts {
		if page.path != "CHANGELOG.md" {
			continue
		}
		version := ""
		for i, line := range strings.Split(string(page.content), "\n") {
			heading, isPart := strings.CutPrefix(line, "### ")
			switch {
			case strings.HasPrefix(line, "## "):
				version = strings.TrimPrefix(line, "## ")
			case isPart && version != "" && heading != "What you must do":
				found = append(found, fmt.Sprintf("%s:%d: %s does not begin with: ### What you must do", page.path, i+1, version))
				version = ""
			case isPart:
				version = ""
			}
		}
	}
	return found
}
