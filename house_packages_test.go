package patchbay_test

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxPackageLines is how much a package may hold before it is several ideas.
const maxPackageLines = 3000

// largePackages may hold more, for the reason given.
var largePackages = map[string]string{
	"cmd/patchbay":               "a file for each verb: flags, help and output; what the verbs decide is in packages of their own",
	"internal/hosts/backend":     "one instance: its settings beside its living state, of which health, secrets, the model in memory, the process and the slots are parts that change together",
	"internal/wings/batches":     "a batch from its lines to its results: what is leased, answered, written and removed must agree after a crash at any moment",
	"internal/config":            "one document whose reading, overriding, writing and schema walk the same types by the same names; what settings mean is checked in the packages that obey them",
	"internal/hosts/fleet":       "one picture under one lock: queues, speeds, caches and models in memory decide together where a call goes; how it is exchanged and measured is in packages of its own",
	"internal/route/proxy":       "the way of one request: choosing, calling, falling back and replying share its state and settle together; what each decides by itself is in packages of its own",
	"internal/count/quota":       "the ledger's guarantees span memory, journal, shared counter and database; its stores are packages of their own",
	"internal/wings/importer":    "six gateways' configurations are read, and each is a few files; what they share is in packages of its own",
	"internal/testing/simulator": "one backend that speaks every dialect and has every fault; each dialect is a few files, none is of use alone",
	"internal/access":            "keys, tokens, sessions and people are one signed set of values: a change of any is checked, stored, shared and compiled into grants and the roster together",
	"internal/serve/web/monitor": "one surface whose operations show the same calls, figures and problems in several forms, and share their filters and wording",
	"internal/serve/web/manage":  "one surface whose operations share decoding, masking and the mapping of errors; what they decide is in packages of their own",
}

// packagesAreSmall finds packages that hold too much, and reasons that are not
// needed any more.
func packagesAreSmall(tr *tree) []string {
	lines := map[string]int{}
	for _, f := range tr.product() {
		lines[f.dir] += f.lines
	}
	var found []string
	for dir, n := range lines {
		if n > maxPackageLines && largePackages[dir] == "" {
			found = append(found, fmt.Sprintf("%s: %d lines, %d are allowed; divide it by what it decides, or give a reason in largePackages", dir, n, maxPackageLines))
		}
		if n <= maxPackageLines && largePackages[dir] != "" {
			found = append(found, fmt.Sprintf("%s: %d lines need no reason; take it out of largePackages", dir, n))
		}
	}
	slices.Sort(found)
	return found
}

const (
	maxColumns = 120 // of a line, with tabs of tabColumns
	tabColumns = 4
	maxFolders = 14 // of internal
)

// linesAreShort finds lines that do not fit a review.
func linesAreShort(tr *tree) []string {
	product := map[string]bool{}
	for _, f := range tr.product() {
		product[f.path] = strings.HasPrefix(f.path, "cmd/") || strings.HasPrefix(f.path, "internal/")
	}
	var found []string
	for _, t := range tr.texts {
		if !product[t.path] {
			continue
		}
		n := 0
		for line := range strings.Lines(string(t.content)) {
			n++
			line = strings.TrimRight(line, "\n")
			columns := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
			if columns > maxColumns {
				found = append(found, fmt.Sprintf("%s:%d: %d columns, %d are allowed; break the line", t.path, n, columns, maxColumns))
			}
		}
	}
	return found
}

// foldersAreFew holds internal to as many folders as a newcomer can keep in mind.
func foldersAreFew(tr *tree) []string {
	folders := map[string]bool{}
	for _, f := range tr.files {
		if rest, ok := strings.CutPrefix(f.path, "internal/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			folders[name] = true
		}
	}
	if len(folders) <= maxFolders {
		return nil
	}
	return []string{fmt.Sprintf("internal has %d folders, %d are allowed; find the one that the new package belongs to", len(folders), maxFolders)}
}

// tooManyFolders returns a tree with one folder too many.
func tooManyFolders() map[string]string {
	files := map[string]string{}
	for n := range maxFolders + 1 {
		name := fmt.Sprintf("p%d", n)
		files["internal/"+name+"/a.go"] = "package " + name + "\n"
	}
	return files
}

