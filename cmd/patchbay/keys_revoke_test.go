package main

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// Revoking again is no failure, wherever the keys are: what was wanted is so.
func TestRevokingAKeyAgainSaysSo(t *testing.T) {
	dir := t.TempDir()
	verb := func(wantOut string, args ...string) {
		t.Helper()
		code, stdout, stderr := runHere(t, append([]string{"keys"}, args...)...)
		if code != exitOK || !strings.HasPrefix(stdout, wantOut) {
			t.Errorf("%v: %d %q %s", args, code, stdout, stderr)
		}
	}
	for _, id := range []string{"here", "there"} {
		verb("id   "+id, "create", "--data-dir", dir, "--id", id)
	}
	verb("revoked here\n", "revoke", "here", "--data-dir", dir)
	verb("here was revoked already\n", "revoke", "here", "--data-dir", dir)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir, YAML: gatewaytest.SecuredYAML()})
	verb("revoked there\n", "revoke", "there", "--url", r.URL, "--token", "admin-token")
	verb("there was revoked already\n", "revoke", "there", "--url", r.URL, "--token", "admin-token")
}
