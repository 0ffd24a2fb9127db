package access_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/schema"
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
	hash := strings.Repeat("0a", 32)
	for name, test := range map[string]struct {
		settings access.Settings
		want     []string
	}{
		"defaults": {access.DefaultSettings(), nil},
		"good": {access.Settings{
			Tokens: []access.Token{{"a", access.Admin, hash}, {"b", access.Viewer, strings.Repeat("1", 64)}},
			Keys:   []access.Key{{ID: "a", KeySHA256: hash, ExpiresAt: "2030-01-01T00:00:00+01:00"}},
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
			[]string{"tokens[0].tokenSha256 want a SHA-256 as 64 lower-case hexadecimal digits"},
		},
		"scope": {
			access.Settings{Keys: []access.Key{{
				ID: "k", KeySHA256: hash, Services: []schema.ServiceType{schema.TTS, schema.TTS}, Models: []string{""}, ExpiresAt: "2030-01-01",
			}}},
			[]string{"keys[0].services[1] tts is listed twice", "keys[0].models[0] must not be empty",
				`keys[0].expiresAt want a time such as "2030-01-31T00:00:00Z"`},
		},
	} {
		var got []string
		test.settings.Check(func(path, message string) { got = append(got, path+" "+message) })
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
