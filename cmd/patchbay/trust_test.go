package main

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// TestVerbsReachAGatewayWithAPrivateAuthority: healthcheck, keys and the other verbs
// that ask a gateway verify a certificate of a private authority, and show one where the
// gateway asks for it.
func TestVerbsReachAGatewayWithAPrivateAuthority(t *testing.T) {
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	clientCertificate, clientKey := authority.Pair(t, "operator")
	r := gatewaytest.StartWith(t, gatewaytest.Setup{
		YAML: "server: {tls: {certificate: " + gatewaytest.Quote(certificate) + ", key: " + gatewaytest.Quote(key) + ", client-ca: " + gatewaytest.Quote(authority.File) + "}}\n",
		TLS:  authority.Client(gatewaytest.LoadPair(t, clientCertificate, clientKey)),
	})
	trusted := []string{"--url", r.URL, "--ca", authority.File, "--client-cert", clientCertificate, "--client-key", clientKey, "--server-name", "gateway.test"}
	for name, test := range map[string]struct {
		code int
		says string
		args []string
	}{
		"ready":               {0, "ready", append([]string{"healthcheck"}, trusted...)},
		"keys":                {0, "", append([]string{"keys", "list"}, trusted...)},
		"unknown authority":   {1, "certificate", []string{"healthcheck", "--url", r.URL, "--client-cert", clientCertificate, "--client-key", clientKey}},
		"another name":        {1, "certificate", withFlag(trusted, "--server-name", "other.test")},
		"no certificate":      {1, "", []string{"healthcheck", "--url", r.URL, "--ca", authority.File, "--server-name", "gateway.test"}},
		"no such file":        {2, "--ca", []string{"healthcheck", "--url", r.URL, "--ca", "nowhere.pem"}},
		"no certificate file": {2, "no certificate in PEM", []string{"healthcheck", "--url", r.URL, "--ca", clientKey}},
		"no key":              {2, "client-key", []string{"healthcheck", "--url", r.URL, "--client-cert", clientCertificate}},
	} {
		code, stdout, stderr := runHere(t, test.args...)
		if code != test.code || !strings.Contains(stdout+stderr, test.says) {
			t.Errorf("%s: exit code %d, %s%s", name, code, stdout, stderr)
		}
	}
}

// withFlag is healthcheck with one flag replaced.
func withFlag(flags []string, name, value string) []string {
	args := append([]string{"healthcheck"}, flags...)
	for i := range args {
		if args[i] == name {
			args[i+1] = value
		}
	}
	return args
}
