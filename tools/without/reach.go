package main

import (
	"bytes"
	"fmt"
	"go/token"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph/rta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// code is the program with all wings. It is loaded once; what a wing alone reaches follows from
// ignoring what its functions do.
type code struct {
	files     *token.FileSet
	roots     []*ssa.Function
	functions map[*ssa.Function]bool
	all       map[token.Position]string // the functions that are reached with all wings
}

// load loads the program.
func load() (*code, error) {
	config := &packages.Config{Mode: packages.LoadAllSyntax | packages.NeedModule}
	initial, err := packages.Load(config, "./"+program)
	if err != nil {
		return nil, err
	}
	if packages.PrintErrors(initial) > 0 {
		return nil, fmt.Errorf("the program cannot be loaded")
	}
	built, mains := ssautil.AllPackages(initial, ssa.InstantiateGenerics)
	built.Build()
	c := &code{files: built.Fset, functions: ssautil.AllFunctions(built)}
	for _, main := range mains {
		c.roots = append(c.roots, main.Func("init"), main.Func("main"))
	}
	c.all = c.reached()
	return c, nil
}

// reached returns the functions of this module that the program reaches, by their places.
func (c *code) reached() map[token.Position]string {
	found := map[token.Position]string{}
	for f := range rta.Analyze(c.roots, false).Reachable {
		if origin := f.Origin(); origin != nil {
			f = origin
		}
		if f.Pkg != nil && f.Pos().IsValid() && f.Parent() == nil && strings.HasPrefix(f.Pkg.Pkg.Path(), module) {
			found[c.files.Position(f.Pos())] = f.String()
		}
	}
	return found
}

// onlyBy returns the functions of the core that only a wing reaches.
func (c *code) onlyBy(wing string) ([]string, error) {
	bodies := map[*ssa.Function][]*ssa.BasicBlock{}
	for f := range c.functions {
		isOurs, err := c.isOf(f, wing)
		if err != nil {
			return nil, err
		}
		if isOurs {
			bodies[f], f.Blocks = f.Blocks, nil
		}
	}
	without := c.reached()
	for f, body := range bodies {
		f.Blocks = body
	}
	var only []string
	for at, name := range c.all {
		isCore := strings.Contains(at.Filename, "/internal/") && !strings.Contains(at.Filename, "/"+folder+"/") &&
			!strings.Contains(at.Filename, "/internal/testing/")
		name = strings.ReplaceAll(name, module+"/internal/", "")
		if without[at] == "" && isCore && !slices.Contains(offered[wing].functions, name) {
			only = append(only, name)
		}
	}
	slices.Sort(only)
	return only, nil
}

// isOf reports whether a function stands in the folder of a wing or in a file of its verbs.
func (c *code) isOf(f *ssa.Function, wing string) (bool, error) {
	for f.Parent() != nil {
		f = f.Parent()
	}
	if origin := f.Origin(); origin != nil {
		f = origin
	}
	if f.Pkg == nil {
		return false, nil
	}
	path := f.Pkg.Pkg.Path()
	if path == module+"/"+folder+"/"+wing || strings.HasPrefix(path, module+"/"+folder+"/"+wing+"/") {
		return true, nil
	}
	if path != module+"/"+program || !f.Pos().IsValid() {
		return false, nil
	}
	name := c.files.Position(f.Pos()).Filename
	if slices.ContainsFunc(lists, func(list string) bool { return strings.HasSuffix(name, list) }) {
		return false, nil
	}
	content, err := os.ReadFile(name)
	return imports(wing).Match(content) || bytes.HasPrefix(content, []byte("// This file belongs to the wing "+wing+".\n")), err
}
