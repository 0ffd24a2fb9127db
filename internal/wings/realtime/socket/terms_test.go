package socket_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// issueKey issues a key of the tenant acme with these members, and returns the headers that
// present it.
func issueKey(t *testing.T, r *gatewaytest.Gateway, members string) []string {
	t.Helper()
	issued := gatewaytest.DataOf[struct {
		Key string `json:"key"`
	}](t, r.API(http.MethodPost, "/api/auth/keys", `{"id":"issued","tenant":"acme"`+members+`}`, "Authorization", "Bearer admin-token").Is(t, http.StatusCreated))
	return []string{"Authorization", "Bearer " + issued.Key}
}

// change changes the terms of the key, or those of its tenant.
func change(t *testing.T, r *gatewaytest.Gateway, whose, terms string) {
	t.Helper()
	path := map[string]string{"key": "/api/auth/keys/issued", "tenant": "/api/config/terms/tenants/acme"}[whose]
	r.API(http.MethodPut, path, terms, "Authorization", "Bearer admin-token").Is(t, http.StatusOK)
}

// askUntilRefused asks for responses until an error comes, and returns how many were made and the
// code of the error.
func askUntilRefused(t *testing.T, s *gatewaytest.Socket) (made int, code any) {
	t.Helper()
	for s.Send(`{"type":"response.create"}`); ; {
		switch event := s.Event(); event["type"] {
		case "error":
			return made, gatewaytest.At(t, event, "error/code")
		case "response.done":
			if made++; made == 20 {
				t.Fatal("nothing refuses a response")
			}
			s.Send(`{"type":"response.create"}`)
		}
	}
}

// Every response on an open connection is held to what the key and its tenant may now, and is
// counted so.
func TestAnOpenSessionIsHeldToWhatItsKeyMayNow(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		issued, whose, terms string
		made                 int // after the change
		code                 string
		used                 float64 // of a budget of tokens; -1 where there is none
	}{
		// A response of 30 tokens reserves the conversation of 30 and 40.
		"a new budget":             {"", "key", `{"budgets":{"day":{"tokens":100}}}`, 2, "budget_exceeded", 60},
		"a lowered budget":         {`,"budgets":{"day":{"tokens":100000}}`, "key", `{"budgets":{"day":{"tokens":50}}}`, 0, "budget_exceeded", 30},
		"a new budget of a tenant": {"", "tenant", `{"budgets":{"month":{"tokens":100}}}`, 2, "budget_exceeded", 60},
		"a new limit":              {"", "key", `{"limits":{"requestsPerMinute":1}}`, 1, "key_rate_limited", -1},
		"a new limit of a tenant":  {"", "tenant", `{"limits":{"requestsPerMinute":1}}`, 1, "key_rate_limited", -1},
		"other models":             {"", "key", `{"models":["cheap"]}`, 0, "permission_denied", -1},
		"other services":           {"", "key", `{"services":["embedding"]}`, 0, "permission_denied", -1},
		"other models of a tenant": {"", "tenant", `{"models":["cheap"]}`, 0, "permission_denied", -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(""), AnswerTokens: 40})
			s := r.OpenSocket(realtimePath, issueKey(t, r, row.issued)...)
			s.Send(`{"type":"response.create"}`)
			until(t, s, "response.done")
			change(t, r, row.whose, row.terms)
			if made, code := askUntilRefused(t, s); made != row.made || code != row.code {
				t.Errorf("%d responses, then %v", made, code)
			}
			if row.used < 0 {
				return
			}
			gatewaytest.Eventually(t, "what was used is counted", func() bool {
				used, _ := tokensOf(t, r)
				return used == row.used
			})
		})
	}
}

// A response that the backend begins by itself is ended where the key may not use the model any
// more; what was made of it is paid.
func TestAResponseOfTheBackendIsHeldToWhatTheKeyMayNow(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(""), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath, issueKey(t, r, `,"budgets":{"day":{"tokens":100000}}`)...)
	until(t, s, "session.created")
	change(t, r, "key", `{"models":["cheap"]}`)
	s.Send(`{"type":"speak"}`)
	if refused := until(t, s, "error"); gatewaytest.At(t, refused, "error/code") != "permission_denied" {
		t.Errorf("%v", refused)
	}
	if code := s.Closed(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d", code)
	}
	gatewaytest.Eventually(t, "the response is cancelled and paid", func() bool {
		used, reserved := tokensOf(t, r)
		return used == 30 && reserved == 0
	})
}

