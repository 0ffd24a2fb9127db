package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/gateway"
)

func newCheck(env []string, stdout io.Writer) *cobra.Command {
	flags := &settingFlags{env: env}
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration and list every mistake in it",
		Example: `  patchbay check patchbay.yaml
  patchbay check --config patchbay.yaml --set server.listen=0.0.0.0:80`,
		Args: flags.takeFile,
		RunE: func(*cobra.Command, []string) error {
			loaded, err := flags.load()
			if err != nil {
				return err
			}
			if err := gateway.CheckListen(loaded.Document); err != nil {
				return startFailure(err)
			}
			doc := loaded.Document
			for _, warning := range loaded.Warnings {
				fmt.Fprintln(stdout, "warning:", warning)
			}
			if doc.Security.Enabled && len(doc.Security.Keys) == 0 && len(gateway.OpenAddresses(doc)) > 0 {
				fmt.Fprintf(stdout, "warning: security is on and security.keys is empty: unless a key was issued "+
					"(patchbay keys create), anyone who reaches %s can use /v1\n",
					strings.Join(gateway.OpenAddresses(doc), ", "))
			}
			instances := 0
			for _, service := range doc.Services {
				instances += len(service.Instances)
			}
			name := flags.path()
			if name == "" {
				name = "the default configuration"
			}
			noun := "instances"
			if instances == 1 {
				noun = "instance"
			}
			fmt.Fprintf(stdout, "%s is good: %d %s\n", name, instances, noun)
			return nil
		},
	}
	flags.register(cmd)
	return cmd
}
