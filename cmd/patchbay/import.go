package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/importer"
)

// importFlags name the source to read and the files to write.
type importFlags struct {
	from, output, envFile string
	profiles              []string
	dryRun, force, json   bool
}

func newImport(stdout, stderr io.Writer) *cobra.Command {
	flags := new(importFlags)
	var names []string
	for _, source := range importer.Sources() {
		names = append(names, string(source))
	}
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Make a configuration out of one of another gateway",
		Long: `Reads a configuration of JAiRouter, LiteLLM or llama-swap (YAML), Bifrost (JSON), or the
channels of one-api or new-api (the reply of GET /api/channel as JSON, a file for each
page, or the SQLite file), writes one of Patchbay, and prints what became of every
setting: taken, changed, not in force in the source either, or not supported, with its
line and what to do. Nothing is dropped silently. Below the table it says what behaves
differently now: where data goes and who is kept apart first. Names that clients send
go on working: anthropic/* and the like become aliases. Files that a configuration includes are
read too; of several that say the same setting the one counts that counts in the source.

Secrets do not get into the configuration: it refers to variables of the environment,
and .env.example beside it names them. --env-file writes the values that the source has,
for a file that only the gateway can read; variables that the source takes from the
environment itself are not in it, so that those that are set stay as they are. What is
missing is a warning of patchbay check.

The exit code is 0 if everything that is in force was taken or changed, and 8 if
something is not supported; the configuration is written in both cases.`,
		Example: `  patchbay import --from litellm config.yaml -o patchbay.yaml
  patchbay import --from llama-swap config.yaml && patchbay serve patchbay.yaml
  patchbay import --from one-api one-api.db --env-file patchbay.env
  patchbay import --from new-api page1.json page2.json
  patchbay import --from jairouter application.yml --profile prod --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name the file: patchbay import --from litellm config.yaml")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if flags.from != "" && !slices.Contains(names, flags.from) {
				return fmt.Errorf("--from: want one of %s, found %q", strings.Join(names, ", "), flags.from)
			}
			return flags.run(args, stdout, stderr)
		},
	}
	cmd.Flags().StringVar(&flags.from, "from", "",
		"the gateway that the file is of: "+strings.Join(names, ", ")+" (default: it is found out)")
	cmd.Flags().StringVarP(&flags.output, "output", "o", defaultFile, "configuration to write")
	cmd.Flags().StringVar(&flags.envFile, "env-file", "", "file to write the values of the secrets to, with mode 0600")
	cmd.Flags().StringSliceVar(&flags.profiles, "profile", nil,
		"profile of JAiRouter to read, in place of those that its configuration names; may be repeated")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false,
		"write no file, and print the configuration to standard output")
	cmd.Flags().BoolVar(&flags.force, "force", false, "replace files that are there")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print the table as JSON")
	return cmd
}

func (f *importFlags) run(names []string, stdout, stderr io.Writer) error {
	in := importer.Input{Profiles: f.profiles, Open: openBeside(names[0])}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return failed(err)
		}
		in.Files = append(in.Files, importer.File{Name: name, Content: content})
	}
	source := importer.Source(f.from)
	if source == "" {
		var err error
		if source, err = importer.Detect(in.Files[0]); err != nil {
			return failed(err)
		}
	}
	if len(f.profiles) > 0 && source != importer.JAiRouter {
		return fmt.Errorf("--profile: only configurations of %s have profiles", importer.JAiRouter)
	}
	result, err := importer.Import(source, in)
	if err != nil {
		return failed(err)
	}
	table := stdout
	if f.dryRun {
		fmt.Fprint(stdout, result.YAML)
		table = stderr // which keeps the configuration apart
	} else if err := f.write(result); err != nil {
		return failed(err)
	}
	if err := f.print(table, result, names); err != nil {
		return failed(err)
	}
	if !f.dryRun && !f.json {
		fmt.Fprintf(stdout, "\nwrote %s; next: patchbay check %s\n", f.output, shellWord(f.output))
	}
	if !result.Complete() {
		return &exitError{exitPartly, errors.New("not everything is supported; the table says what, and why")}
	}
	return nil
}

// importHint says of which gateway a file with mistakes is, and how it is imported. It is empty
// where the file seems to be one of this program, or of nobody known.
func importHint(name string, content []byte) string {
	if regexp.MustCompile(`(?m)^(services|processes|format|patchbay) *:`).Match(content) {
		return ""
	}
	source, err := importer.Detect(importer.File{Name: name, Content: content})
	title := source.Title()
	if errors.Is(err, importer.ErrChannels) {
		source, title = importer.OneAPI, "one-api or new-api"
	} else if err != nil {
		return ""
	}
	return fmt.Sprintf("%s looks like a configuration of %s, which this makes one of Patchbay: "+
		"patchbay import --from %s %s", name, title, source, shellWord(name))
}

// openBeside returns a function that reads files by their paths from the directory of a
// file.
func openBeside(file string) importer.Open {
	return func(name string) ([]byte, error) {
		path := filepath.FromSlash(name)
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		return os.ReadFile(path)
	}
}

// madeByImport begins files that may be replaced.
const madeByImport = "# Made by patchbay import"

func (f *importFlags) write(result *importer.Result) error {
	example := filepath.Join(filepath.Dir(f.output), ".env.example")
	files := []string{f.output}
	if f.envFile != "" {
		files = append(files, f.envFile)
	}
	if content, err := os.ReadFile(example); err == nil && !strings.HasPrefix(string(content), madeByImport) {
		files = append(files, example)
	}
	for _, path := range files {
		if _, err := os.Stat(path); err == nil && !f.force {
			return fmt.Errorf("%s is there already; --force replaces it, -o names another place", path)
		}
	}
	// The configuration comes last: until all that it needs is there, the old one stays.
	names, values := environmentFiles(result.Variables)
	if len(result.Variables) > 0 {
		if err := durable.WriteFile(example, []byte(names), 0o644); err != nil { // it has names only
			return err
		}
	}
	if f.envFile != "" {
		if err := durable.WriteFile(f.envFile, []byte(values), 0o600); err != nil {
			return err
		}
	}
	return durable.WriteFile(f.output, []byte(result.YAML), 0o600)
}

// environmentFiles returns the names of the variables to fill in, and the file that sets
// the known values. A variable that the source itself takes from the environment is a
// comment in both, because an empty value would hide one that is set.
func environmentFiles(variables []importer.Variable) (names, values string) {
	var n, v strings.Builder
	fmt.Fprintf(&n, "%s: the variables that the configuration refers to.\n", madeByImport)
	fmt.Fprintf(&v, "%s: the secrets that the configuration refers to.\n", madeByImport)
	for _, variable := range variables {
		from := oneLine(variable.From)
		if variable.Value == "" {
			fmt.Fprintf(&n, "# %s; take the mark away to set it here\n# %s=\n", from, variable.Name)
			fmt.Fprintf(&v, "# %s is taken from the environment: %s\n", variable.Name, from)
			continue
		}
		fmt.Fprintf(&n, "# %s\n%s=\n", from, variable.Name)
		fmt.Fprintf(&v, "%s=%s\n", variable.Name, shellWord(variable.Value))
	}
	return n.String(), v.String()
}

func (f *importFlags) print(to io.Writer, result *importer.Result, names []string) error {
	if f.json {
		return writeJSON(to, result.Rows)
	}
	rows := [][]string{{"OUTCOME\tLINE\tSETTING\tWHAT IT BECAME, OR WHY NOT"}}
	counts := map[importer.Outcome]int{}
	for _, row := range result.Rows {
		counts[row.Outcome]++
		line := "-"
		if row.Line > 0 {
			file := row.File
			if slices.Contains(names, file) {
				file = filepath.Base(file)
			}
			line = fmt.Sprintf("%s:%d", file, row.Line)
		}
		rows = append(rows, []string{string(row.Outcome), line, oneLine(row.Setting), oneLine(row.Text)})
	}
	if err := writeTable(to, rows); err != nil {
		return err
	}
	fmt.Fprintf(to, "\n%d taken, %d changed, %d not in force, %d not supported\n",
		counts[importer.Taken], counts[importer.Changed], counts[importer.NotInForce], counts[importer.Unsupported])
	fmt.Fprintln(to, "\nPatchbay listens on 127.0.0.1 only, where clients of other machines do not reach it: for "+
		"them set server.listen: \"0.0.0.0:8080\" with security.enabled: true.")
	group := ""
	for i, d := range result.Differences() {
		if i == 0 {
			fmt.Fprintln(to, "\nWhat behaves differently now:")
		}
		if d.Group != group {
			group = d.Group
			fmt.Fprintf(to, "  %s\n", group)
		}
		settings := d.Settings[0]
		if more := len(d.Settings) - 1; more > 0 {
			settings += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(to, "  - %s (%s)\n", oneLine(d.Text), oneLine(settings))
	}
	return nil
}