// A backend that tells the end of a response again is paid once.
func TestAResponseThatEndsAgainIsCountedOnce(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(budgetOfMany), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath, realtimeHeaders...)
	for range 2 {
		s.Send(`{"type":"response.create","response":{"instructions":"thrice"}}`)
		for range 3 { // what the backend says is passed on as it is
			until(t, s, "response.done")
		}
	}
	_ = s.CloseNow()
	gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("rt")[0].InFlight() == 0 })
	requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply {
		return r.Do(http.MethodGet, gatewaytest.LongAgo, "", "Authorization", "Bearer admin-token")
	})
	used, reserved := tokensOf(t, r)
	if requests != 2 || tokens != 60 || used != 60 || reserved != 0 {
		t.Errorf("the ledger counts %d requests and %d tokens; %v are used and %v reserved", requests, tokens, used, reserved)
	}
}

// The model of a connection is the one for which it was opened.
func TestASessionKeepsItsModel(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(", models: [rt]"), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath, realtimeHeaders...)
	for _, model := range []string{`"dear"`, `"upstream-realtime"`, `["rt"]`} {
		s.Send(`{"type":"session.update","session":{"model":` + model + `}}`)
		if refused := until(t, s, "error"); gatewaytest.At(t, refused, "error/param") != "session.model" {
			t.Errorf("%s: %v", model, refused)
		}
	}
	s.Send(`{"type":"response.create"}`)
	until(t, s, "response.done")
	if got := strings.Join(b.messages(), "\n"); strings.Contains(got, "session.update") {
		t.Error(got)
	}
}

// A connection ends when its instance is disabled or removed, once nothing is made on it.
func TestASessionEndsWhenItsInstanceIsTakenOut(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]func(b *realtimeBackend) string{
		"disabled": func(b *realtimeBackend) string {
			return strings.Replace(realtimeYAML(b), "api-key: backend-key", "api-key: backend-key, enabled: false", 1)
		},
		"removed": func(b *realtimeBackend) string {
			return gatewaytest.ChatYAML(gatewaytest.Instance("other", b.URL)) + "quota: {enabled: true}\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(""), AnswerTokens: 40})
			s := r.OpenSocket(realtimePath, realtimeHeaders...)
			if name == "disabled" { // what is being made may end
				s.Send(`{"type":"response.create","response":{"instructions":"hang"}}`)
				until(t, s, "response.created")
			}
			r.ReloadWith(yaml(b) + realtimeKey(""))
			if name == "disabled" {
				s.Send(`{"type":"response.cancel"}`)
				until(t, s, "response.done")
			}
			if code := s.Closed(); code != websocket.StatusGoingAway {
				t.Errorf("closed with %d", code)
			}
		})
	}
}

// A fault of the gateway while it handles what a backend or a client says ends that connection
// with an error, and nothing else; what was reserved is settled.
func TestAPanicOnAConnectionEndsThatAlone(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{AnswerTokens: 40, // without what would read the parts that are broken here
		YAML: realtimeYAML(b, "context-window: 128000", "max-output-tokens: 4096") + realtimeKey(budgetOfMany)})
	other := r.OpenSocket(realtimePath, realtimeHeaders...)
	for name, message := range map[string]string{"of the backend": `{"type":"response.create"}`, "of the client": `{"type":"session.update","session":{"model":"rt"}}`} {
		s := r.OpenSocket(realtimePath, realtimeHeaders...)
		until(t, s, "session.created")
		i := r.Instances("rt")[0]
		kind, target := i.Kind, i.Target
		i.Kind, i.Target = nil, nil
		s.Send(message)
		if event := until(t, s, "error"); gatewaytest.At(t, event, "error/code") != "internal_error" {
			t.Errorf("%s: %v", name, event)
		}
		if code := s.Closed(); code != websocket.StatusInternalError {
			t.Errorf("%s: closed with %d", name, code)
		}
		i.Kind, i.Target = kind, target
	}
	other.Send(`{"type":"response.create"}`)
	until(t, other, "response.done")
	if n := gatewaytest.CountLines(r.Logs.String(), "panicked", "runtime error"); n != 2 {
		t.Errorf("the log has %d panics", n)
	}
	if scraped := r.Do(http.MethodGet, "/metrics", "", "Authorization", "Bearer admin-token").Body; !strings.Contains(scraped, "model_router_panics_total 2") {
		t.Error("the metrics do not count 2 panics")
	}
	_ = other.Close(websocket.StatusNormalClosure, "")
	gatewaytest.Eventually(t, "nothing is reserved", func() bool {
		_, reserved := tokensOf(t, r)
		return reserved == 0 && r.Instances("rt")[0].InFlight() == 0
	})
}
