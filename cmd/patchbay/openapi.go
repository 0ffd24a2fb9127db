package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

func newOpenAPI(stdout io.Writer) *cobra.Command {
	var withDemo bool
	cmd := &cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI document of the gateway",
		Long: `Prints what a gateway of this version serves as /openapi.json, for generators of
clients. No gateway needs to run.`,
		Example: `  patchbay openapi > openapi.json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var more []web.Route
			if withDemo {
				more = demoRoutes()
			}
			document, err := gateway.OpenAPI(version, more)
			if err == nil {
				_, err = stdout.Write(document)
			}
			return failed(err)
		},
	}
	cmd.Flags().BoolVar(&withDemo, "demo", false, "with the operations that only patchbay demo has")
	return cmd
}
