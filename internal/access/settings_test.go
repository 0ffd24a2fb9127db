package access_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestRolesAreReadInAnyCase(t *testing.T) {
	for written, want := range map[string]access.Role{"ADMIN": access.Admin, "operator": access.Operator, "Viewer": access.Viewer} {
		var got access.Role
		if err := got.UnmarshalText([]byte(written)); err != nil || got != want || got.String() != strings.ToUpper(written) {
			t.Errorf("%s: %v, %v", written, got, err)
		}
	}
	err := new(access.Role).UnmarshalText([]byte("king"))
	if err == nil || err.Error() != `unknown role "king" (known: VIEWER, OPERATOR, ADMIN)` {
		t.Errorf("error %v", err)
	}
}

func TestSettingsRules(t *testing.T) {
	const (
		wantHost  = "want a host name without a port, such as patchbay.example.com"
		wantLimit = "must be from 0 to 1000000000000, or -1 for no limit"
		wantRange = "want an address or a range such as 10.0.0.0/8"
		wantHash  = "want a SHA-256 as 64 lower-case hexadecimal digits"
	)
	hash := strings.Repeat("0a", 32)
	for name, test := range map[string]struct {
		settings access.Settings
		want     []string
	}{
		"defaults": {access.DefaultSettings(), nil},
		"good": {access.Settings{
			Tokens: []access.Token{{"a", access.Admin, hash}, {"b", access.Viewer, strings.Repeat("1", 64)}},
			Keys:   []access.Key{{ID: "a", KeySHA256: hash, Terms: access.Terms{ExpiresAt: "2030-01-01T00:00:00+01:00"}}},
		}, nil},
		"missing": {
			access.Settings{Tokens: make([]access.Token, 1), Keys: make([]access.Key, 1)},
			[]string{"tokens[0].name is required", "tokens[0].role is required (ADMIN, OPERATOR or VIEWER)", "tokens[0].tokenSha256 is required",
				"keys[0].id is required", "keys[0].keySha256 is required"},
		},
		"twice": {
			access.Settings{
				Tokens: []access.Token{{"a", access.Admin, hash}, {"a", access.Admin, hash}},
				Keys:   []access.Key{{ID: "k", KeySHA256: hash}, {ID: "k", KeySHA256: hash}},
			},
			[]string{"tokens[1].name is the same as in tokens[0]", "tokens[1].tokenSha256 is the same as in tokens[0]",
				"keys[1].id is the same as in keys[0]", "keys[1].keySha256 is the same as in keys[0]"},
		},
		"upper case hash": {
			access.Settings{Tokens: []access.Token{{"a", access.Admin, strings.ToUpper(hash)}}},
			[]string{"tokens[0].tokenSha256 " + wantHash},
		},
		"hosts": {
			access.Settings{AllowedHosts: []string{"patchbay.example.com", "", "a:80", "http://a", "*.a", "a b"}},
			[]string{"allowedHosts[1] " + wantHost, "allowedHosts[2] " + wantHost, "allowedHosts[3] " + wantHost,
				"allowedHosts[4] " + wantHost, "allowedHosts[5] " + wantHost},
		},
		"hash of wrong letters": {
			access.Settings{Keys: []access.Key{{ID: "a", KeySHA256: "/" + hash[1:]}, {ID: "b", KeySHA256: ":" + hash[1:]}, {ID: "c", KeySHA256: "`" + hash[1:]}, {ID: "d", KeySHA256: "g" + hash[1:]}, {ID: "e", KeySHA256: "09af" + hash[4:]}}},
			[]string{"keys[0].keySha256 " + wantHash, "keys[1].keySha256 " + wantHash, "keys[2].keySha256 " + wantHash, "keys[3].keySha256 " + wantHash},
		},
		"hash of another length": {
			access.Settings{Keys: []access.Key{{ID: "a", KeySHA256: hash[1:]}, {ID: "b", KeySHA256: hash + "0"}}},
			[]string{"keys[0].keySha256 " + wantHash, "keys[1].keySha256 " + wantHash},
		},
		"limits": {
			access.Settings{
				Tenants: []access.Tenant{{Name: "a"}, {Name: "a", Terms: access.Terms{Limits: allowance.Limits{RequestsPerMinute: -2}, Budgets: budget.Budgets{Month: budget.Budget{Tokens: -2}}}}, {}},
				Defaults: access.Terms{
					Addresses: []string{"10.0.0.0/8", "::1", "10.0.0.0/33", "fe80::1%eth0", "here"},
					Limits:    allowance.Limits{TokensPerMinute: 1e12 + 1, ConcurrentRequests: -1},
				},
			},
			[]string{"tenants[1].name is the same as in tenants[0]", "tenants[1].limits.requestsPerMinute " + wantLimit, "tenants[1].budgets.month.tokens must be from 0 to 1000000000000000, or -1 for none", "tenants[2].name is required",
				"defaults.addresses[2] " + wantRange, "defaults.addresses[3] " + wantRange, "defaults.addresses[4] " + wantRange,
				"defaults.limits.tokensPerMinute " + wantLimit},
		},
		"scope": {
			access.Settings{Keys: []access.Key{{
				ID: "k", KeySHA256: hash, Terms: access.Terms{Services: []schema.ServiceType{schema.TTS, schema.TTS}, Models: []string{""}, ExpiresAt: "2030-01-01"},
			}}},
			[]string{"keys[0].services[1] tts is listed twice", "keys[0].models[0] must not be empty",
				`keys[0].expiresAt want a time such as "2030-01-31T00:00:00Z"`},
		},
	} {
		var got []string
		test.settings.Check(func(path string, fault say.Sentence) { got = append(got, path+" "+fault.String()) })
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func terms() access.Terms {
	return access.Terms{
		Services: []schema.ServiceType{schema.Chat}, Models: []string{"m"}, Addresses: []string{"10.0.0.0/8"}, ExpiresAt: "2030-01-01T00:00:00Z",
		Limits:  allowance.Limits{RequestsPerMinute: 1, TokensPerMinute: 2, ConcurrentRequests: 3},
		Budgets: budget.Budgets{Day: budget.Budget{Requests: 4}, Month: budget.Budget{Tokens: 5}, Total: budget.Budget{Cost: 6}},
	}
}

// full returns settings in which every field has a value.
func full() access.Settings {
	return access.Settings{
		Enabled: true, AllowOpen: true, AllowedHosts: []string{"a.example.com"},
		Tokens: []access.Token{{Name: "t", Role: access.Viewer, TokenSHA256: "1"}},
		Keys: []access.Key{{
			ID: "k", Tenant: "acme", KeySHA256: "2", Terms: terms(),
		}},
		Tenants: []access.Tenant{{Name: "acme", Terms: terms()}}, Defaults: terms(),
	}
}

func TestSettingsAreEqualInEveryField(t *testing.T) {
	if !settings.Equal(full(), full()) || !settings.Equal(settings.Clone(full()), full()) {
		t.Error("the same settings are not equal")
	}
	for name, change := range map[string]func(*access.Settings){
		"enabled":      func(s *access.Settings) { s.Enabled = false },
		"allowOpen":    func(s *access.Settings) { s.AllowOpen = false },
		"allowedHosts": func(s *access.Settings) { s.AllowedHosts[0] = "b.example.com" },
		"no hosts":     func(s *access.Settings) { s.AllowedHosts = nil },
		"token":        func(s *access.Settings) { s.Tokens[0].Role = access.Admin },
		"keys":         func(s *access.Settings) { s.Keys = nil },
		"addresses":    func(s *access.Settings) { s.Keys[0].Addresses[0] = "10.0.0.0/9" },
		"limits":       func(s *access.Settings) { s.Keys[0].Limits.TokensPerMinute = 9 },
		"budgets":      func(s *access.Settings) { s.Keys[0].Budgets.Month.Tokens = 9 },
		"tenants":      func(s *access.Settings) { s.Tenants = nil },
		"tenant name":  func(s *access.Settings) { s.Tenants[0].Name = "other" },
		"tenant terms": func(s *access.Settings) { s.Tenants[0].Models[0] = "other" },
		"defaults":     func(s *access.Settings) { s.Defaults.Models[0] = "other" },
		"id":           func(s *access.Settings) { s.Keys[0].ID = "other" },
		"tenant":       func(s *access.Settings) { s.Keys[0].Tenant = "other" },
		"hash":         func(s *access.Settings) { s.Keys[0].KeySHA256 = "other" },
		"services":     func(s *access.Settings) { s.Keys[0].Services[0] = schema.TTS },
		"models":       func(s *access.Settings) { s.Keys[0].Models[0] = "other" },
		"expiresAt":    func(s *access.Settings) { s.Keys[0].ExpiresAt = "" },
	} {
		original := full()
		changed := settings.Clone(original)
		change(&changed)
		if settings.Equal(changed, full()) || settings.Equal(full(), changed) {
			t.Errorf("%s: other settings are equal", name)
		}
		if !settings.Equal(original, full()) {
			t.Errorf("%s: the change of a copy changed the original", name)
		}
	}
}

func TestRolesByName(t *testing.T) {
	for role, want := range map[access.Role]string{0: "", access.Viewer: "VIEWER", access.Operator: "OPERATOR", access.Admin: "ADMIN", access.Admin + 1: ""} {
		if text, err := role.MarshalText(); err != nil || string(text) != want || role.Valid() != (want != "") {
			t.Errorf("%d is written as %q, %v; valid: %t", role, text, err, role.Valid())
		}
	}
	if names := access.Admin.Names(); !slices.Equal(names, []string{"VIEWER", "OPERATOR", "ADMIN"}) {
		t.Errorf("names %v", names)
	}
}
