// Package patchbay_test holds the rules of the house as tests: what a reader
// may rely on in every file of this tree. A rule that is wrong is changed here,
// in the open, not worked around.
package patchbay_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/patchbay-ai/patchbay"

// folderOrder lists the layers: a package imports only packages of its own folder and of earlier
// ones. Go refuses cycles inside of a folder.
var folderOrder = []string{
	"docs",
	"console",
	"internal/plain",
	"internal/request",
	"internal/dialect",
	"internal/see",
	"internal/store",
	"internal/count",
	"internal/access",
	"internal/hosts",
	"internal/route",
	"internal/config",
	"internal/serve",
	"internal/testing",
	"internal/wings",
	"internal/gateway",
	"cmd",
}

// upwardImports are imports against folderOrder, "importer imported", with the reason. The list
// only shrinks.
var upwardImports = map[string]string{
	"internal/config internal/wings": "the document contains the settings of wings, which this package alone lists",
}

const (
	maxFileLines = 600
	maxFuncLines = 100
)

// vagueNames say nothing about what a package decides.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "base", "misc", "types", "models"}

// foreign matches what only one machine knows: hosts of package registries and
// paths of a person's or a builder's disk. The pieces are joined here so that
// this file does not match itself.
var foreign = regexp.MustCompile(strings.Join([]string{
	`proxy\.golang` + `\.org`, `sum\.golang` + `\.org`,
	`registry\.npmjs` + `\.org`, `registry\.yarnpkg` + `\.com`,
	`pypi` + `\.org`, `pythonhosted` + `\.org`, `crates` + `\.io`,
	`repo1?\.maven` + `\.`, `deb\.debian` + `\.org`,
	`/wo` + `rk/(main|shared|\.library|\.mirror)\b`,
	`(^|[\s"'=(:])/(root|home/\w+|Users/\w+)/`,
}, "|"))

// foreignHints are texts of which a file that matches foreign has at least one.
var foreignHints = []string{"golang.org", "npmjs", "yarnpkg", "pypi", "pythonhosted", "crates", "maven", "debian", "/root", "/home/", "/Users/", "/wo" + "rk/"}

// A rule finds violations in a tree, each as "file:line: what is wrong; what to do".
type rule struct {
	name  string
	check func(*tree) []string
}

var rules = []rule{
	{"import order", importOrder},
	{"the core names no wing", coreNamesNoWing},
	{"package comments", packageComments},
	{"package names", packageNames},
	{"comments name what they are about", plainComments},
	{"no init", noInit},
	{"no mutable package variables", noMutableVariables},
	{"short files and functions", shortFilesAndFunctions},
	{"exported names are documented", exportedDocumented},
	{"no registry hosts or machine paths", nothingForeign},
	{"decisions have tests", decisionsHaveTests},
	{"the architecture shows the tree", architectureShowsTheTree},
	{"shell blocks are run", shellBlocksAreRun},
	{"YAML blocks are tried", yamlBlocksAreTried},
	{"features have their defaults", featuresHaveTheirDefaults},
	{"versions say what to do", versionsSayWhatToDo},
	{"packages are small", packagesAreSmall},
	{"lines are short", linesAreShort},
	{"folders are few", foldersAreFew},
	{"handlers have tests", handlersHaveTests},
	{"tests of whole gateways stand apart", gatewayTestsStandApart},
	{"only accounts take", onlyAccountsTake},
	{"accounts are closed", accountsAreClosed},
	{"calls to outside have one client", oneClient},
	{"goroutines have owners", goroutinesHaveOwners},
	{"goroutines catch panics", goroutinesCatchPanics},
}

func TestHouse(t *testing.T) {
	house := load(t, os.DirFS("."))
	if len(house.files) == 0 {
		t.Fatal("no Go file found: run this test in the root of the repository")
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, v := range r.check(house) {
				t.Error(v)
			}
		})
	}
}

// A tree is what the rules look at: the Go files of this module, and every text.
type tree struct {
	fset  *token.FileSet
	files []goFile
	texts []text
}

type goFile struct {
	dir, path string
	test      bool
	lines     int
	*ast.File
}

type text struct {
	path    string
	content []byte
}

func (tr *tree) at(pos token.Pos, format string, args ...any) string {
	p := tr.fset.Position(pos)
	return fmt.Sprintf("%s:%d: ", p.Filename, p.Line) + fmt.Sprintf(format, args...)
}

// product returns the files that are neither tests nor written by a tool.
func (tr *tree) product() []goFile {
	var files []goFile
	for _, f := range tr.files {
		if !f.test && !ast.IsGenerated(f.File) {
			files = append(files, f)
		}
	}
	return files
}

