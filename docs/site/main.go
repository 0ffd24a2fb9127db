// Command site makes the documentation as a static site (make docs): pages that are read
// from a disk or a server, with a search that needs no network. With -served it makes the
// pages that the gateway itself serves (make docs-served), and with -pictures the pictures of
// the README (make pictures). It is a module of its own: the
// gateway does not depend on its libraries.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", "../..", "root of the repository")
	out := flag.String("out", "../../bin/site", "directory to write; what is in it is removed")
	served := flag.Bool("served", false, "write the pages that the gateway serves")
	pictures := flag.String("pictures", "", "draw the pictures of the README, with this program")
	flag.Parse()
	if *pictures != "" {
		made, err := draw(*root, *pictures)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("%d pictures: %s\n", made, images)
		return
	}
	produce := build
	if *served {
		produce = serve
	}
	made, problems, err := produce(*root, *out)
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case len(problems) > 0:
		os.Exit(1)
	}
	what := "pages"
	if *served {
		what = "files"
	}
	fmt.Printf("%d %s: %s\n", made, what, *out)
}

// build reads the pages, checks their links and writes the site. Problems are links that
// lead nowhere, and pages that the index does not name; with any problem nothing is
// written.
func build(root, out string) (int, []string, error) {
	docs, err := read(root)
	if err != nil {
		return 0, nil, err
	}
	problems := docs.check()
	if len(problems) > 0 {
		return 0, problems, nil
	}
	return len(docs.order), nil, docs.write(out)
}
