package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
)

func newVersion(stdout io.Writer) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  patchbay version\n  patchbay version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return printVersion(stdout, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print commit, date, Go version and platform as JSON")
	return cmd
}

// buildOf describes the source: as the Makefile gave it, else as the Go command recorded
// it, which it does in a clone.
func buildOf(info *debug.BuildInfo, there bool) actuator.Build {
	const shown = 12 // digits of a commit's name
	build := actuator.Build{Version: version, Commit: commit, Date: date, Branch: branch}
	if !there || commit != "" {
		return build
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			build.Commit = setting.Value[:min(shown, len(setting.Value))]
		case "vcs.time":
			build.Date = setting.Value
		}
	}
	return build
}

func printVersion(w io.Writer, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(w, versionLine())
		return err
	}
	data, err := json.Marshal(struct {
		Version  string `json:"version"`
		Commit   string `json:"commit"`
		Date     string `json:"date"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
	}{version, commit, date, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

func versionLine() string {
	line := "patchbay " + version
	if commit != "" {
		line += " (" + commit + ")"
	}
	return line + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
