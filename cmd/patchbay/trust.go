package main

import (
	"crypto/tls"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
)

// trustFlags name the authorities that must have signed a gateway's certificate, and the
// certificate that this program shows to a gateway that asks for one.
type trustFlags struct{ ca, cert, key, serverName string }

func (f *trustFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.ca, "ca", "", "file with the certificates that sign the gateway's, in place of those of "+
		"the system")
	cmd.Flags().StringVar(&f.cert, "client-cert", "",
		"file with the certificate to show to a gateway that has server.tls.client-ca")
	cmd.Flags().StringVar(&f.key, "client-key", "", "file with the key of --client-cert")
	cmd.Flags().StringVar(&f.serverName, "server-name", "",
		"name in the gateway's certificate, if it is not that of the address")
	cmd.MarkFlagsRequiredTogether("client-cert", "client-key")
}

// apply makes a client verify and show the certificates of the flags.
func (f *trustFlags) apply(to *outgoing.Options) error {
	if *f == (trustFlags{}) {
		return nil
	}
	settings, err := outgoing.Trust(f.ca)
	if err != nil {
		return fmt.Errorf("--ca: %w", err)
	}
	settings.ServerName = f.serverName
	settings.InsecureSkipVerify = to.TLS != nil && to.TLS.InsecureSkipVerify && f.ca+f.serverName == ""
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return fmt.Errorf("--client-cert, --client-key: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	to.TLS = settings
	return nil
}