// load reads a tree. Built and installed things are left out; a folder with its
// own go.mod is another module, of which only the texts count.
func load(t *testing.T, fsys fs.FS) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet()}
	var modules []string
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch {
			case entry.Name() == ".git" || entry.Name() == "node_modules" || name == "bin" || name == "data":
				return fs.SkipDir
			case name != "." && exists(fsys, path.Join(name, "go.mod")):
				modules = append(modules, name+"/")
			}
			return nil
		}
		if !entry.Type().IsRegular() || entry.Name() == ".git" { // a file in a worktree of git
			return nil
		}
		content, err := fs.ReadFile(fsys, name)
		if err != nil || bytes.IndexByte(content, 0) >= 0 {
			return err
		}
		tr.texts = append(tr.texts, text{name, content})
		inside := func(root string) bool { return strings.HasPrefix(name, root) }
		if path.Ext(name) != ".go" || slices.ContainsFunc(modules, inside) || strings.Contains(name, "testdata/") {
			return nil
		}
		parsed, err := parser.ParseFile(tr.fset, name, content, parser.ParseComments)
		tr.files = append(tr.files, goFile{
			dir: path.Dir(name), path: name, test: strings.HasSuffix(name, "_test.go"),
			lines: bytes.Count(content, []byte("\n")), File: parsed,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func exists(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return err == nil
}

// importOrder finds imports that point up, folders without a place, and exceptions that are not
// needed any more.
func importOrder(tr *tree) []string {
	var found []string
	unlisted, excused, present := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range tr.files {
		if f.test {
			continue
		}
		present[f.dir] = true
		position := slices.Index(folderOrder, folderOf(f.dir))
		if position < 0 {
			if !unlisted[folderOf(f.dir)] {
				unlisted[folderOf(f.dir)] = true
				found = append(found, tr.at(f.Package, "the folder %s is not in folderOrder; add it there, in house_test.go, above all that it imports", folderOf(f.dir)))
			}
			continue
		}
		for _, spec := range f.Imports {
			imported, own := strings.CutPrefix(importPath(spec), module+"/")
			switch {
			case !own || slices.Contains(folderOrder[:position+1], folderOf(imported)):
			case upwardImports[f.dir+" "+imported] != "":
				excused[f.dir+" "+imported] = true
			default:
				found = append(found, tr.at(spec.Pos(), "%s imports %s, whose folder is above it in folderOrder; turn the dependency round, or let the caller pass in what is needed", f.dir, imported))
			}
		}
	}
	for _, pair := range slices.Sorted(maps.Keys(upwardImports)) {
		if importer, _, _ := strings.Cut(pair, " "); present[importer] && !excused[pair] {
			found = append(found, fmt.Sprintf("house_test.go: %s: the first does not import the second any more; take them out of upwardImports", pair))
		}
	}
	return found
}

// folderOf returns the layer of a package: a folder of internal, or one of the root.
func folderOf(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	if parts[0] == "internal" {
		return strings.Join(parts[:min(2, len(parts))], "/")
	}
	return parts[0]
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return p
}

func packageComments(tr *tree) []string {
	first := map[string]goFile{}
	var dirs []string
	documented := map[string]bool{}
	for _, f := range tr.files {
		if f.test {
			continue
		}
		if _, seen := first[f.dir]; !seen {
			first[f.dir] = f
			dirs = append(dirs, f.dir)
		}
		if doc := f.Doc.Text(); strings.HasPrefix(doc, "Package "+f.Name.Name+" ") || f.Name.Name == "main" && doc != "" {
			documented[f.dir] = true
		}
	}
	var found []string
	for _, dir := range dirs {
		if f := first[dir]; !documented[dir] {
			found = append(found, tr.at(f.Package, `package %s has no comment; begin one of its files with "// Package %s ..." saying what it decides`, f.Name.Name, f.Name.Name))
		}
	}
	return found
}

func packageNames(tr *tree) []string {
	var found []string
	for _, f := range tr.files {
		name := strings.TrimSuffix(f.Name.Name, "_test")
		if slices.Contains(vagueNames, name) || slices.Contains(vagueNames, path.Base(f.dir)) {
			found = append(found, tr.at(f.Package, "the name of package %s says nothing; name it after what it decides, or move its content to where it is used", f.dir))
		}
	}
	return found
}

// isDeclaration reports whether an init adds to a catalogue and does nothing else: what a wing declares
// for itself is in no list elsewhere.
func isDeclaration(fn *ast.FuncDecl) bool {
	if len(fn.Body.List) != 1 {
		return false
	}
	statement, _ := fn.Body.List[0].(*ast.ExprStmt)
	if statement == nil {
		return false
	}
	call, _ := statement.X.(*ast.CallExpr)
	if call == nil {
		return false
	}
	switch called := call.Fun.(type) {
	case *ast.Ident:
		return called.Name == "Declare"
	case *ast.SelectorExpr:
		return called.Sel.Name == "Declare"
	}
	return false
}

// catalogues are package variables that grow while packages are initialized, and not later.
var catalogues = map[string]bool{
	"internal/plain/say.templates": true, "internal/access.declared": true, "internal/request/schema.classes": true,
}

func noInit(tr *tree) []string {
	var found []string
	for _, f := range tr.product() {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !isDeclaration(fn) {
				found = append(found, tr.at(fn.Pos(), "init runs behind the reader's back; make it a function that cmd/patchbay calls"))
			}
		}
	}
	return found
}

func shortFilesAndFunctions(tr *tree) []string {
	var found []string
	for _, f := range tr.product() {
		if f.lines > maxFileLines {
			found = append(found, fmt.Sprintf("%s:%d: the file has %d lines, %d are allowed; split it by what its parts decide", f.path, f.lines, f.lines, maxFileLines))
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			fn, ok := n.(*ast.FuncDecl)
			if !ok {
				return true
			}
			if lines := tr.fset.Position(fn.End()).Line - tr.fset.Position(fn.Pos()).Line + 1; lines > maxFuncLines {
				found = append(found, tr.at(fn.Pos(), "function %s has %d lines, %d are allowed; give its steps names", fn.Name.Name, lines, maxFuncLines))
			}
			return false
		})
	}
	return found
}

