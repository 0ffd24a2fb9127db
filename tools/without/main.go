// Command without proves that the core needs no wing: it copies the tracked files of the
// repository, deletes the folder of a wing, the lines of the lists that name it and the files
// of its verbs, builds the rest and runs the core's tests. No file of the core may contain a name
// that only the wing declares, and no function of the core may be reached by the wing alone. It does
// that for all at once, and for each wing in turn; with -since REVISION only for each that has changed
// since then. Wings
// that are named are deleted together (make without WINGS="spend demo"). It is run in the root
// of the repository.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	module  = "github.com/patchbay-ai/patchbay"
	folder  = "internal/wings"
	program = "cmd/patchbay"
)

// lists are the files that name wings line by line.
var lists = []string{folder + "/wings.go", "internal/gateway/wings.go", program + "/wings.go"}

// quick lists the packages to test for each wing; without all wings, the tests of every
// package of the core run.
var quick = []string{"./internal/config", "./internal/config/lint", "./internal/gateway/pairs", "./internal/serve/web/openapi"}

func main() {
	log.SetFlags(0)
	wings, err := wingsOf(folder)
	if err != nil {
		log.Fatal(err)
	}
	noTests := flag.Bool("no-tests", false, "only build and vet")
	onlyNames := flag.Bool("names", false, "only look for names of the wings in the core")
	in := flag.String("in", "", "a new folder for the copy, which is kept")
	since := flag.String("since", "", "a revision: of the wings alone, only those that have changed since then")
	flag.Parse()
	rounds := [][]string{wings}
	for _, wing := range wings {
		switch hasChanged, err := changed(wing, *since); {
		case err != nil:
			log.Printf("wing %s alone: %v", wing, err)
		case hasChanged:
			rounds = append(rounds, []string{wing})
		}
	}
	if flag.NArg() > 0 {
		rounds = [][]string{flag.Args()}
	}
	failed := false
	var program *code
	if isAlone := func(round []string) bool { return len(round) == 1 }; !*onlyNames && slices.ContainsFunc(rounds, isAlone) {
		if program, err = load(); err != nil {
			log.Fatal(err)
		}
	}
	for _, round := range rounds {
		began := time.Now()
		name := strings.Join(round, " ")
		if len(round) == len(wings) {
			name = "all"
		}
		packages := quick
		if len(round) == len(wings) {
			packages = []string{"./internal/..."}
		}
		if *noTests {
			packages = nil
		}
		t := trial{dir: *in, wings: round, tested: packages, onlyNames: *onlyNames}
		if len(round) == 1 {
			t.program = program
		}
		if err := t.run(); err != nil {
			failed = true
			log.Printf("FAIL without %s: %v", name, err)
			continue
		}
		log.Printf("ok   without %-12s %s", name, time.Since(began).Round(time.Second))
	}
	if failed {
		os.Exit(1)
	}
}

func wingsOf(dir string) (wings []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() {
			wings = append(wings, entry.Name())
		}
	}
	return wings, err
}

// changed reports whether the folder of a wing has changed since a revision; with none it has.
func changed(wing, since string) (bool, error) {
	if since == "" {
		return true, nil
	}
	err := exec.Command("git", "diff", "--quiet", since, "--", folder+"/"+wing).Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("git diff %s: %w", since, err)
	}
	return false, nil
}

// trial is a copy without some wings.
type trial struct {
	dir    string
	wings  []string
	tested []string // packages
	// program is examined for what only the wing reaches; nil if that is not wanted.
	program   *code
	onlyNames bool
}

// run makes the copy, examines and builds it, and tests some of its packages.
func (t trial) run() error {
	if t.program != nil {
		only, err := t.program.onlyBy(t.wings[0])
		if err == nil && len(only) > 0 {
			err = errors.New("only the wing reaches:\n" + strings.Join(only, "\n"))
		}
		if err != nil {
			return err
		}
	}
	dir := t.dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "patchbay-without-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	if err := copyTo(dir); err != nil {
		return err
	}
	for _, wing := range t.wings {
		if err := remove(dir, wing); err != nil {
			return fmt.Errorf("%s: %w", wing, err)
		}
	}
	for _, wing := range t.wings {
		if err := named(dir, wing); err != nil {
			return fmt.Errorf("%s: %w", wing, err)
		}
	}
	if t.onlyNames {
		return nil
	}
	if err := run(dir, "build", "./..."); err != nil {
		return err
	}
	if err := run(dir, "vet", "./internal/...", "./"+program); err != nil {
		return err
	}
	if len(t.tested) == 0 {
		return nil
	}
	return run(dir, append([]string{"test", "-vet=off", "-ldflags=-w", "-parallel=8"}, t.tested...)...)
}

// copyTo copies the tracked files, and the files that git would track.
func copyTo(dir string) error {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		content, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a wing: its folder, its lines in the lists, and the files of its verbs.
func remove(dir, wing string) error {
	if err := os.RemoveAll(filepath.Join(dir, folder, wing)); err != nil {
		return err
	}
	for _, list := range lists {
		if err := removeLines(filepath.Join(dir, list), wing); err != nil {
			return err
		}
	}
	return filepath.WalkDir(filepath.Join(dir, program), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if imports(wing).Match(content) || bytes.HasPrefix(content, []byte("// This file belongs to the wing "+wing+".\n")) {
			return os.Remove(path)
		}
		return nil
	})
}

// imports matches the import of a package of a wing, with its name.
func imports(wing string) *regexp.Regexp {
	return regexp.MustCompile(`"` + regexp.QuoteMeta(module+"/"+folder+"/"+wing) + `(?:/[a-z/]+)?"`)
}

// removeLines deletes the lines of a list that name a package of a wing, or the wing itself in
// a comment.
func removeLines(file, wing string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	mine := []*regexp.Regexp{regexp.MustCompile(`// wing: ` + wing + `$`)}
	for _, quoted := range imports(wing).FindAllString(string(content), -1) {
		name := strings.Trim(quoted[strings.LastIndexByte(quoted, '/'):], `/"`)
		mine = append(mine, regexp.MustCompile(regexp.QuoteMeta(quoted)), regexp.MustCompile(`\b`+name+`\.[A-Z]`))
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(content), "\n"), func(line string) bool {
		return slices.ContainsFunc(mine, func(m *regexp.Regexp) bool { return m.MatchString(strings.TrimSuffix(line, "\n")) })
	})
	return os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644)
}

// run runs the go command in a folder and shows its output if it fails.
func run(dir string, arguments ...string) error {
	cmd := exec.Command("go", arguments...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	var shown []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "ok ") && !strings.HasPrefix(line, "? ") {
			shown = append(shown, line)
		}
	}
	return fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, strings.Join(shown, ""))
}
