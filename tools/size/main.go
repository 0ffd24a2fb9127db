// Command size counts how much code the gateway consists of: the statements and declarations
// of every package of this repository that the program is built from, apart from the simulator
// and the importer. It is run in the root of the repository (make size).
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	module     = "github.com/patchbay-ai/patchbay"
	maxColumns = 120
	tabColumns = 4
)

// size is the code of some files.
type size struct {
	statements, declarations, comments, long int
}

func (s *size) add(other size) {
	s.statements += other.statements
	s.declarations += other.declarations
	s.comments += other.comments
	s.long += other.long
}

func main() {
	log.SetFlags(0)
	list := exec.Command("go", "list", "-deps", "-f", `{{if .Module}}{{range .GoFiles}}{{$.ImportPath}} {{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}`, "./cmd/patchbay")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		log.Fatalf("go list: %v", err)
	}
	var total size
	folders := map[string]*size{}
	var order []string
	for line := range strings.Lines(string(out)) {
		pkg, file, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || !counted(pkg) {
			continue
		}
		one, err := measure(file)
		if err != nil {
			log.Fatal(err)
		}
		total.add(one)
		name := folder(pkg)
		if folders[name] == nil {
			folders[name] = &size{}
			order = append(order, name)
		}
		folders[name].add(one)
	}
	for _, name := range order {
		fmt.Printf("%7d  %s\n", folders[name].statements+folders[name].declarations, name)
	}
	fmt.Printf("%7d  statements and declarations (%d and %d)\n", total.statements+total.declarations, total.statements, total.declarations)
	fmt.Printf("%7.3f  comment lines per statement\n", float64(total.comments)/float64(total.statements))
	fmt.Printf("%7d  lines over %d columns\n", total.long, maxColumns)
}

// counted reports whether a package is part of the gateway's size.
func counted(pkg string) bool {
	if pkg != module && !strings.HasPrefix(pkg, module+"/") {
		return false
	}
	for part := range strings.SplitSeq(pkg, "/") {
		if part == "simulator" || part == "importer" || part == "bench" {
			return false
		}
	}
	return true
}

// folder returns the folder under internal that a package is in, or its own path.
func folder(pkg string) string {
	parts := strings.Split(strings.TrimPrefix(pkg, module+"/"), "/")
	return filepath.Join(parts[:min(2, len(parts))]...)
}

// measure counts the statements and declarations of one file. A block is not a statement of
// its own; each name that a declaration gives to a constant, a variable, a type or a member
// counts once.
func measure(path string) (size, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return size{}, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		return size{}, err
	}
	var s size
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt, *ast.EmptyStmt, *ast.DeclStmt:
		case ast.Stmt:
			s.statements++
		case *ast.FuncDecl, *ast.TypeSpec, *ast.ValueSpec:
			s.declarations++
		case *ast.StructType:
			s.declarations += len(n.Fields.List)
		case *ast.InterfaceType:
			s.declarations += len(n.Methods.List)
		}
		return true
	})
	lines := bufio.NewScanner(bytes.NewReader(source))
	lines.Buffer(nil, len(source)+1)
	for lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(strings.TrimSpace(text), "//") {
			s.comments++
		}
		if utf8.RuneCountInString(text)+strings.Count(text, "\t")*(tabColumns-1) > maxColumns {
			s.long++
		}
	}
	return s, lines.Err()
}
