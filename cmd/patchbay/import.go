package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/importer"
)

// importFlags say what is read and what is written.
type importFlags struct {
	from, output, envFile string
	dryRun, force, json   bool
}

func newImport(stdout, stderr io.Writer) *cobra.Command {
	flags := new(importFlags)
	var names []string
	for _, source := range importer.Sources() {
		names = append(names, string(source))
	}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Make a configuration out of one of another gateway",
		Long: `Reads a configuration of JAiRouter (YAML), LiteLLM (YAML), Bifrost (JSON), or the
channels of one-api or new-api (the reply of GET /api/channel as JSON, or the SQLite
file), writes one of Patchbay, and prints what became of every setting: taken, changed,
or not supported, with its line and what to do. Nothing is dropped silently.

Secrets do not get into the configuration: it refers to variables of the environment,
and .env.example beside it names them. --env-file writes their values, for a file that
only the gateway can read.

The exit code is 0 if everything was taken or changed, and 8 if something is not
supported; the configuration is written in both cases.`,
		Example: `  patchbay import --from litellm config.yaml -o patchbay.yaml
  patchbay import --from one-api one-api.db --env-file patchbay.env
  patchbay import --from jairouter application.yml --dry-run`,
		Args: oneArg("name", "file", "patchbay import --from litellm config.yaml"),
		RunE: func(_ *cobra.Command, args []string) error {
			if flags.from != "" && !slices.Contains(names, flags.from) {
				return fmt.Errorf("--from: want one of %s, found %q", strings.Join(names, ", "), flags.from)
			}
			return flags.run(args[0], stdout, stderr)
		},
	}
	cmd.Flags().StringVar(&flags.from, "from", "", "the gateway that the file is of: "+strings.Join(names, ", ")+" (default: it is found out)")
	cmd.Flags().StringVarP(&flags.output, "output", "o", defaultFile, "configuration to write")
	cmd.Flags().StringVar(&flags.envFile, "env-file", "", "file to write the values of the secrets to, with mode 0600")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "write no file, and print the configuration to standard output")
	cmd.Flags().BoolVar(&flags.force, "force", false, "replace files that are there")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print the table as JSON")
	return cmd
}

func (f *importFlags) run(file string, stdout, stderr io.Writer) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return failed(err)
	}
	source := importer.Source(f.from)
	if source == "" {
		if source, err = importer.Detect(file, content); err != nil {
			return failed(err)
		}
	}
	result, err := importer.Import(source, file, content, func(name string) ([]byte, error) {
		return os.ReadFile(filepath.Join(filepath.Dir(file), filepath.FromSlash(name)))
	})
	if err != nil {
		return failed(err)
	}
	if err := checkImported(result); err != nil {
		return failed(err)
	}
	table := stdout
	if f.dryRun {
		fmt.Fprint(stdout, result.YAML)
		table = stderr // which keeps the configuration apart
	} else if err := f.write(result); err != nil {
		return failed(err)
	}
	if err := f.print(table, result); err != nil {
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

// checkImported makes sure that what is written can be read.
func checkImported(result *importer.Result) error {
	var env []string
	for _, v := range result.Variables {
		value := "value"
		if strings.HasSuffix(v.Name, "_SHA256") {
			value = strings.Repeat("0", 64)
		}
		env = append(env, v.Name+"="+value)
	}
	if _, err := config.Load(config.Source{File: "result", Content: []byte(result.YAML), Env: env, KnownAdapter: kinds.Check}); err != nil {
		return fmt.Errorf("the result would have mistakes, so nothing was written:\n%w\n%s", err, result.YAML)
	}
	return nil
}

func (f *importFlags) write(result *importer.Result) error {
	example := filepath.Join(filepath.Dir(f.output), ".env.example")
	files := []string{f.output}
	if f.envFile != "" {
		files = append(files, f.envFile)
	}
	for _, path := range files {
		if _, err := os.Stat(path); err == nil && !f.force {
			return fmt.Errorf("%s is there already; --force replaces it, -o names another one", path)
		}
	}
	if err := os.WriteFile(f.output, []byte(result.YAML), 0o600); err != nil {
		return err
	}
	if len(result.Variables) == 0 {
		return nil
	}
	var names, values strings.Builder
	for _, v := range result.Variables {
		fmt.Fprintf(&names, "# %s\n%s=\n", v.From, v.Name)
		fmt.Fprintf(&values, "%s=%s\n", v.Name, v.Value)
	}
	if err := os.WriteFile(example, []byte(names.String()), 0o644); err != nil { //nolint:gosec // it has names only
		return err
	}
	if f.envFile == "" {
		return nil
	}
	return os.WriteFile(f.envFile, []byte(values.String()), 0o600)
}

func (f *importFlags) print(to io.Writer, result *importer.Result) error {
	if f.json {
		return writeJSON(to, result.Rows)
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OUTCOME\tLINE\tSETTING\tWHAT IT BECAME, OR WHY NOT")
	counts := map[importer.Outcome]int{}
	for _, row := range result.Rows {
		counts[row.Outcome]++
		line := "-"
		if row.Line > 0 {
			line = fmt.Sprintf("%s:%d", filepath.Base(row.File), row.Line)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", row.Outcome, line, row.Setting, row.Text)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to, "\n%d taken, %d changed, %d not supported\n", counts[importer.Taken], counts[importer.Changed], counts[importer.Unsupported])
	return err
}
