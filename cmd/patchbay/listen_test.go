package main

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
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

// A gateway with a socket in the file system serves the unified API there, the health
// check prefers it, and check says what is wrong with its path.
func TestSocketInTheFileSystem(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "g")
	b := gatewaytest.StartBackend(t)
	doc := gatewaytest.LoadDocument(t, gatewaytest.PoolYAML(b), t.TempDir())
	doc.Server.Listen = append(doc.Server.Listen, "unix:"+socket)
	g, err := gateway.New(doc, slog.New(slog.DiscardHandler), gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	t.Cleanup(func() { g.Stop(context.Background()) })
	client := outgoing.New(ownGateway(doc.Server).options)
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(t), http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader(gatewaytest.PlainHi))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("a request over the socket is %d", response.StatusCode)
	}
	if code, stdout, stderr := runHere(t, "healthcheck", "--listen", "127.0.0.1:1,unix:"+socket); code != exitOK || stdout != "ready\n" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	if code, _, stderr := runHere(t, "check", "--listen", "unix:"+socket+"/below"); code != exitConfig || !strings.Contains(stderr, "create it") {
		t.Errorf("%d %s", code, stderr)
	}
}
