package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
)

// The health check of a container asks a gateway with TLS by the same settings.
func TestHealthcheckWithTLS(t *testing.T) {
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	yaml := "server: {tls: {certificate: " + certificate + ", key: " + key + "}}\n"
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, TLS: authority.Client()})
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, yaml)
	if code, stdout, stderr := runHere(t, "healthcheck", "--config", file, "--listen", r.Address()); code != exitOK || stdout != "ready\n" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
}

func TestCheckReadsTheFilesOfTLS(t *testing.T) {
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, "server:\n  tls:\n    certificate: "+certificate+"\n    key: "+key+"\n")
	if code, _, stderr := runHere(t, "check", file); code != exitOK {
		t.Errorf("%d %s", code, stderr)
	}
	gatewaytest.WriteFile(t, file, "server:\n  tls:\n    certificate: "+certificate+"\n    key: /nowhere/key.pem\n")
	if code, _, stderr := runHere(t, "check", file); code != exitConfig || !strings.Contains(stderr, file+":4:") || !strings.Contains(stderr, "server.tls.key: the file does not exist") {
		t.Errorf("%d %s", code, stderr)
	}
}
