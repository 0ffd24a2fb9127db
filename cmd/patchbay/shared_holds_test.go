package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/storetest"
)

func TestHeldBreakersActOnAllGateways(t *testing.T) {
	db := storetest.Postgres(t)
	b := startBackend(t)
	yaml := chatYAML(instance("m", b.URL())) + "store: {config: '" + db.URL + "'}\n"
	one, two := startGateway(t, yaml), startGateway(t, yaml)
	hold := func(r *rig, state string) answer {
		return r.api(http.MethodPost, "/api/config/instance/circuit-breaker/chat", fmt.Sprintf(`{"instanceId":%q,"state":%q}`, "m@"+b.URL(), state))
	}
	serves := func(r *rig) func() bool {
		return func() bool {
			return r.chat(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`).status == http.StatusOK
		}
	}
	isHeld := func(r *rig) func() bool { return func() bool { return !serves(r)() } }
	hold(one, "OPEN").is(t, 200, "all gateways", `"forced":"OPEN"`)
	if serves(one)() {
		t.Error("the gateway that was asked goes on using the instance")
	}
	eventually(t, "the other gateway holds it as well", isHeld(two))
	late := startGateway(t, yaml)
	if serves(late)() {
		t.Error("a gateway that starts later does not hold it")
	}
	// An edit that makes the table anew, and one that brings the instance back.
	two.api(http.MethodDelete, "/api/config/instance/del/chat?modelName=m&baseUrl="+b.URL(), "").is(t, 200)
	two.api(http.MethodPost, instAdd+"chat", fmt.Sprintf(`{"name":"m","baseUrl":%q}`, b.URL())).is(t, 201)
	if serves(two)() {
		t.Error("an edit lets go of the breaker")
	}
	hold(two, "AUTO").is(t, 200)
	for _, r := range []*rig{one, two, late} {
		eventually(t, "the breaker is let go of", serves(r))
	}
	two.api(http.MethodPut, "/api/config/quota", `{"failOpen":true}`).is(t, 200, "of this gateway")
	db.Kill()
	if got := hold(one, "OPEN").is(t, 503); strings.Contains(got.body, db.Address) || !serves(one)() {
		t.Errorf("without the database: %s", got.body)
	}
}
