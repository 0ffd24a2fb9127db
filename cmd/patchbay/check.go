package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/config"
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
			warnOfKeys(doc, stdout)
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

// warnOfKeys warns of a configuration with security and without keys.
func warnOfKeys(doc *config.Document, stdout io.Writer) {
	addresses := gateway.OpenAddresses(doc)
	switch {
	case !doc.Security.Enabled || len(doc.Security.Keys) > 0 || doc.Security.LetsIn():
	case !doc.Security.AllowKeyless:
		fmt.Fprintln(stdout, "warning: security is on and security.keys is empty: unless a key was issued "+
			"(patchbay keys create), /v1 refuses every request")
	case len(addresses) > 0:
		fmt.Fprintf(stdout, "warning: security is on and security.keys is empty: unless a key was issued "+
			"(patchbay keys create), anyone who reaches %s can use /v1, because security.allow-keyless is set\n",
			strings.Join(addresses, ", "))
	}
}
