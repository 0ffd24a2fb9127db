package gateway_test

import (
	"bytes"
	"cmp"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// The roles, in the order of the columns of docs/roles.md.
var everyRole = [...]string{"VIEWER", "OPERATOR", "ADMIN", "TEAM_ADMIN", "MEMBER"}

// mayUse returns how a role may use an operation: yes, only for the own tenant or the own keys,
// or not at all.
func mayUse(role string, route *web.Route) string {
	var whole access.Role
	if whole.UnmarshalText([]byte(role)) == nil {
		if route.Permission == access.Anyone || whole.Holds(route.Permission) {
			return "yes"
		}
		return ""
	}
	var team access.TeamRole
	if err := team.UnmarshalText([]byte(role)); err != nil {
		return ""
	}
	switch {
	case route.Permission == access.Anyone:
		return "yes"
	case !route.Team.Valid() || team < route.Team:
		return ""
	case route.Team == access.TeamAdmin, route.Permission == "run:read" && team == access.TeamAdmin:
		return "tenant"
	}
	return "own"
}

// startRoles starts a gateway with a bearer of every role. bob leads the tenant red, and ann is
// a member of it.
func startRoles(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.StartWith(t, gatewaytest.Setup{
		YAML: gatewaytest.ChatYAML(gatewaytest.Instance("m", gatewaytest.StartBackend(t).URL())) + gatewaytest.SecuredYAML() + gatewaytest.QuotaOn,
		Wings: []wing.New{gatewaytest.People(gatewaytest.Person("bob", "red", access.TeamAdmin), gatewaytest.Person("ann", "red", access.Member),
			gatewaytest.Person("eve", "blue", access.TeamAdmin))},
	})
}

// presenting returns the header of a request of a role.
func presenting(role string) (header, value string) {
	switch role {
	case "TEAM_ADMIN":
		return gatewaytest.As("bob")
	case "MEMBER":
		return gatewaytest.As("ann")
	}
	return "Authorization", "Bearer " + strings.ToLower(role) + "-token"
}

// operations returns the routes that management has, in the order of their patterns.
func operations(routes []web.Route) (found []web.Route) {
	for _, route := range routes {
		if route.Permission != access.ByKey && !route.Undescribed {
			found = append(found, route)
		}
	}
	return found
}

// Every operation is called as every role, and docs/roles.md says what comes out. UPDATE=1
// writes the document.
func TestEveryOperationAsEveryRole(t *testing.T) {
	t.Parallel()
	r := startRoles(t)
	var table bytes.Buffer
	for _, route := range operations(r.Routes) {
		method, path, _ := strings.Cut(route.Pattern, " ")
		path = strings.ReplaceAll(path, "{tenant}", "red")
		path = gatewaytest.PathParameter.ReplaceAllString(path, "none-of-them") + "?dryRun=true"
		table.WriteString("| `" + route.Pattern + "` |")
		for _, role := range everyRole {
			header, value := presenting(role)
			response := r.Open(gatewaytest.Deadline(t), method, path, "{", header, value)
			_ = response.Body.Close()
			if may := mayUse(role, &route); (may == "") != (response.StatusCode == http.StatusForbidden) || response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusInternalServerError {
				t.Errorf("%s as %s: %d, the table says %q", route.Pattern, role, response.StatusCode, may)
			}
			table.WriteString(" " + mayUse(role, &route) + " |")
		}
		table.WriteString("\n")
		if header, value := gatewaytest.As("eve"); strings.Contains(route.Pattern, "{tenant}") && route.Team.Valid() {
			response := r.Open(gatewaytest.Deadline(t), method, path, "{", header, value)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusForbidden {
				t.Errorf("%s for another tenant: %d", route.Pattern, response.StatusCode)
			}
		}
	}
	gatewaytest.Needs(t, "answercache", "batches", "processes", "selfservice", "spend")
	compareTable(t, "../../docs/roles.md", strings.ReplaceAll(table.String(), "  |", " |"))
}

// compareTable compares the table at the end of a document, below its head.
func compareTable(t *testing.T, path, rows string) {
	t.Helper()
	const head = "|---|---|---|---|---|---|\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), head)
	if found && after == rows {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("the table of %s is not that of the operations; run UPDATE=1 go test ./internal/gateway -run TestEveryOperationAsEveryRole and read it", path)
	}
	if err := os.WriteFile(path, []byte(before+head+rows), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Nothing of one tenant is shown to, or changed by, people of another one, by any operation.
func TestTenantsNeverSeeEachOther(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "selfservice")
	r := startRoles(t)
	eveHeader, eve := gatewaytest.As("eve")
	r.SignIn(gatewaytest.Person("eve", "blue", access.TeamAdmin))
	var ids []string
	for _, path := range []string{"/api/me/keys", "/api/team/blue/keys"} {
		made := r.API(http.MethodPost, path, `{"name":"of-blue"}`, eveHeader, eve).Is(t, 201)
		_, rest, _ := strings.Cut(string(made.Data), `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		_, rest, _ = strings.Cut(string(made.Data), `"key":"`)
		key, _, _ := strings.Cut(rest, `"`)
		ids = append(ids, id)
		r.Chat(`{"model":"m","user":"of-blue","messages":[{"role":"user","content":"hi"}]}`, "Authorization", "Bearer "+key).Succeeds(t)
		gatewaytest.Eventually(t, "the call is seen by its tenant", func() bool {
			return strings.Contains(r.API(http.MethodGet, "/api/team/blue/calls", "", eveHeader, eve).Is(t, 200).Body, id)
		})
	}
	asked := 0
	// What is read comes first: the audit of red has the ids that its own people tried later.
	routes := operations(r.Routes)
	slices.SortStableFunc(routes, func(a, b web.Route) int {
		return cmp.Compare(strings.Index(a.Pattern, "GET "), strings.Index(b.Pattern, "GET ")) * -1
	})
	for _, route := range routes {
		if !route.Team.Valid() {
			continue
		}
		method, path, _ := strings.Cut(route.Pattern, " ")
		for _, role := range []string{"TEAM_ADMIN", "MEMBER"} {
			for _, id := range ids {
				filled := strings.ReplaceAll(strings.ReplaceAll(path, "{tenant}", "red"), "{id}", id)
				header, value := presenting(role)
				got := r.Do(method, filled, "{}", header, value)
				if strings.Contains(path, "{id}") && mayUse(role, &route) != "" && got.Status != http.StatusNotFound {
					t.Errorf("%s of a key of blue as %s: %d %s", route.Pattern, role, got.Status, got.Body)
				}
				for _, secret := range []string{"blue", "eve", id} {
					if strings.Contains(got.Body, secret) && !strings.Contains(filled, id) {
						t.Errorf("%s as %s tells of %s", route.Pattern, role, secret)
					}
				}
				asked++
			}
		}
	}
	if asked < 40 {
		t.Errorf("only %d questions were asked", asked)
	}
	for _, id := range ids {
		body := r.API(http.MethodGet, "/api/team/blue/keys", "", eveHeader, eve).Is(t, 200).Body
		if !strings.Contains(body, id) || strings.Contains(body, "REVOKED") || strings.Contains(body, "rotatedAt") {
			t.Errorf("a key of blue was changed: %s", body)
		}
	}
}
