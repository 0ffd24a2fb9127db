// Command size counts the tokens of the product's Go code and compares the total with the
// limit in tools/size/budget. It is run in the root of the repository (make size).
//
// Every tracked Go file counts, apart from tests, test data and the folders in excluded.
// Comments, semicolons and commas do not count. A string literal longer than longText bytes,
// and an embedded .sql, .lua or .json file, counts one token for each bytesPerToken bytes, so
// that code moved into text counts as well.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"log"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	budgetFile    = "tools/size/budget"
	longText      = 200 // bytes of a string literal that still count as one token
	bytesPerToken = 6
)

// excluded are folders that are not part of the product. Only tests and the demo import
// internal/testing and gatewaytest.
var excluded = []string{"bench", "deploy", "docs/site", "internal/gateway/gatewaytest", "internal/testing", "test", "tools"}

func main() {
	log.SetFlags(0)
	revision := flag.String("at", "", "count the files of this commit instead of the working tree, without a limit")
	flag.Parse()
	folders, err := count(*revision)
	if err != nil {
		log.Fatal(err)
	}
	total := 0
	byTokens := func(a, b string) int { return cmp.Or(folders[b]-folders[a], cmp.Compare(a, b)) }
	for _, name := range slices.SortedFunc(maps.Keys(folders), byTokens) {
		fmt.Printf("%9d  %s\n", folders[name], name)
		total += folders[name]
	}
	fmt.Printf("%9d  tokens\n", total)
	if *revision != "" {
		return
	}
	limit, err := limit()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%9d  limit in %s\n", limit, budgetFile)
	if total > limit {
		log.Fatalf("%d tokens over the limit: remove code, or raise the limit in a commit that changes nothing else and gives the reason", total-limit)
	}
}

// limit returns the number in the first line of budgetFile.
func limit() (int, error) {
	content, err := os.ReadFile(budgetFile)
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	n, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return 0, fmt.Errorf("%s: the first line is not a number: %w", budgetFile, err)
	}
	return n, nil
}

// count returns the tokens per folder of the working tree or of a commit.
func count(revision string) (map[string]int, error) {
	list := []string{"ls-files", "--cached", "--others", "--exclude-standard"}
	if revision != "" {
		list = []string{"ls-tree", "-r", "--name-only", revision}
	}
	names, err := git(list...)
	if err != nil {
		return nil, err
	}
	folders := map[string]int{}
	for name := range strings.Lines(string(names)) {
		name = strings.TrimSuffix(name, "\n")
		if !counted(name) {
			continue
		}
		var content []byte
		if revision != "" {
			content, err = git("show", revision+":"+name)
		} else if content, err = os.ReadFile(name); os.IsNotExist(err) {
			continue // deleted, not committed yet
		}
		if err != nil {
			return nil, err
		}
		n := pieces(len(content))
		if path.Ext(name) == ".go" {
			n = tokens(content)
		}
		folders[folder(name)] += n
	}
	return folders, nil
}

func git(args ...string) ([]byte, error) {
	command := exec.Command("git", args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, stderr.Bytes())
	}
	return out, nil
}

// counted reports whether a file belongs to the product's code.
func counted(name string) bool {
	for _, dir := range excluded {
		if strings.HasPrefix(name, dir+"/") {
			return false
		}
	}
	if slices.Contains(strings.Split(path.Dir(name), "/"), "testdata") {
		return false
	}
	switch path.Ext(name) {
	case ".go":
		return !strings.HasSuffix(name, "_test.go")
	case ".sql", ".lua", ".json":
		return strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "cmd/")
	}
	return false
}

// folder returns the folder under internal or internal/wings that holds a file, or its first folder.
func folder(name string) string {
	parts := strings.Split(path.Dir(name), "/")
	depth := 2
	if strings.HasPrefix(name, "internal/wings/") {
		depth = 3
	}
	return path.Join(parts[:min(depth, len(parts))]...)
}

// pieces returns what a text of n bytes counts.
func pieces(n int) int { return (n + bytesPerToken - 1) / bytesPerToken }

// tokens counts the tokens of a Go file.
func tokens(source []byte) int {
	var s scanner.Scanner
	fset := token.NewFileSet()
	s.Init(fset.AddFile("", fset.Base(), len(source)), source, nil, 0)
	n := 0
	for {
		_, kind, text := s.Scan()
		switch kind {
		case token.EOF:
			return n
		case token.SEMICOLON, token.COMMA:
		case token.STRING:
			if len(text) > longText {
				n += pieces(len(text))
			} else {
				n++
			}
		default:
			n++
		}
	}
}