// familiar methods are explained by the interface everybody knows.
var familiar = []string{"Error", "Unwrap", "String", "Read", "Write", "ServeHTTP"}

func exportedDocumented(tr *tree) []string {
	var found []string
	missing := func(pos token.Pos, name string) {
		found = append(found, tr.at(pos, "%s is exported without a comment; say what a caller may rely on, or make it unexported", name))
	}
	for _, f := range tr.product() {
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d) && !slices.Contains(familiar, d.Name.Name)) {
					missing(d.Pos(), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, name := range undocumented(d) {
					missing(name.Pos(), name.Name)
				}
			}
		}
	}
	return found
}

func exportedReceiver(fn *ast.FuncDecl) bool {
	id := root(fn.Recv.List[0].Type)
	return id != nil && id.IsExported()
}

// undocumented returns the exported names of a declaration that no comment
// covers. One comment on a group covers its constants and variables; every type
// needs its own.
func undocumented(d *ast.GenDecl) []*ast.Ident {
	var names []*ast.Ident
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
				names = append(names, s.Name)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

func nothingForeign(tr *tree) []string {
	var found []string
	for _, file := range tr.texts {
		if !slices.ContainsFunc(foreignHints, func(hint string) bool { return bytes.Contains(file.content, []byte(hint)) }) {
			continue // most files; the pattern is slow
		}
		for i, line := range bytes.Split(file.content, []byte("\n")) {
			if match := foreign.Find(line); match != nil {
				found = append(found, fmt.Sprintf("%s:%d: %q is true on one machine only; leave it out, or say it in a way that holds everywhere", file.path, i+1, bytes.TrimSpace(match)))
			}
		}
	}
	return found
}

func noMutableVariables(tr *tree) []string {
	changed := changedVariables(tr)
	var found []string
	for _, f := range tr.product() {
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.ValueSpec)
				if embedded(d.Doc) || embedded(s.Doc) {
					continue
				}
				for i, name := range s.Names {
					if name.Name == "_" || f.Name.Name == "main" && slices.Contains([]string{"version", "commit", "date", "branch"}, name.Name) {
						continue
					}
					if pos, ok := changed[f.dir+"."+name.Name]; ok && !catalogues[f.dir+"."+name.Name] {
						found = append(found, tr.at(pos, "package variable %s is changed here; make it a field of the value that owns it", name.Name))
					} else if i >= len(s.Values) || !settled(f, s.Type, s.Values[i]) {
						found = append(found, tr.at(name.Pos(), "package variable %s may change; make it a constant, a table of literals, or a field of the value that owns it", name.Name))
					}
				}
			}
		}
	}
	return found
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}

// settled reports whether a package variable with this value is one that stays
// as it is: an error, a pattern, or a table of literals.
func settled(f goFile, declared, value ast.Expr) bool {
	switch v := value.(type) {
	case *ast.UnaryExpr: // var ErrX error = &class{...}, or a dialect as a struct of functions
		id, ok := declared.(*ast.Ident)
		return ok && id.Name == "error" && literal(v.X) || isDialect(v.X) && literal(v.X)
	case *ast.CallExpr:
		return maker(v)
	case *ast.CompositeLit:
		if sel, ok := v.Type.(*ast.SelectorExpr); ok && !ownPackage(f, sel) {
			return false // a foreign struct, such as a mutex or a client, lives
		}
		return literal(v)
	}
	return false
}

// isDialect reports whether an expression is a struct of the functions of a dialect.
func isDialect(e ast.Expr) bool {
	made, ok := e.(*ast.CompositeLit)
	if !ok {
		return false
	}
	name, ok := made.Type.(*ast.Ident)
	if sel, imported := made.Type.(*ast.SelectorExpr); imported {
		name, ok = sel.Sel, true
	}
	return ok && (name.Name == "Adapter" || name.Name == "Client")
}

// maker reports whether a call makes one of the few values that never change.
func maker(call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		return ok && slices.Contains([]string{"errors.New", "fmt.Errorf", "say.Error", "say.Wrap", "regexp.MustCompile", "sync.OnceValue", "sync.OnceValues", "jsonscan.NewNames", "schema.FieldsOf", "dialect.Counts"}, pkg.Name+"."+fun.Sel.Name)
	case *ast.Ident: // within package schema
		return fun.Name == "FieldsOf"
	case *ast.ArrayType: // []byte("text")
		return len(call.Args) == 1 && literal(call.Args[0])
	}
	return false
}

// literal reports whether an expression is written out: literals, names and
// what is composed of them.
func literal(e ast.Expr) bool {
	switch v := e.(type) {
	case *ast.BasicLit, *ast.Ident, *ast.FuncLit, *ast.ArrayType, *ast.MapType:
		return true
	case *ast.SelectorExpr:
		return literal(v.X)
	case *ast.ParenExpr:
		return literal(v.X)
	case *ast.StarExpr: // of a method expression, such as (*T).Parse
		return literal(v.X)
	case *ast.UnaryExpr:
		return literal(v.X)
	case *ast.BinaryExpr:
		return literal(v.X) && literal(v.Y)
	case *ast.KeyValueExpr:
		return literal(v.Key) && literal(v.Value)
	case *ast.CallExpr:
		return maker(v)
	case *ast.CompositeLit:
		return !slices.ContainsFunc(v.Elts, func(e ast.Expr) bool { return !literal(e) })
	}
	return false
}

