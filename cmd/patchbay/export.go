package main

import (
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

func newExport(env []string, stdout io.Writer) *cobra.Command {
	flags := &remoteFlags{settingFlags: settingFlags{env: env}}
	secrets := false
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the configuration in force as a configuration file",
		Long: `Prints the configuration that a running gateway has in force, with the changes of the
console and the API, as a configuration file. References such as ${OPENAI_API_KEY} stay.
Literal secrets become references to variables, which comments name; --secrets prints
them as they are, and needs an ADMIN. serve with this file makes no new version while
the variables have the same secrets.

` + remotePlaces,
		Example: `  patchbay export > patchbay.yaml
  patchbay export --url http://127.0.0.1:8080 --secrets`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
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
