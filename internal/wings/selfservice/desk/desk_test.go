package desk_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const tenants = `
  tenants: [{name: red, models: [m], budgets: {day: {requests: 100}}}, {name: blue}]
  self-service: {keys: 2, terms: {limits: {requests-per-minute: 60}, budgets: {day: {requests: 3}}}}
`

// startDesk starts a gateway where Ann is a member of red, Bob leads red and Eve leads blue.
func startDesk(t *testing.T, more string) (*gatewaytest.Gateway, *simulator.Backend) {
	t.Helper()
	b := gatewaytest.StartBackend(t)
	yaml := gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("secret-model", b.URL())) + "security:\n  enabled: true\n" +
		fmt.Sprintf("  tokens: [{name: a, role: ADMIN, token-sha256: %s}, {name: o, role: OPERATOR, token-sha256: %s}, {name: v, role: VIEWER, token-sha256: %s}]",
			gatewaytest.HashOf("admin-token"), gatewaytest.HashOf("operator-token"), gatewaytest.HashOf("viewer-token")) + tenants + more
	return gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, Wings: people()}), b
}

func people() []wing.New {
	return []wing.New{gatewaytest.People(
		gatewaytest.Person("ann", "red", access.Member),
		gatewaytest.Person("bob", "red", access.TeamAdmin),
		gatewaytest.Person("eve", "blue", access.TeamAdmin),
		gatewaytest.Person("joe", "red", access.Member, "blue", access.Member),
	)}
}

type key struct{ ID, Name, Tenant, Status, Key, Owner, ExpiresAt string }

// makeKey has a person make a key, and returns it.
func makeKey(t *testing.T, r *gatewaytest.Gateway, who, path, body string) (made key) {
	t.Helper()
	header, session := gatewaytest.As(who)
	read(t, r.API(http.MethodPost, path, body, header, session).Is(t, 201), &made)
	if made.Key == "" {
		t.Fatalf("%s got no key", who)
	}
	return made
}

