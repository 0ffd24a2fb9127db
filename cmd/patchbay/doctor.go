package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/wings/doctor"
)

func newDoctor(env []string, stdout io.Writer) *cobra.Command {
	flags := &settingFlags{env: env}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [FILE]",
		Short: "Check a configuration together with its backends, its stores and this machine",
		Long: `Looks at all that a gateway with this configuration depends on: the file, the addresses
that it listens on, certificates, data directory, disk, descriptors, clock, every
backend (address, TLS, key, models), Redis, the database, and the database that
gateways share. It changes nothing and sends no request that costs anything. Each line
is ok, warn, fail or skip (not in use), with what to do about it; the exit code is 1 if
one of them is fail.`,
		Example: `  patchbay doctor
  patchbay doctor patchbay.yaml
  patchbay doctor --json`,
		Args: flags.takeFile,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			findings := examine(ctx, flags)
			if err := printFindings(stdout, findings, asJSON); err != nil {
				return failed(err)
			}
			if n := count(findings, doctor.Fail); n > 0 {
				return failed(fmt.Errorf("%d of %d checks failed", n, len(findings)))
			}
			return nil
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func count(findings []doctor.Finding, level doctor.Level) int {
	n := 0
	for _, f := range findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

// examine makes all checks, or says why the configuration does not let it.
func examine(ctx context.Context, flags *settingFlags) []doctor.Finding {
	loaded, err := flags.load()
	if err != nil {
		var decided *exitError
		if errors.As(err, &decided) {
			err = decided.err
		}
		return []doctor.Finding{{Level: doctor.Fail, Area: "file", Message: err.Error(),
			Fix: "correct the configuration; nothing else was checked"}}
	}
	name := flags.path()
	if name == "" {
		name = "no file: the default configuration"
	}
	findings := []doctor.Finding{{Level: doctor.OK, Area: "file", Message: name}}
	for _, warning := range loaded.Warnings {
		findings = append(findings, doctor.Finding{Level: doctor.Warn, Area: "file", Message: warning})
	}
	own := remoteOver(ownGateway(loaded.Document.Server), "")
	doctor.Run(ctx, doctor.Options{
		Document: loaded.Document, Version: version,
		Running: func(ctx context.Context) (string, error) {
			var info struct {
				Build struct {
					Version string `json:"version"`
				} `json:"build"`
			}
			err := own.call(ctx, http.MethodGet, "/actuator/info", nil, &info)
			return info.Build.Version, err
		},
		Report: func(f doctor.Finding) { findings = append(findings, f) },
	})
	return findings
}

func printFindings(stdout io.Writer, findings []doctor.Finding, asJSON bool) error {
	if asJSON {
		return writeJSON(stdout, map[string]any{"ok": count(findings, doctor.Fail) == 0, "findings": findings})
	}
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Area))
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(stdout, "%-5s %-*s  %s\n", f.Level, width, f.Area, f.Message); err != nil {
			return err
		}
		if f.Fix != "" {
			fmt.Fprintf(stdout, "      %-*s  fix: %s\n", width, "", f.Fix)
		}
	}
	return nil
}
