package gateway_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// The line of a request names its key and tenant. User and address are personal: they are there
// where the settings name them.
func TestTheAccessLogNamesWhoAsked(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{"": "", "log: {access-fields: [user, address]}\n": `"user":"eve","address":"127.0.0.1"`} {
		b := gatewaytest.StartBackend(t)
		keys := map[string]string{"one": ", tenant: acme, user-header: X-User"}
		r := gatewaytest.Start(t, fields+keyed(gatewaytest.PoolYAML(b), "", keys))
		r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer one", "X-User", "eve").Succeeds(t)
		gatewaytest.Eventually(t, "the line names key and tenant", func() bool {
			return gatewaytest.CountLines(r.Logs.String(), `"logger":"access"`, `"key_id":"one","tenant":"acme"`) == 1
		})
		logged := r.Logs.String()
		if !strings.Contains(logged, want) || want == "" && (strings.Contains(logged, `"user":`) || strings.Contains(logged, `"address":"127.0.0.1"`)) {
			t.Errorf("%q: %s", fields, logged)
		}
	}
}
