package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// reference describes all settings.
const reference = "docs/configuration.md"

// inCore are the folders with the code of the core. Wings and what only tests import are left out.
var inCore = []string{"internal", program}

// word is a name that only a wing declares.
type word struct {
	text string
	at   *regexp.Regexp
}

// vocabularyOf returns the names that a wing declares: its error codes, permissions, metrics and
// settings, and the exported names of its packages.
func vocabularyOf(wing string) ([]word, error) {
	texts, err := settingsOf(wing)
	if err != nil {
		return nil, err
	}
	err = visit(filepath.Join(folder, wing), func(path string, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.ValueSpec:
				texts = append(texts, constantsOf(n)...)
			case *ast.KeyValueExpr:
				if key, isName := n.Key.(*ast.Ident); isName && key.Name == "Name" {
					texts = append(texts, metricOf(n.Value)...)
				}
			}
			return true
		})
		for _, name := range exportedBy(file) {
			texts = append(texts, file.Name.Name+"."+name)
		}
	})
	slices.Sort(texts)
	words := make([]word, 0, len(texts))
	for _, text := range slices.Compact(texts) {
		words = append(words, word{text, regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(text) + `($|[^\w-])`)})
	}
	return words, err
}

// constantsOf returns the codes of errors and the permissions among constants: the former begin
// with code, the latter have the type Permission.
func constantsOf(spec *ast.ValueSpec) (texts []string) {
	declared, _ := spec.Type.(*ast.SelectorExpr)
	isPermission := declared != nil && declared.Sel.Name == "Permission"
	for i, name := range spec.Names {
		if i < len(spec.Values) && (isPermission || strings.HasPrefix(name.Name, "code")) {
			texts = append(texts, textOf(spec.Values[i])...)
		}
	}
	return texts
}

func metricOf(value ast.Expr) []string {
	return slices.DeleteFunc(textOf(value), func(text string) bool { return !strings.HasPrefix(text, "model_router_") })
}

// textOf returns the value of a literal text, in quotes as it stands in code.
func textOf(value ast.Expr) []string {
	literal, isLiteral := value.(*ast.BasicLit)
	if !isLiteral || literal.Kind != token.STRING {
		return nil
	}
	return []string{strings.Trim(literal.Value, `"`)}
}

// exportedBy returns the exported names that a file declares.
func exportedBy(file *ast.File) (names []string) {
	for _, declared := range file.Decls {
		switch d := declared.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !ast.IsExported(name) })
}

// settingsOf returns the full names of a wing's settings: those that the reference names of the
// sections that the first list gives it.
func settingsOf(wing string) ([]string, error) {
	list, err := os.ReadFile(lists[0])
	if err != nil {
		return nil, err
	}
	rows, err := os.ReadFile(reference)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, quoted := range imports(wing).FindAllString(string(list), -1) {
		name := strings.Trim(quoted[strings.LastIndexByte(quoted, '/'):], `/"`)
		section := regexp.MustCompile(`\b` + name + `\.\w+ +` + "`json:\"(\\w+)\"")
		for _, found := range section.FindAllStringSubmatch(string(list), -1) {
			named := regexp.MustCompile("`((?:security\\.|limits\\.|monitoring\\.)?" + kebab(found[1]) + "(?:\\.[a-z.-]+)?)`")
			for _, row := range named.FindAllStringSubmatch(string(rows), -1) {
				if strings.Contains(row[1], ".") {
					names = append(names, row[1])
				}
			}
		}
	}
	return names, nil
}

// kebab returns a name as it stands in the configuration.
func kebab(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "$1-$2"))
}

// visit parses the Go files without tests of a folder.
func visit(dir string, f func(path string, file *ast.File)) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			f(path, file)
		}
		return err
	})
}

// named fails if a file of the core in a copy contains a word of a deleted wing that the core
// does not declare as well.
func named(dir, wing string) error {
	words, err := vocabularyOf(wing)
	if err != nil {
		return err
	}
	contents, declared := map[string]string{}, map[string]bool{}
	for _, part := range inCore {
		err := visit(filepath.Join(dir, part), func(path string, file *ast.File) {
			for _, name := range exportedBy(file) {
				declared[file.Name.Name+"."+name] = true
			}
			inside, _ := filepath.Rel(dir, path)
			if strings.HasPrefix(inside, folder) || strings.HasPrefix(inside, "internal/testing") {
				return
			}
			content, err := os.ReadFile(path)
			if err != nil {
				log.Fatal(err)
			}
			if !strings.Contains(string(content), module+"/"+folder+"/") { // not a verb of another wing
				contents[inside] = string(content)
			}
		})
		if err != nil {
			return err
		}
	}
	var found []string
	for path, content := range contents {
		for _, w := range words {
			if !declared[w.text] && strings.Contains(content, w.text) && w.at.MatchString(content) {
				found = append(found, fmt.Sprintf("%s contains %s", path, w.text))
			}
		}
	}
	if len(found) > 0 {
		slices.Sort(found)
		return errors.New("the core names what only the wing declares:\n" + strings.Join(found, "\n"))
	}
	return nil
}
