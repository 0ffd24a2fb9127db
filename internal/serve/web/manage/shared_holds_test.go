package manage_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

func TestHeldBreakersActOnAllGateways(t *testing.T) {
	t.Parallel()
	db := storetest.Postgres(t)
	b := gatewaytest.StartBackend(t)
	yaml := gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())) + "store: {config: '" + db.URL + "'}\n"
	one, two := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
	hold := func(r *gatewaytest.Gateway, state string) gatewaytest.ManagementReply {
		return r.API(http.MethodPost, "/api/config/instance/circuit-breaker/chat", fmt.Sprintf(`{"instanceId":%q,"state":%q}`, "m@"+b.URL(), state))
	}
	serves := func(r *gatewaytest.Gateway) func() bool {
		return func() bool {
			return r.Chat(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`).Status == http.StatusOK
		}
	}
	isHeld := func(r *gatewaytest.Gateway) func() bool { return func() bool { return !serves(r)() } }
	hold(one, "OPEN").Is(t, 200, "all gateways", `"forced":"OPEN"`)
	if serves(one)() {
		t.Error("the gateway that was asked goes on using the instance")
	}
	gatewaytest.Eventually(t, "the other gateway holds it as well", isHeld(two))
	late := gatewaytest.Start(t, yaml)
	if serves(late)() {
		t.Error("a gateway that starts later does not hold it")
	}
	// An edit that makes the table anew, and one that brings the instance back.
	two.API(http.MethodDelete, "/api/config/instance/del/chat?modelName=m&baseUrl="+b.URL(), "").Is(t, 200)
	two.API(http.MethodPost, gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":"m","baseUrl":%q}`, b.URL())).Is(t, 201)
	if serves(two)() {
		t.Error("an edit lets go of the breaker")
	}
	hold(two, "AUTO").Is(t, 200)
	for _, r := range []*gatewaytest.Gateway{one, two, late} {
		gatewaytest.Eventually(t, "the breaker is let go of", serves(r))
	}
	two.API(http.MethodPut, "/api/config/quota", `{"failOpen":true}`).Is(t, 200, "of this gateway")
	db.Kill()
	if got := hold(one, "OPEN").Is(t, 503); strings.Contains(got.Body, db.Address) || !serves(one)() {
		t.Errorf("without the database: %s", got.Body)
	}
}