func ownPackage(f goFile, sel *ast.SelectorExpr) bool {
	pkg, ok := sel.X.(*ast.Ident)
	return ok && strings.HasPrefix(imported(f, pkg.Name), module+"/")
}

// imported returns the path that a name of the file stands for, or "".
func imported(f goFile, name string) string {
	for _, spec := range f.Imports {
		p := importPath(spec)
		if spec.Name != nil && spec.Name.Name == name || spec.Name == nil && path.Base(p) == name {
			return p
		}
	}
	return ""
}

// changedVariables finds where package variables are assigned, incremented,
// emptied, copied into or have their address taken, as "dir.Name" of each.
func changedVariables(tr *tree) map[string]token.Pos {
	changed := map[string]token.Pos{}
	for _, f := range tr.product() {
		globals := globalsOf(f)
		mark := func(e ast.Expr) {
			id := root(e)
			if id == nil || id.Name == "_" {
				return
			}
			if p := strings.TrimPrefix(imported(f, id.Name), module+"/"); p != "" && id.Obj == nil {
				if sel := outermost(e, id); sel != nil {
					changed[p+"."+sel.Name] = e.Pos()
				}
				return
			}
			// A name of this file's functions has an object; one of another file
			// of the package has none.
			if id.Obj == nil || globals[id.Obj] {
				changed[f.dir+"."+id.Name] = e.Pos()
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch s := n.(type) {
			case *ast.AssignStmt:
				for _, left := range s.Lhs {
					mark(left)
				}
			case *ast.IncDecStmt:
				mark(s.X)
			case *ast.RangeStmt:
				if s.Tok == token.ASSIGN {
					mark(s.Key)
					mark(s.Value)
				}
			case *ast.UnaryExpr:
				if s.Op == token.AND {
					mark(s.X)
				}
			case *ast.CallExpr:
				if fun, ok := s.Fun.(*ast.Ident); ok && len(s.Args) > 0 && slices.Contains([]string{"delete", "clear", "copy"}, fun.Name) {
					mark(s.Args[0])
				}
			}
			return true
		})
	}
	return changed
}

// globalsOf returns the objects of the file's package variables.
func globalsOf(f goFile) map[*ast.Object]bool { //nolint:staticcheck // good enough within one file, and needs no type checker
	globals := map[*ast.Object]bool{} //nolint:staticcheck // as above
	for _, decl := range f.Decls {
		if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.VAR {
			for _, spec := range d.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					globals[name.Obj] = true
				}
			}
		}
	}
	return globals
}

// root returns the name at the left of x, x.f, x[i], x[i:j], *x and (x).
func root(e ast.Expr) *ast.Ident {
	for {
		switch v := e.(type) {
		case *ast.Ident:
			return v
		case *ast.SelectorExpr:
			e = v.X
		case *ast.IndexExpr:
			e = v.X
		case *ast.IndexListExpr:
			e = v.X
		case *ast.SliceExpr:
			e = v.X
		case *ast.StarExpr:
			e = v.X
		case *ast.ParenExpr:
			e = v.X
		default:
			return nil
		}
	}
}

// outermost returns Name in pkg.Name, pkg.Name[i], pkg.Name.f and the like.
func outermost(e ast.Expr, pkg *ast.Ident) (name *ast.Ident) {
	ast.Inspect(e, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.X == ast.Expr(pkg) {
			name = sel.Sel
		}
		return name == nil
	})
	return name
}

