package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newCheck(env []string, stdout io.Writer) *cobra.Command {
	flags := &settingFlags{env: env}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a configuration and list every mistake in it",
		Example: `  patchbay check --config patchbay.yaml
  patchbay check --config patchbay.yaml --set server.listen=0.0.0.0:80`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			loaded, err := flags.load()
			if err != nil {
				return err
			}
			if err := mayListen(loaded.Document); err != nil {
				return err
			}
			for _, warning := range loaded.Warnings {
				fmt.Fprintln(stdout, "warning:", warning)
			}
			instances := 0
			for _, service := range loaded.Document.Services {
				instances += len(service.Instances)
			}
			name := flags.path()
			if name == "" {
				name = "the default configuration"
			}
			fmt.Fprintf(stdout, "%s is good: %d instances\n", name, instances)
			return nil
		},
	}
	flags.register(cmd)
	return cmd
}
