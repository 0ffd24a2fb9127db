package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"
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

// apply makes a transport verify and show the certificates of the flags.
func (f *trustFlags) apply(to *http.Transport) error {
	if *f == (trustFlags{}) {
		return nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if to.TLSClientConfig != nil {
		settings = to.TLSClientConfig.Clone()
	}
	if f.serverName != "" {
		settings.ServerName, settings.InsecureSkipVerify = f.serverName, false
	}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return fmt.Errorf("--ca: %w", err)
		}
		settings.RootCAs, settings.InsecureSkipVerify = x509.NewCertPool(), false
		if !settings.RootCAs.AppendCertsFromPEM(pem) {
			return errors.New("--ca: " + f.ca + " has no certificate in PEM")
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return fmt.Errorf("--client-cert, --client-key: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	to.TLSClientConfig = settings
	return nil
}
