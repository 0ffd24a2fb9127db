package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
)

func newExport(env []string, stdout io.Writer) *cobra.Command {
	flags := new(flagsIn(env))
	secrets := false
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the configuration in force as a configuration file",
		Long: `Prints the configuration that a running gateway has in force, with the changes of the
console and the API, as a configuration file. References such as ${OPENAI_API_KEY} stay.
Literal secrets become references to variables, which comments name; --secrets prints
them as they are, and needs an ADMIN. serve with this file makes no new version while
the variables have the same secrets.

With --data-dir no gateway is asked: the configuration is the current version of that
directory, with the file of --config for what versions do not have.

` + remotePlaces,
		Example: `  patchbay export > patchbay.yaml
  patchbay export --url http://127.0.0.1:8080 --secrets
  patchbay export --config patchbay.yaml --data-dir ./data`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			if flags.dataDir != "" {
				return failed(exportStored(&flags.settingFlags, secrets, stdout))
			}
			gateway, err := flags.remote()
			if err != nil {
				return err
			}
			path := "/api/config/export"
			if secrets {
				path += "?secrets=true"
			}
			response, err := gateway.open(ctx, http.MethodGet, path, nil, "")
			if err != nil {
				return failed(err)
			}
			defer func() { _ = response.Body.Close() }()
			_, err = io.Copy(stdout, response.Body)
			return failed(err)
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&secrets, "secrets", false, "print literal secrets in place of variables")
	return cmd
}

// exportStored writes the configuration of a data directory.
func exportStored(flags *settingFlags, secrets bool, to io.Writer) error {
	loaded, err := flags.load()
	if err != nil {
		return err
	}
	keys, err := loaded.Document.Security.MasterKeys()
	if err == nil {
		err = files.Check(flags.dataDir, keys)
	}
	if err != nil {
		return err
	}
	doc, err := control.Opening{Store: files.Peek(flags.dataDir), Document: loaded.Document,
		Log: slog.New(slog.DiscardHandler)}.Stored()
	if err != nil {
		return fmt.Errorf("%s: %w", flags.dataDir, err)
	}
	content, err := doc.Write(secrets)
	if err != nil {
		return err
	}
	_, err = to.Write(content)
	return err
}
