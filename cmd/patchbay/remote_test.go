package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// TestEveryRemoteVerbAsksTheGatewayOfTheEnvironment runs each verb that has --url without it.
func TestEveryRemoteVerbAsksTheGatewayOfTheEnvironment(t *testing.T) {
	t.Parallel()
	var asked, elsewhere atomic.Int64
	gateway := func(count *atomic.Int64) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer secret" || r.URL.Path == "/actuator/health/readiness" {
				count.Add(1)
			}
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"success":false,"message":"no","error":{"message":"no"}}`)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	env := []string{"PATCHBAY_URL=" + gateway(&asked), "PATCHBAY_TOKEN=secret", "PATCHBAY_KEY=secret"}
	lines := t.TempDir() + "/lines.jsonl"
	gatewaytest.WriteFile(t, lines, `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":`+gatewaytest.PlainHi+"}\n")
	arguments := map[string]string{
		"add": "http://127.0.0.1:1", "batches submit": lines, "batches follow": "b", "batches results": "b", "batches cancel": "b",
		"batches delete": "b", "files delete": "f", "keys edit": "k --tenant t", "keys rotate": "k", "keys enable": "k", "keys revoke": "k",
		"models load": "m", "models sleep": "m", "models pin": "m", "processes log": "p", "processes start": "p",
		"processes stop": "p", "processes restart": "p", "runs show": "r", "runs raise": "r", "runs end": "r", "tokens create": "--role VIEWER", "tokens edit": "t --role VIEWER",
		"tokens rotate": "t", "tokens enable": "t", "tokens revoke": "t",
	}
	verbs := verbsBelow(newRoot(nil, io.Discard, io.Discard))
	verbs = slices.DeleteFunc(verbs, func(verb *cobra.Command) bool { return verb.Flags().Lookup("url") == nil })
	if len(verbs) < 25 {
		t.Errorf("only %d verbs have --url", len(verbs))
	}
	for _, verb := range verbs {
		name := strings.TrimPrefix(verb.CommandPath(), "patchbay ")
		args := append(strings.Fields(name), strings.Fields(arguments[name])...)
		asks := func(count *atomic.Int64, more ...string) {
			t.Helper()
			count.Store(0)
			var out bytes.Buffer
			if code := run(append(args, more...), env, &out, &out); code != exitFailed || count.Load() == 0 {
				t.Errorf("%v %v: asked %d times, exit code %d: %s", args, more, count.Load(), code, out.String())
			}
		}
		asks(&asked)
		before := asked.Load()
		asks(&elsewhere, "--url", gateway(&elsewhere))
		if asked.Load() != before {
			t.Errorf("%s --url: the gateway of the environment was asked, too", name)
		}
	}
}

// TestFlagsGoBeforeTheGatewayOfTheEnvironment names a gateway by its configuration.
func TestFlagsGoBeforeTheGatewayOfTheEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		env  string
		code int
		want string
	}{
		{[]string{"keys", "create", "--id", "k", "--data-dir", dir}, "http://127.0.0.1:1", exitOK, "key  pb-"},
		{[]string{"models", "list", "--listen", "127.0.0.1:2"}, "http://127.0.0.1:1", exitFailed, "127.0.0.1:2"},
		{[]string{"models", "list"}, "gateway", exitUsage, "PATCHBAY_URL: want an address"},
	} {
		var out bytes.Buffer
		if code := run(c.args, []string{"PATCHBAY_URL=" + c.env}, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: %d %s", c.args, code, out.String())
		}
	}
}