// handlersHaveTests finds packages that answer HTTP requests and have no test.
func handlersHaveTests(tr *tree) []string {
	tested := map[string]bool{}
	for _, f := range tr.files {
		if f.test {
			tested[f.dir] = true
		}
	}
	var found []string
	reported := map[string]bool{}
	for _, f := range tr.product() {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !isHandler(fn) || tested[f.dir] || reported[f.dir] || strings.HasSuffix(f.dir, "test") {
				continue // packages named like that serve tests only
			}
			reported[f.dir] = true
			found = append(found, tr.at(fn.Pos(), "%s answers HTTP requests and its package has no test; write one beside it", fn.Name.Name))
		}
	}
	return found
}

// isHandler reports whether a function takes a response writer and a request.
func isHandler(fn *ast.FuncDecl) bool {
	takes := func(name string) bool {
		return slices.ContainsFunc(fn.Type.Params.List, func(p *ast.Field) bool {
			t := p.Type
			if star, ok := t.(*ast.StarExpr); ok {
				t = star.X
			}
			selector, ok := t.(*ast.SelectorExpr)
			if !ok {
				return false
			}
			pkg, ok := selector.X.(*ast.Ident)
			return ok && pkg.Name == "http" && selector.Sel.Name == name
		})
	}
	return takes("ResponseWriter") && takes("Request")
}

// mixedTests may have tests inside the package beside tests of whole gateways, for the
// reason given.
var mixedTests = map[string]string{
	"cmd/patchbay":                "nothing is above it",
	"internal/route/proxy":        "its tests of traffic and those of its steps explain each other",
	"internal/serve/web":          "little is above it",
	"internal/serve/web/actuator": "little is above it",
	"internal/serve/web/openapi":  "little is above it",
	"internal/serve/web/v1":       "little is above it",
}

// ownClients may make HTTP clients of their own, for the reason given. Package outgoing makes all others.
var ownClients = map[string]string{
	"internal/request/outgoing":    "it makes them",
	"internal/gateway/gatewaytest": "it is a client of the gateway under test",
	"internal/testing/replay":      "it is a client of the gateway under test",
	"internal/testing/yardstick":   "it waits for programs that it started",
}

// oneClient finds HTTP clients that package outgoing did not make, and reasons in ownClients that are
// not needed.
func oneClient(tr *tree) []string {
	const clients = " Client Transport DefaultClient DefaultTransport Get Head Post PostForm "
	var found []string
	isUsed, has := map[string]bool{}, map[string]bool{}
	for _, f := range tr.product() {
		has[f.dir] = true
		pointed := map[ast.Expr]bool{}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if star, isPointer := n.(*ast.StarExpr); isPointer {
				pointed[star.X] = true
			}
			s, ok := n.(*ast.SelectorExpr)
			if !ok || pointed[s] || !strings.Contains(clients, " "+s.Sel.Name+" ") || !isHTTP(f, s.X) {
				return true
			}
			if isUsed[f.dir] = true; ownClients[f.dir] == "" {
				found = append(found, tr.at(s.Pos(), "http.%s has rules of its own for redirects, addresses and proxies; use outgoing.New", s.Sel.Name))
			}
			return true
		})
	}
	for dir := range ownClients {
		if has[dir] && !isUsed[dir] {
			found = append(found, dir+" makes no HTTP client; take it out of ownClients")
		}
	}
	return found
}

func isHTTP(f goFile, e ast.Expr) bool {
	name, isName := e.(*ast.Ident)
	return isName && imported(f, name.Name) == "net/http"
}

// gatewayTestsStandApart finds packages that have tests of whole gateways beside tests
// inside the package. For those Go compiles everything above the package once more.
func gatewayTestsStandApart(tr *tree) []string {
	inside := map[string]bool{}
	for _, f := range tr.files {
		inside[f.dir] = inside[f.dir] || f.test && !strings.HasSuffix(f.Name.Name, "_test")
	}
	var found []string
	for _, f := range tr.files {
		if !f.test || !inside[f.dir] || mixedTests[f.dir] != "" {
			continue
		}
		for _, imported := range f.Imports {
			if imported.Path.Value == `"`+module+`/internal/gateway/gatewaytest"` {
				found = append(found, tr.at(imported.Pos(), "a test of a whole gateway beside tests inside %s makes Go compile all that is above it once more; move it to internal/gateway", f.dir))
			}
		}
	}
	return found
}