// TestHouseRulesCanFail proves each rule on small trees: those it must refuse,
// with a part of what it says, and those it must let pass.
func TestHouseRulesCanFail(t *testing.T) {
	schema := func(body string) map[string]string {
		return map[string]string{"internal/request/schema/a.go": "// Package schema is a proof.\npackage schema\n" + body}
	}
	proven := map[string]bool{}
	for _, c := range []struct {
		rule, name string
		files      map[string]string
		want       string // empty: nothing to complain about
	}{
		{"import order", "upwards", schema(`import _ "` + module + `/internal/count/quota"`), "a.go:3: internal/request/schema imports internal/count/quota"},
		{"import order", "downwards", map[string]string{"internal/count/quota/a.go": "package quota\nimport _ \"" + module + "/internal/request/schema\"\n"}, ""},
		{"import order", "in a folder", schema(`import _ "` + module + `/internal/request/naming"`), ""},
		{"import order", "unlisted", map[string]string{"internal/novel/a.go": "package novel\n"}, "the folder internal/novel is not in folderOrder"},
		{"import order", "unlisted import", map[string]string{"cmd/patchbay/a.go": "package main\nimport _ \"" + module + "/internal/novel\"\n"}, "imports internal/novel"},
		{"import order", "tests may look up", map[string]string{"internal/request/schema/a_test.go": "package schema\nimport _ \"" + module + "/internal/count/quota\"\n"}, ""},
		{"import order", "an exception", map[string]string{"internal/config/a.go": "package config\nimport _ \"" + module + "/internal/wings\"\n"}, ""},
		{"import order", "more than an exception", map[string]string{"internal/config/a.go": "package config\nimport _ \"" + module + "/internal/wings/audit\"\n"}, "a.go:2: internal/config imports internal/wings/audit"},
		{"import order", "an exception that is not needed", map[string]string{"internal/config/a.go": "package config\n"}, "take them out of upwardImports"},
		{"the core names no wing", "named", schema(`import _ "` + module + `/internal/wings/novel"`), "a.go:3: the core names the wing novel"},
		{"the core names no wing", "its package", schema(`import _ "` + module + `/internal/wings/novel/part"`), "the core names the wing novel"},
		{"the core names no wing", "a list", map[string]string{"internal/gateway/wings.go": "package gateway\nimport _ \"" + module + "/internal/wings/novel\"\n"}, ""},
		{"the core names no wing", "itself", map[string]string{"internal/wings/novel/a.go": "package novel\nimport _ \"" + module + "/internal/wings/novel/part\"\n"}, ""},
		{"the core names no wing", "another wing", map[string]string{"internal/wings/novel/a.go": "package novel\nimport _ \"" + module + "/internal/wings/other\"\n"}, "the wing novel imports the wing other"},
		{"import order", "another module", map[string]string{"other/go.mod": "module other\n", "other/a.go": "package other\n"}, ""},

		{"package comments", "none", map[string]string{"internal/request/schema/a.go": "package schema\n"}, "a.go:1: package schema has no comment"},
		{"package comments", "of another name", map[string]string{"internal/request/schema/a.go": "// Package quota counts.\npackage schema\n"}, "no comment"},
		{"package comments", "in one file", map[string]string{"internal/request/schema/a.go": "package schema\n", "internal/request/schema/b.go": "// Package schema names.\npackage schema\n"}, ""},
		{"package comments", "of a command", map[string]string{"cmd/patchbay/a.go": "// Patchbay routes.\npackage main\n"}, ""},

		{"comments name what they are about", "who", schema("// Who reads is told.\nvar a int"), `"Who reads is told" in a comment`},
		{"comments name what they are about", "over two lines", schema("// It waits. Whoever connects\n// there is refused.\nvar a int"), "in a comment"},
		{"comments name what they are about", "what", schema("// It returns what is of a key.\nvar a int"), "what is of"},
		{"comments name what they are about", "that which", schema("// It returns that which is left.\nvar a int"), "that which is"},
		{"comments name what they are about", "a noun", schema("// Callers who read are told why.\nvar a int"), ""},

		{"package names", "vague", map[string]string{"internal/util/a.go": "package util\n"}, "says nothing"},
		{"package names", "vague in a test", map[string]string{"internal/request/schema/a_test.go": "package common_test\n"}, "says nothing"},
		{"package names", "vague folder", map[string]string{"internal/models/a.go": "package catalog\n"}, "says nothing"},
		{"package names", "clear", schema(""), ""},

		{"calls to outside have one client", "a client", schema("import \"net/http\"\nvar c = &http.Client{}"), "use outgoing.New"},
		{"calls to outside have one client", "new", schema("import \"net/http\"\nvar c = new(http.Client)"), "use outgoing.New"},
		{"calls to outside have one client", "a field", schema("import \"net/http\"\ntype t struct{ c http.Client }"), "use outgoing.New"},
		{"calls to outside have one client", "a transport", schema("import \"net/http\"\nvar c = &http.Transport{}"), "use outgoing.New"},
		{"calls to outside have one client", "the default", schema("import \"net/http\"\nvar c = http.DefaultClient"), "use outgoing.New"},
		{"calls to outside have one client", "a call", schema("import \"net/http\"\nvar c, err = http.Get(\"x\")"), "use outgoing.New"},
		{"calls to outside have one client", "a reason too many", map[string]string{"internal/testing/replay/a.go": "package replay\n"}, "take it out of ownClients"},
		{"calls to outside have one client", "a pointer", schema("import \"net/http\"\ntype t struct{ c *http.Client }"), ""},

		{"no init", "init", schema("func init() {}"), "a.go:3: init runs"},
		{"no init", "declaration", schema("func Declare() {}\nfunc init() { Declare() }"), ""},
		{"no init", "more than a declaration", schema("func Declare() {}\nfunc init() { Declare(); Declare() }"), "init runs"},
		{"no init", "method", schema("type t struct{}\nfunc (t) init() {}"), ""},
		{"no init", "test", map[string]string{"internal/request/schema/a_test.go": "package schema\nfunc init() {}\n"}, ""},

		{"no mutable package variables", "no value", schema("var n int"), "a.go:3: package variable n may change"},
		{"no mutable package variables", "scalar", schema("var n = 1"), "make it a constant"},
		{"no mutable package variables", "call", schema("var m = build()\nfunc build() map[int]int { return nil }"), "may change"},
		{"no mutable package variables", "mutex", schema("import \"sync\"\nvar mu = sync.Mutex{}"), "may change"},
		{"no mutable package variables", "pool", schema("import \"sync\"\nvar p = sync.Pool{New: func() any { return nil }}"), "may change"},
		{"no mutable package variables", "pointer", schema("var p = &struct{}{}"), "may change"},
		{"no mutable package variables", "pointer not said to be an error", schema("type class struct{}\nvar errX = &class{}"), "may change"},
		{"no mutable package variables", "error of a kind", schema("type class struct{ text string }\nfunc (*class) Error() string { return \"\" }\nvar errX error = &class{text: \"x\"}"), ""},
		{"no mutable package variables", "call in a table", schema("var m = []int{f()}\nfunc f() int { return 1 }"), "may change"},
		{"no mutable package variables", "element assigned", schema("var m = map[int]int{1: 2}\nfunc f() { m[1] = 3 }"), "a.go:4: package variable m is changed here"},
		{"no mutable package variables", "assigned in another file", map[string]string{
			"internal/request/schema/a.go": "package schema\nvar m = []int{1}\n", "internal/request/schema/b.go": "package schema\nfunc f() { m = nil }\n",
		}, "b.go:2: package variable m is changed here"},
		{"no mutable package variables", "assigned in another package", map[string]string{
			"internal/request/schema/a.go": "package schema\nvar M = []int{1}\n",
			"internal/count/quota/a.go":    "package quota\nimport \"" + module + "/internal/request/schema\"\nfunc f() { schema.M[0]++ }\n",
		}, "quota/a.go:3: package variable M is changed here"},
		{"no mutable package variables", "ranged into", schema("var m = []int{1}\nfunc f() { for _, m[0] = range []int{2} {} }"), "is changed here"},
		{"no mutable package variables", "deleted from", schema("var m = map[int]int{}\nfunc f() { delete(m, 1) }"), "is changed here"},
		{"no mutable package variables", "address taken", schema("var m = [2]int{}\nfunc f() *int { return &m[0] }"), "is changed here"},
		{"no mutable package variables", "error reassigned", schema("import \"errors\"\nvar errX = errors.New(\"x\")\nfunc f() { errX = nil }"), "is changed here"},
		{"no mutable package variables", "version outside main", schema("var version = \"dev\""), "may change"},
		{"no mutable package variables", "allowed kinds", schema(`import ("errors"; "fmt"; "regexp"; "net/http"; _ "embed")
var errA, errB = errors.New("a"), fmt.Errorf("b: %w", errA)
var _ error = errA
var word = regexp.MustCompile("a+")
var codes = map[string]int{"ok": http.StatusOK, "neg": -1 * 2}
var names = [...]string{2: "c"}
var done = []byte("[DONE]")
var table = []struct{ name string; do func() }{{"x", nil}, {name: "y", do: func() {}}}
//go:embed a.txt
var page string
`), ""},
		{"no mutable package variables", "local of the same name", schema("var m = []int{1}\nfunc f() { m := 1; m = 2; _ = m }\nfunc g(m []int) { m[0] = 1 }"), ""},
		{"no mutable package variables", "build facts", map[string]string{"cmd/patchbay/a.go": "package main\nvar version, commit, date = \"dev\", \"\", \"\"\n"}, ""},
		{"no mutable package variables", "test", map[string]string{"internal/request/schema/a_test.go": "package schema\nvar n int\n"}, ""},

		{"short files and functions", "long file", schema(strings.Repeat("\n", maxFileLines)), "602 lines, 600 are allowed"},
		{"short files and functions", "long function", schema("func f() {\n" + strings.Repeat("\n", maxFuncLines-1) + "}"), "a.go:3: function f has 101 lines"},
		{"short files and functions", "longest function", schema("func f() {\n" + strings.Repeat("\n", maxFuncLines-2) + "}"), ""},
		{"short files and functions", "generated", map[string]string{"internal/request/schema/a.go": "// Code generated by a tool. DO NOT EDIT.\npackage schema\n" + strings.Repeat("\n", maxFileLines)}, ""},

		{"decisions have tests", "none named", map[string]string{decisionsPage: "| a | b | c | a test |\n"}, "decisions.md:1: this row names no test"},
		{"shell blocks are run", "no mark", map[string]string{"docs/a.md": "```sh\nls\n```\n"}, "a.md:1: nothing runs this block"},
		{"shell blocks are run", "a test that is gone", map[string]string{"docs/a.md": "```sh test=TestGone\nls\n```\n"}, "there is no TestGone"},
		{"shell blocks are run", "no language", map[string]string{"docs/a.md": "```\ncurl http://x\n```\n"}, "a.md:2: these are commands"},
		{"shell blocks are run", "marked", map[string]string{"docs/a.md": "```sh test\nls\n```\n```sh no-test: why\nls\n```\n```\n a box\n```\n"}, ""},
		{"YAML blocks are tried", "no reason", map[string]string{"docs/a.md": "```yaml no-test:\na: 1\n```\n"}, "a.md:1: write ```yaml for a configuration"},
		{"YAML blocks are tried", "an unknown mark", map[string]string{"docs/a.md": "```sh test\nls\n```\n```yaml test\na: 1\n```\n"}, "a.md:4: write ```yaml"},
		{"YAML blocks are tried", "marked", map[string]string{"docs/a.md": "```yaml\na: 1\n```\n```yaml no-test: a file of Prometheus\na: 1\n```\n"}, ""},
		{"versions say what to do", "forgotten", map[string]string{"CHANGELOG.md": "## 1.0.0\n\n### Added\n- a\n"}, "CHANGELOG.md:3: 1.0.0 does not begin"},
		{"versions say what to do", "said", map[string]string{"CHANGELOG.md": "## 1.0.0\n\n### What you must do\nNothing.\n\n### Added\n- a\n"}, ""},
		{"features have their defaults", "another default", map[string]string{
			turnOnPage: "| a | `services.chat.b.c: 1` | `0` | d |\n", referencePage: "| `b.c` | integer | `2` | e |\n",
		}, "turn-on.md:1: docs/configuration.md does not say that the default of services.chat.b.c is `0`"},
		{"features have their defaults", "no setting", map[string]string{turnOnPage: "| a | b | c |\n"}, "turn-on.md:1: write the row as"},
		{"features have their defaults", "the same", map[string]string{
			turnOnPage:    "| you want | setting |\n|---|---|\n| a | `services.chat.instances.b: 1` | none | d |\n",
			referencePage: "| `b` | integer | none | e |\n",
		}, ""},
		{"decisions have tests", "a hole", map[string]string{holesPage: "| hole |\n| a | b | c | `TestGone` |\n"}, "holes.md:2: there is no TestGone"},
		{"decisions have tests", "one that is gone", map[string]string{decisionsPage: "| a | b | c | `TestGone` |\n"}, "there is no TestGone"},
		{"decisions have tests", "one of another module", map[string]string{decisionsPage: "| a | b | c | `TestThere` |\n", "other/go.mod": "module other\n", "other/a_test.go": "package other\n\nfunc TestThere(t *testing.T) {}\n"}, ""},
		{"decisions have tests", "one that is there", map[string]string{
			decisionsPage:                       "| gap | choice | reason | pinned by |\n|---|---|---|---|\n| a | b | c | `TestHere` |\n## Libraries\n| a | b |\n",
			"internal/request/schema/a_test.go": "package schema\nfunc TestHere() {}\n",
		}, ""},

		{"tests of whole gateways stand apart", "beside a test inside", map[string]string{
			"internal/count/quota/a_test.go": "package quota\n",
			"internal/count/quota/b_test.go": "package quota_test\nimport _ \"" + module + "/internal/gateway/gatewaytest\"\n",
		}, "b_test.go:2: a test of a whole gateway beside tests inside internal/count/quota"},
		{"tests of whole gateways stand apart", "alone", map[string]string{
			"internal/count/quota/b_test.go": "package quota_test\nimport _ \"" + module + "/internal/gateway/gatewaytest\"\n",
		}, ""},

		{"the architecture shows the tree", "a folder without a row", schema(""), "the folder internal/request is not in docs/architecture.md"},
		{"the architecture shows the tree", "a row without a folder", map[string]string{architecturePage: "| `internal/request` | words |\n"}, "architecture.md:1: there is no folder internal/request"},
		{"the architecture shows the tree", "out of order", map[string]string{
			architecturePage:            "| `internal/count` | a |\n| `internal/request` | b |\n",
			"internal/count/quota/a.go": "package quota\n", "internal/request/schema/a.go": "package schema\n",
		}, "architecture.md:2: internal/request is not in the order"},
		{"the architecture shows the tree", "in order", map[string]string{
			architecturePage:            "| `internal/request` | a |\n| `internal/count` | b |\n",
			"internal/count/quota/a.go": "package quota\n", "internal/request/schema/a.go": "package schema\n",
		}, ""},
		{"the architecture shows the tree", "too long", map[string]string{architecturePage: strings.Repeat("\n", maxArchitectureLines+1)}, "151 lines, 150 are allowed"},

		{"lines are short", "long", schema("// " + strings.Repeat("x", maxColumns)), "a.go:3: 123 columns"},
		{"lines are short", "tabs", schema("func f() {\n" + strings.Repeat("\t", 40) + "_ = 0\n}"), "a.go:4: 165 columns"},
		{"lines are short", "short", schema("// " + strings.Repeat("x", maxColumns-3)), ""},
		{"folders are few", "fifteen", tooManyFolders(), "internal has 15 folders"},

		{"packages are small", "large", map[string]string{"internal/request/schema/a.go": "package schema\n" + strings.Repeat("\n", maxPackageLines)}, "internal/request/schema: 3001 lines"},
		{"packages are small", "with a reason", map[string]string{"internal/count/quota/a.go": "package quota\n" + strings.Repeat("\n", maxPackageLines)}, ""},
		{"packages are small", "tests do not count", map[string]string{"internal/request/schema/a_test.go": "package schema\n" + strings.Repeat("\n", maxPackageLines)}, ""},

		{"handlers have tests", "none", schema("import \"net/http\"\nfunc Serve(w http.ResponseWriter, r *http.Request) {}"), "a.go:4: Serve answers HTTP requests"},
		{"handlers have tests", "tested", map[string]string{
			"internal/request/schema/a.go":      "package schema\nimport \"net/http\"\nfunc Serve(w http.ResponseWriter, r *http.Request) {}\n",
			"internal/request/schema/a_test.go": "package schema\n",
		}, ""},
		{"handlers have tests", "no handler", schema("import \"net/http\"\nfunc Serve(r *http.Request) {}"), ""},

		{"only accounts take", "a type", schema("type t struct{ use allowance.Use }"), "a.go:3: allowance.Use takes or prices"},
		{"only accounts take", "a limiter", schema("func f() { service.Limiter.Take(a, b) }"), "a.go:3: Limiter.Take takes or prices"},
		{"only accounts take", "a price", schema("func f() { pool.Price.Cost(used) }"), "a.go:3: Cost takes or prices"},
		{"only accounts take", "a field", schema("func f() int64 { return record.Cost }"), ""},
		{"only accounts take", "a limit", map[string]string{"internal/route/account/a.go": "package account\ntype t struct{ use allowance.Use }\n"}, ""},
		{"accounts are closed", "forgotten", schema("func f() { a := account.Account{}; a.Visit() }"), "a.go:3: f makes an account"},
		{"accounts are closed", "not deferred", schema("func f() { a := &proxy.Request{}; a.Visit(); a.Close() }"), "f makes an account"},
		{"accounts are closed", "deferred", schema("func f() { a := account.Account{}; defer a.Close() }"), ""},
		{"accounts are closed", "by another", map[string]string{"internal/wings/realtime/socket/a.go": "package socket\nfunc hold() { a := &proxy.Request{} }\n"}, ""},
		{"goroutines have owners", "none", schema("func f() { func() { go func() {}() }() }"), "a.go:3: nobody is known to wait"},
		{"goroutines have owners", "named", map[string]string{"internal/hosts/transport/a.go": "package transport\nfunc (p *pool) push() { go p.reap() }\n"}, ""},
		{"goroutines have owners", "one more than named", map[string]string{"internal/hosts/transport/a.go": "package transport\nfunc (p *pool) push() { go p.reap(); go p.reap() }\n"}, "a.go:2: nobody"},
		{"goroutines have owners", "waited for", schema("import \"sync\"\nfunc f() { var all sync.WaitGroup; all.Go(func() {}); all.Wait() }"), ""},
		{"goroutines have owners", "test", map[string]string{"internal/request/schema/a_test.go": "package schema\nfunc f() { go f() }\n"}, ""},
		{"goroutines catch panics", "a goroutine", schema("import \"sync\"\nfunc f() { var all sync.WaitGroup; all.Go(func() {}); all.Wait() }"), "a.go:4: a panic in this goroutine"},
		{"goroutines catch panics", "a timer", schema("import \"time\"\nfunc f() { time.AfterFunc(1, f) }"), "a.go:4: a panic in this goroutine"},
		{"goroutines catch panics", "a statement", schema("func f() { go f() }"), "a.go:3: a panic in this goroutine"},
		{"goroutines catch panics", "contained", schema("func f() { all.Go(func() { logs.Contain(nil, \"\", f) }) }"), ""},
		{"goroutines catch panics", "contained by what it calls", schema("func f() { all.Go(func() { g() }) }\nfunc g() { logs.Try(f) }"), ""},
		{"goroutines catch panics", "excused", map[string]string{"internal/wings/batches/a.go": "package batches\nfunc Halt() { time.AfterFunc(1, f) }\n"}, ""},
		{"goroutines catch panics", "excused for nothing", map[string]string{"internal/wings/batches/a.go": "package batches\nfunc Halt() {}\n"}, "names internal/wings/batches.Halt"},

		{"exported names are documented", "function", schema("func F() {}"), "a.go:3: F is exported"},
		{"exported names are documented", "method", schema("// T is.\ntype T[K any] struct{}\nfunc (t *T[K]) Do() {}"), "Do is exported"},
		{"exported names are documented", "type", schema("type T int"), "T is exported"},
		{"exported names are documented", "type in a group", schema("// Group.\ntype (\nT int\n)"), "T is exported"},
		{"exported names are documented", "constant", schema("const C = 1"), "C is exported"},
		{"exported names are documented", "documented", schema("// F is.\nfunc F() {}\n// The kinds.\nconst (\nA = 1\nB = 2\n)\ntype t int\nfunc (t) Do() {}\n// E is.\ntype E string\nfunc (e E) Error() string { return \"\" }\nvar (\nX = []int{1} // X is.\n)"), ""},

		{"no registry hosts or machine paths", "host", map[string]string{"docs/a.md": "one\nfrom registry.npmjs" + ".org\n"}, "docs/a.md:2:"},
		{"no registry hosts or machine paths", "path", map[string]string{"deploy/a.yaml": "dir: /home" + "/somebody/data\n"}, "deploy/a.yaml:1:"},
		{"no registry hosts or machine paths", "in another module", map[string]string{"other/go.mod": "module other\n", "other/lock.json": `"https://registry.npmjs` + `.org/x"`}, "other/lock.json:1:"},
		{"no registry hosts or machine paths", "elsewhere", map[string]string{"docs/a.md": "see https://example.com/home/page and /v1/models", "node_modules/x/a.json": "registry.npmjs" + ".org", "a.png": "\x00/root" + "/x"}, ""},
	} {
		proven[c.rule] = proven[c.rule] || c.want != ""
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			files := fstest.MapFS{}
			for name, content := range c.files {
				files[name] = &fstest.MapFile{Data: []byte(content)}
			}
			i := slices.IndexFunc(rules, func(r rule) bool { return r.name == c.rule })
			if i < 0 {
				t.Fatalf("there is no rule %q", c.rule)
			}
			found := strings.Join(rules[i].check(load(t, files)), "\n")
			if c.want == "" && found != "" {
				t.Errorf("complains without reason:\n%s", found)
			}
			if !strings.Contains(found, c.want) {
				t.Errorf("says %q, want %q in it", found, c.want)
			}
		})
	}
	for _, r := range rules {
		if !proven[r.name] {
			t.Errorf("rule %q has no proof that it can fail", r.name)
		}
	}
}
