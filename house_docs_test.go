package patchbay_test

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

// decisionsPage lists what was decided where the specification is silent. Every
// row of its first table ends in the tests that hold the gateway to it.
const decisionsPage = "docs/decisions.md"

var (
	tableRow    = regexp.MustCompile(`^\| .* \|$`)
	namedInTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
)

// decisionsHaveTests finds decisions that name no test, or one that is gone.
func decisionsHaveTests(tr *tree) []string {
	known := map[string]bool{}
	for _, f := range tr.files {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
				known[fn.Name.Name] = true
			}
		}
	}
	var found []string
	for _, page := range tr.texts {
		if page.path != decisionsPage {
			continue
		}
		for i, line := range strings.Split(string(page.content), "\n") {
			if strings.HasPrefix(line, "## Libraries") {
				break
			}
			if !tableRow.MatchString(line) || strings.HasPrefix(line, "| gap |") {
				continue
			}
			names := namedInTest.FindAllStringSubmatch(line, -1)
			if len(names) == 0 {
				found = append(found, fmt.Sprintf("%s:%d: this decision names no test; write the test that fails when it is not kept, and name it", page.path, i+1))
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
