// Command patchbay is a gateway that routes AI model requests from one
// OpenAI-compatible API to the backends that serve them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
)

// Set by the build; see the Makefile.
var (
	version = "dev"
	commit  = ""
	date    = ""
	branch  = ""
)

// Exit codes that scripts may depend on.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitConfig = 3
	exitPort   = 7
	exitPartly = 8
)

// exitError is an error that decides the exit code of the program.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// failed gives an error the exit code of a verb that was used rightly and did not succeed, or found data of
// another format; nil stays nil.
func failed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mark.ErrFormat):
		return &exitError{exitConfig, err}
	}
	return &exitError{exitFailed, err}
}

func main() {
	if gateway.RunInstead(os.Args) {
		return
	}
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is the whole program; tests call it too.
func run(args, env []string, stdout, stderr io.Writer) int {
	root := newRoot(env, stdout, stderr)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return exitOK
	}
	var decided *exitError
	if errors.As(err, &decided) {
		fmt.Fprintf(stderr, "patchbay: %s\n", strings.TrimSpace(err.Error()))
		return decided.code
	}
	// Any other error is wrong usage that cobra found; it takes one line.
	fmt.Fprintf(stderr, "patchbay: %s\n", strings.Join(strings.Fields(err.Error()), " "))
	return exitUsage
}

func newRoot(env []string, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "patchbay",
		Short: "One OpenAI-compatible API in front of all your AI backends",
		Long: `Patchbay routes AI model requests from one OpenAI-compatible API to the
backends that you run or rent. It balances, fails over, and lets you change
everything while it runs.

Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 bad or missing configuration or a
start refused for safety, 7 the port is in use, 8 imported in part.`,
		Example: `  patchbay demo                       try it: simulated backends, no model needed
  patchbay serve my.yaml              run it
  patchbay check my.yaml              find every mistake in a configuration`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(
		newServe(env, stderr), newCheck(env, stdout), newHealthcheck(env, stdout), newAdd(env, stdout, stderr),
		newSchema(stdout), newExport(env, stdout),
		newOpenAPI(stdout), newKeys(env), newTokens(env), newModels(env),
		newPrices(stdout), newMan(stdout), newVersion(stdout),
	)
	root.AddCommand(wingVerbs(env, stdout, stderr)...)
	root.SetOut(stdout) // the completions keep the output that is set when they are made
	refuseUnknownShells(root)
	return root
}

// refuseUnknownShells makes the completion for an unknown shell an error. Cobra would
// print its help.
func refuseUnknownShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil || completion == root {
		return
	}
	completion.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var shells []string
		for _, shell := range cmd.Commands() {
			shells = append(shells, shell.Name())
		}
		return fmt.Errorf("unknown shell %q (known: %s)", args[0], strings.Join(shells, ", "))
	}
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// oneLine returns a text from elsewhere without the characters that end a line, move the cursor of
// a terminal or separate columns.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// writeJSON prints a value for --json.
func writeJSON(to io.Writer, value any) error {
	data, err := json.Marshal(value, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = to.Write(append(data, '\n'))
	return err
}
