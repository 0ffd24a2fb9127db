package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// attack is a request that got through another gateway.
type attack struct {
	as      string // whose credential it has: caller, viewer, operator, admin, or none
	request string // method and path
	headers []string
	body    string
	raw     string // the bytes of the request, in place of all others
	want    []int  // the statuses that it may get
}

const backendSecret, callerKey = "sk-canary-of-the-backend", "key-of-a-caller"

// credentials are the headers of those who attack.
var credentials = map[string][]string{
	"": nil, "caller": {"Authorization", "Bearer " + callerKey}, "viewer": {"Authorization", "Bearer viewer-token"},
	"operator": {"Authorization", "Bearer operator-token"}, "admin": {"Authorization", "Bearer admin-token"},
}

// Requests that got through other gateways get nothing here: each is refused or harmless.
// None changes anything, shows a secret, reaches an address that the caller chose, or writes a
// line of its own into the log.
func TestHolesOfOtherGatewaysAreClosed(t *testing.T) {
	t.Parallel()
	page := string(gatewaytest.ReadFile(t, "../../docs/holes.md"))
	listed := regexp.MustCompile("(?m)^\\| ([^|]+) \\|.*`TestHolesOfOtherGatewaysAreClosed` \\|$").FindAllStringSubmatch(page, -1)
	var names []string
	for _, match := range listed {
		names = append(names, match[1])
	}
	if known := slices.Sorted(maps.Keys(holes("", ""))); !slices.Equal(slices.Sorted(slices.Values(names)), known) {
		t.Errorf("docs/holes.md lists\n%q, and the test has\n%q", names, known)
	}
	for name := range holes("", "") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var trapped atomic.Int64
			trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { trapped.Add(1) }))
			defer trap.Close()
			b := gatewaytest.StartBackend(t)
			security := gatewaytest.SecuredYAML()
			security = security[:len(security)-2] + ", keys: [{id: k, key-sha256: " + gatewaytest.HashOf(callerKey) + "}]}\n"
			r := gatewaytest.StartWith(t, gatewaytest.Setup{
				YAML: security + gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "api-key: '${BACKEND_KEY}'"),
					gatewaytest.Instance("o", b.URL(), "adapter: ollama")),
				Env: []string{"BACKEND_KEY=" + backendSecret},
			})
			before := stateOf(r)
			for _, a := range holes(trap.URL, r.Address())[name] {
				reply := a.send(r)
				if !slices.Contains(a.want, reply.Status) {
					t.Errorf("%s %q as %q: %d, not one of %v: %s", a.request, a.raw, a.as, reply.Status, a.want, reply.Body)
				}
				gatewaytest.ContainsNone(t, fmt.Sprint(reply.Header)+reply.Body, backendSecret, gatewaytest.HashOf(callerKey), gatewaytest.HashOf("admin-token"), "root:x:0")
			}
			if n := trapped.Load(); n > 0 {
				t.Errorf("the gateway sent %d requests to an address of the attacker", n)
			}
			if after := stateOf(r); after != before {
				t.Errorf("before: %s\nafter: %s", before, after)
			}
			for line := range strings.Lines(r.Logs.String()) {
				var entry struct {
					Message string `json:"msg"`
				}
				if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Message == "forged" {
					t.Errorf("a line of the log: %v %q", err, line)
				}
			}
			gatewaytest.ContainsNone(t, r.Logs.String(), backendSecret, callerKey)
		})
	}
}

// stateOf returns what an attacker would like to change: versions, instances, keys and tokens.
func stateOf(r *gatewaytest.Gateway) string {
	state := ""
	for _, path := range []string{"/api/config/version", "/api/config/instance/type/chat", "/api/auth/keys", "/api/auth/tokens"} {
		state += r.Do(http.MethodGet, path, "", credentials["admin"]...).Succeeds(r.T).Body + "\n"
	}
	return regexp.MustCompile(`"(callsToday|lastUsed|lastUsedAt|health[A-Za-z]*|inFlight|timestamp)":("[^"]*"|[0-9]+|null),?`).ReplaceAllString(state, "")
}

// send sends the attack on a connection of its own and reads one answer.
func (a attack) send(r *gatewaytest.Gateway) gatewaytest.Reply {
	r.T.Helper()
	method, path, _ := strings.Cut(a.request, " ")
	text := a.raw
	if text == "" {
		fields := map[string]string{"Host": r.Address(), "Content-Type": "application/json"}
		for i := 0; i+1 < len(credentials[a.as]); i += 2 {
			fields[credentials[a.as][i]] = credentials[a.as][i+1]
		}
		for i := 0; i+1 < len(a.headers); i += 2 {
			fields[a.headers[i]] = a.headers[i+1]
		}
		text = method + " " + path + " HTTP/1.1\r\n"
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			text += name + ": " + fields[name] + "\r\n"
		}
		text += fmt.Sprintf("Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(a.body), a.body)
	}
	conn := r.DialRaw()
	if _, err := io.WriteString(conn, text); err != nil {
		r.T.Fatal(err)
	}
	from := bufio.NewReader(conn)
	reply := gatewaytest.ReadRaw(r.T, from, method)
	if rest, err := io.ReadAll(from); a.raw != "" && strings.Contains(string(rest), "HTTP/1.1 200") {
		r.T.Errorf("%q has a second answer: %q %v", a.raw, rest, err)
	}
	return reply
}