func read(t *testing.T, reply gatewaytest.ManagementReply, to any) {
	t.Helper()
	if err := json.Unmarshal(reply.Data, to, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
}

func ask(r *gatewaytest.Gateway, key string) gatewaytest.Reply {
	return r.Chat(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "Authorization", "Bearer "+key)
}

// A member makes a key, calls with it until its budget is used up, and sees why it was refused.
func TestAMemberMakesAKeyAndSeesWhyItIsRefused(t *testing.T) {
	t.Parallel()
	r, _ := startDesk(t, gatewaytest.QuotaOn)
	made := makeKey(t, r, "ann", "/api/me/keys", `{"name":"laptop"}`)
	if made.Tenant != "red" || made.Name != "laptop" || made.Owner != "ann" || made.ExpiresAt == "" {
		t.Errorf("%+v", made)
	}
	for range 3 {
		ask(r, made.Key).Succeeds(t)
	}
	if got := ask(r, made.Key); got.Status != 429 && got.Status != 402 {
		t.Fatalf("beyond the budget: %d %s", got.Status, got.Body)
	}
	header, ann := gatewaytest.As("ann")
	var page struct {
		Calls []struct{ KeyID, RefusedBy, ErrorMessage, Instance string }
	}
	gatewaytest.Eventually(t, "the refusal is listed", func() bool {
		read(t, r.API(http.MethodGet, "/api/me/calls?outcome=refused", "", header, ann).Is(t, 200), &page)
		return len(page.Calls) == 1
	})
	if call := page.Calls[0]; call.KeyID != made.ID || call.RefusedBy != "key/"+made.ID || !strings.Contains(call.ErrorMessage, "budget") {
		t.Errorf("%+v", call)
	}
	read(t, r.API(http.MethodGet, "/api/me/calls", "", header, ann).Is(t, 200), &page)
	if len(page.Calls) != 4 || page.Calls[1].Instance != "" {
		t.Errorf("%+v", page)
	}
	gatewaytest.Needs(t, "spend")
	var usage struct {
		Total struct{ RequestCount int64 }
	}
	gatewaytest.Eventually(t, "the usage is counted", func() bool {
		read(t, r.API(http.MethodGet, "/api/me/usage?by=model", "", header, ann).Is(t, 200), &usage)
		return usage.Total.RequestCount >= 3
	})
	// A new key in place of a revoked one has its budget: nobody gets more by making keys anew.
	r.API(http.MethodDelete, "/api/me/keys/"+made.ID, "", header, ann).Is(t, 200)
	again := makeKey(t, r, "ann", "/api/me/keys", "{}")
	if got := ask(r, again.Key); again.ID != made.ID || got.Status == 200 {
		t.Errorf("%s after %s: %d", again.ID, made.ID, got.Status)
	}
}

func TestKeysOfAPersonAreFewAndWithinTheTerms(t *testing.T) {
	t.Parallel()
	r, _ := startDesk(t, "")
	header, ann := gatewaytest.As("ann")
	post := func(body string) gatewaytest.ManagementReply {
		return r.API(http.MethodPost, "/api/me/keys", body, header, ann)
	}
	post(`{"limits":{"requestsPerMinute":61}}`).Is(t, 400, "limits.requestsPerMinute", "security.self-service.terms")
	post(`{"models":["secret-model"]}`).Is(t, 400, "models[0]", "security.tenants red")
	post(`{"budgets":{"day":{"requests":4}}}`).Is(t, 400, "budgets.day.requests", "security.self-service.terms")
	post(`{"expiresAt":"2099-01-01T00:00:00Z"}`).Is(t, 400, "expiresAt", "longest-life")
	post(`{"tenant":"blue"}`).Is(t, 400, "tenant", "red")
	post(`{"id":"mine"}`).Is(t, 400, "id")
	post(`{"userHeader":"X-User"}`).Is(t, 400, "userHeader")
	r.API(http.MethodPost, "/api/me/keys?dryRun=true", "{}", header, ann).Is(t, 200)
	first := makeKey(t, r, "ann", "/api/me/keys", `{"limits":{"requestsPerMinute":5}}`)
	makeKey(t, r, "ann", "/api/me/keys", "{}")
	post("{}").Is(t, 400, "2 keys")
	header, joe := gatewaytest.As("joe")
	r.API(http.MethodPost, "/api/me/keys", "{}", header, joe).Is(t, 400, "tenant", "red, blue")
	if made := makeKey(t, r, "joe", "/api/me/keys", `{"tenant":"blue"}`); made.Tenant != "blue" {
		t.Errorf("%+v", made)
	}
	// Nobody touches the keys of others.
	r.API(http.MethodDelete, "/api/me/keys/"+first.ID, "", header, joe).Is(t, 404)
	r.API(http.MethodPost, "/api/me/keys/"+first.ID+"/rotate", "", header, joe).Is(t, 404)
	header, ann = gatewaytest.As("ann")
	var rotated key
	read(t, r.API(http.MethodPost, "/api/me/keys/"+first.ID+"/rotate", `{"overlap":0}`, header, ann).Is(t, 200), &rotated)
	if ask(r, first.Key).Status != 401 {
		t.Error("the old text is good after the rotation")
	}
	ask(r, rotated.Key).Succeeds(t)
}

// A team admin manages the keys, budgets and members of the own tenant.
func TestATeamAdminManagesTheTenant(t *testing.T) {
	t.Parallel()
	r, _ := startDesk(t, "")
	r.SignIn(gatewaytest.Person("ann", "red", access.Member))
	own := makeKey(t, r, "ann", "/api/me/keys", "{}")
	header, bob := gatewaytest.As("bob")
	team := makeKey(t, r, "bob", "/api/team/red/keys", `{"name":"nightly"}`)
	if team.Owner != "" || team.Tenant != "red" {
		t.Errorf("%+v", team)
	}
	do := func(method, path, body string) gatewaytest.ManagementReply {
		return r.API(method, "/api/team/red"+path, body, header, bob)
	}
	do(http.MethodPut, "/keys/"+own.ID, `{"budgets":{"day":{"requests":1}}}`).Is(t, 200)
	do(http.MethodPut, "/keys/"+own.ID, `{"budgets":{"day":{"requests":1000}}}`).Is(t, 400, "budgets.day.requests")
	// Whoever empties a field gets what the terms allow, and not more.
	for _, body := range []string{`{"limits":{"requestsPerMinute":0}}`, `{"limits":null}`, `{"expiresAt":""}`, `{"services":[],"models":null}`} {
		var after struct {
			ExpiresAt string
			Limits    struct{ RequestsPerMinute int64 }
			Budgets   struct{ Day struct{ Requests int64 } }
		}
		read(t, do(http.MethodPut, "/keys/"+team.ID, body).Is(t, 200), &after)
		if after.ExpiresAt == "" || after.Limits.RequestsPerMinute != 60 || after.Budgets.Day.Requests != 3 {
			t.Errorf("%s: %+v", body, after)
		}
	}
	do(http.MethodPost, "/keys/"+own.ID+"/rotate", "").Is(t, 403)
	do(http.MethodPost, "/keys/"+team.ID+"/rotate", "").Is(t, 200)
	ask(r, own.Key).Succeeds(t)
	if got := ask(r, own.Key); got.Status == 200 {
		t.Error("the budget that the team set does not hold")
	}
	// The budgets of the team are below those of the tenant, and hold beside them.
	do(http.MethodPut, "/budgets", `{"budgets":{"day":{"requests":101}}}`).Is(t, 400, "budgets.day.requests", "security.tenants red")
	do(http.MethodPut, "/budgets", `{"budgets":{"day":{"requests":-1}}}`).Is(t, 400, "budgets.day.requests")
	do(http.MethodPut, "/budgets?dryRun=true", `{"budgets":{"day":{"requests":2}}}`).Is(t, 200)
	ask(r, team.Key).Succeeds(t)
	do(http.MethodPut, "/budgets", `{"budgets":{"day":{"requests":2}}}`).Is(t, 200)
	if got := ask(r, team.Key); got.Status == 200 || !strings.Contains(got.Body, "tenant") {
		t.Errorf("the budget of the team: %d %s", got.Status, got.Body)
	}
	do(http.MethodPut, "/budgets", `{"budgets":{}}`).Is(t, 200)
	ask(r, team.Key).Succeeds(t)
	var members []struct {
		ID, Name, Role string
		Keys           int
	}
	read(t, do(http.MethodGet, "/members", "").Is(t, 200), &members)
	if len(members) != 1 || members[0].Name != "ann" || members[0].Role != "MEMBER" || members[0].Keys != 1 {
		t.Fatalf("%+v", members)
	}
	do(http.MethodDelete, "/members/none", "").Is(t, 404)
	do(http.MethodDelete, "/members/"+members[0].ID+"?dryRun=true", "").Is(t, 200, `"revoked":1`, "Dry run: keys of this person that would be revoked: 1.")
	do(http.MethodDelete, "/members/"+members[0].ID, "").Is(t, 200, `"revoked":1`)
	if ask(r, own.Key).Status != 401 {
		t.Error("the key of a member who was dismissed is good")
	}
	header, eve := gatewaytest.As("eve")
	r.API(http.MethodGet, "/api/team/red/keys", "", header, eve).Is(t, 403)
	r.API(http.MethodDelete, "/api/team/blue/keys/"+team.ID, "", header, eve).Is(t, 404)
}

// A team admin sees and revokes the keys that the file or an administrator made for the tenant, and neither
// edits nor rotates them: they may do more than the terms of the tenant.
func TestATeamAdminDoesNotTakeOverKeysOfTheGateway(t *testing.T) {
	t.Parallel()
	r, _ := startDesk(t, "  keys: [{id: file-key, key-sha256: "+gatewaytest.HashOf("file-key")+", tenant: red}]\n")
	admin := []string{"Authorization", "Bearer admin-token"}
	issue := func(id string) (made key) {
		body := fmt.Sprintf(`{"id":%q,"tenant":"red","userHeader":"X-U","limits":{"requestsPerMinute":100000}}`, id)
		read(t, r.API(http.MethodPost, "/api/auth/keys", body, admin...).Is(t, 201), &made)
		return made
	}
	managed, inDisguise := issue("prod"), issue("team-0123456789abcdef-1")
	team := makeKey(t, r, "bob", "/api/team/red/keys", "{}")
	byAdmin := func() (made key) {
		read(t, r.API(http.MethodPost, "/api/team/red/keys", "{}", admin...).Is(t, 201), &made)
		return made
	}()
	own := makeKey(t, r, "ann", "/api/me/keys", "{}")
	header, bob := gatewaytest.As("bob")
	do := func(method, path, body string) gatewaytest.ManagementReply {
		return r.API(method, "/api/team/red"+path, body, header, bob)
	}
	origins := map[string]string{"file-key": "file", managed.ID: "management", inDisguise.ID: "management", team.ID: "team",
		byAdmin.ID: "team", own.ID: "self"}
	for _, list := range []gatewaytest.ManagementReply{do(http.MethodGet, "/keys", ""), r.API(http.MethodGet, "/api/auth/keys", "", admin...)} {
		var keys []struct{ ID, Origin string }
		read(t, list.Is(t, 200), &keys)
		if len(keys) != len(origins) {
			t.Errorf("got keys %v, want %d", keys, len(origins))
		}
		for _, k := range keys {
			if k.Origin != origins[k.ID] {
				t.Errorf("key %s: got origin %q, want %q", k.ID, k.Origin, origins[k.ID])
			}
		}
	}
	for id, origin := range origins {
		edit, rotation := 200, 200
		switch origin {
		case "file", "management":
			edit, rotation = 403, 403
		case "self":
			rotation = 403
		}
		if got := do(http.MethodPut, "/keys/"+id, `{"budgets":{"day":{"requests":2}}}`).Status; got != edit {
			t.Errorf("key %s of origin %s: an edit got %d, want %d", id, origin, got, edit)
		}
		if got := do(http.MethodPut, "/keys/"+id+"?dryRun=true", "{}").Status; got != edit {
			t.Errorf("key %s of origin %s: the dry run of an edit got %d, want %d", id, origin, got, edit)
		}
		if got := do(http.MethodPost, "/keys/"+id+"/rotate", `{"overlap":0}`).Status; got != rotation {
			t.Errorf("key %s of origin %s: a rotation got %d, want %d", id, origin, got, rotation)
		}
	}
	ask(r, "file-key").Succeeds(t)
	ask(r, managed.Key).Succeeds(t)
	// An administrator of the gateway still changes them, here too, and the origin stays.
	var after struct{ Origin string }
	read(t, r.API(http.MethodPut, "/api/auth/keys/"+team.ID, `{"limits":{"requestsPerMinute":10}}`, admin...).Is(t, 200), &after)
	if after.Origin != "team" {
		t.Errorf("after an edit by management: got origin %q, want team", after.Origin)
	}
	read(t, r.API(http.MethodPost, "/api/team/red/keys/"+managed.ID+"/rotate", `{"overlap":0}`, admin...).Is(t, 200), &after)
	if after.Origin != "management" {
		t.Errorf("after a rotation: got origin %q, want management", after.Origin)
	}
	do(http.MethodDelete, "/keys/file-key", "").Is(t, 200)
	do(http.MethodDelete, "/keys/"+managed.ID, "").Is(t, 200)
	for _, text := range []string{"file-key", managed.Key} {
		if ask(r, text).Status != 401 {
			t.Error("a key that the team admin revoked is good")
		}
	}
}

// TestKeysOfPeopleWhoLeft: a key sleeps when its owner no longer belongs to the tenant, says so,
// and is listed as sleeping.
func TestKeysOfPeopleWhoLeft(t *testing.T) {
	t.Parallel()
	r, _ := startDesk(t, "")
	made := makeKey(t, r, "ann", "/api/me/keys", "{}")
	ask(r, made.Key).Succeeds(t)
	r.SignIn(gatewaytest.Person("ann", "blue", access.Member))
	ask(r, made.Key).FailsWith(t, 401, "authentication_error", "invalid_api_key", "")
	header, bob := gatewaytest.As("bob")
	var keys []key
	read(t, r.API(http.MethodGet, "/api/team/red/keys", "", header, bob).Is(t, 200), &keys)
	if len(keys) != 1 || keys[0].Status != "SLEEPING" {
		t.Errorf("%+v", keys)
	}
}
