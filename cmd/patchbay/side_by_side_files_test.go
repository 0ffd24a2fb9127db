// This file belongs to the wing batches.

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// TestGatewaysOfTwoReleasesShareFilesAndResponses: with a master key, which makes this release
// sign descriptions and seal responses, security.accept-unsigned lets gateways of both releases
// read the files of each other; when it is off again nothing is lost.
func TestGatewaysOfTwoReleasesShareFilesAndResponses(t *testing.T) {
	t.Parallel()
	old := os.Getenv("PATCHBAY_OLD")
	if old == "" {
		t.Skip("PATCHBAY_OLD names no program of the release before")
	}
	const masterKey = "0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", gatewaytest.StartBackend(t).URL()))+
		"security: {enabled: true, keys: [{id: k, key-sha256: "+gatewaytest.HashOf("secret")+"}]}\nbatches: {enabled: true}\nresponses: {shared: true}\n"+
		"files: {folder: "+gatewaytest.Quote(t.TempDir())+"}\nstore: {config: "+gatewaytest.Quote(storetest.Postgres(t).URL)+"}\nredis: {url: "+gatewaytest.Quote(storetest.Redis(t).URL)+"}\n")
	start := func(program, dir string, environment ...string) *child {
		g := startProgram(t, program, append(environment, "PATCHBAY_SECURITY_MASTER_KEY="+masterKey), "serve", "--listen", "127.0.0.1:0", "--config", file, "--data-dir", dir)
		g.waitFor(`"msg":"listening"`)
		return g
	}
	stop := func(g *child) { g.signal(syscall.SIGTERM); g.exits(0) }
	upload := func(g *child, text string) string {
		body := "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" + text + "\r\n--x--\r\n"
		reply := g.askAs("secret", http.MethodPost, "/v1/files", body, "Content-Type", "multipart/form-data; boundary=x")
		return gatewaytest.At(t, gatewaytest.DecodeObject(t, reply.Body), "id").(string)
	}
	is := func(when string, g *child, path, want string) {
		t.Helper()
		if got := g.askAs("secret", http.MethodGet, path, ""); got.Status != http.StatusOK || !strings.Contains(got.Body, want) {
			t.Errorf("%s: %s is %d %s", when, path, got.Status, got.Body)
		}
	}
	dir := t.TempDir()
	before, now := start(old, t.TempDir()), start(binary, dir, "PATCHBAY_SECURITY_ACCEPT_UNSIGNED=true")
	first := "/v1/files/" + upload(before, "of the release before") + "/content"
	second := "/v1/files/" + upload(now, "of this release") + "/content"
	const lines = 40
	var batches []string
	for _, g := range []*child{before, now} { // both run lines of each
		var text strings.Builder
		for i := range lines {
			fmt.Fprintf(&text, `{"custom_id":"l%d","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"%d"}]}}`+"\n", i, i)
		}
		made := g.askAs("secret", http.MethodPost, "/v1/batches", `{"input_file_id":"`+upload(g, text.String())+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`)
		batches = append(batches, "/v1/batches/"+gatewaytest.At(t, gatewaytest.DecodeObject(t, made.Body), "id").(string))
	}
	made := before.askAs("secret", http.MethodPost, "/v1/responses", `{"model":"m","input":"hi"}`)
	kept := "/v1/responses/" + gatewaytest.At(t, gatewaytest.DecodeObject(t, made.Body), "id").(string)
	for name, g := range map[string]*child{"the release before": before, "this release": now} {
		is(name, g, first, "of the release before")
		is(name, g, second, "of this release")
		is(name, g, kept, `"output"`)
		for _, path := range batches {
			gatewaytest.Eventually(t, "the batch ends", func() bool {
				return strings.Contains(g.askAs("secret", http.MethodGet, path, "").Body, `"status":"completed"`)
			})
			output := gatewaytest.At(t, gatewaytest.DecodeObject(t, g.askAs("secret", http.MethodGet, path, "").Body), "output_file_id").(string)
			if got := g.askAs("secret", http.MethodGet, "/v1/files/"+output+"/content", ""); strings.Count(got.Body, `"custom_id"`) != lines {
				t.Errorf("%s: the results of %s are %d %s", name, path, got.Status, got.Body)
			}
		}
	}
	stop(before)
	stop(now)
	for _, when := range []string{"the start that takes over", "the next one"} {
		g := start(binary, dir)
		is(when, g, first, "of the release before")
		is(when, g, second, "of this release")
		is(when, g, kept, `"output"`)
		stop(g)
	}
}
