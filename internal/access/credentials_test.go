package access_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

func openKeys(t *testing.T, path string, s access.Settings) *access.Credentials {
	t.Helper()
	dir, err := durable.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := access.OpenCredentials(dir, s, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func lets(k *access.Credentials, key string) bool {
	guard := k.Guard()
	if guard == nil {
		return true
	}
	_, err := guard.Identify(http.Header{"Authorization": {"Bearer " + key}}, time.Now())
	return err == nil
}

func TestIssuedKeysWorkAtOnceAndAreStoredAsHashesOnly(t *testing.T) {
	path := t.TempDir()
	secured := access.Settings{Enabled: true}
	keys := openKeys(t, path, secured)
	if !keys.Guard().IsVacant() || lets(keys, "") || lets(keys, "any") {
		t.Error("callers are let in without a key")
	}
	if openKeys(t, t.TempDir(), access.Settings{Enabled: true, AllowKeyless: true}).Guard() != nil {
		t.Error("there is a guard without a key")
	}
	text, issued, err := keys.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{Tenant: "acme", Terms: access.Terms{Services: []schema.ServiceType{schema.Chat}}}}, access.Change{By: "ops", At: time.Now()})
	if err != nil || !strings.HasPrefix(text, "pb-") || len(text) != 3+43 || issued.ID == "" {
		t.Fatalf("%q %+v %v", text, issued, err)
	}
	if !lets(keys, text) || lets(keys, "pb-wrong") || lets(keys, issued.KeySHA256) {
		t.Error("the key is not in force, or another one is")
	}
	file := filepath.Join(path, "keys.json")
	content, err := os.ReadFile(file)
	info, _ := os.Stat(file)
	if err != nil || strings.Contains(string(content), text) || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v %s", err, info.Mode(), content)
	}
	again := openKeys(t, path, secured)
	if !lets(again, text) {
		t.Error("a restart forgets the key")
	}
	if err := again.Keys.Revoke(t.Context(), issued.ID, access.Change{By: "ops", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if lets(again, text) || again.Guard() == nil {
		t.Error("the last key is revoked and everybody is let in")
	}
	if last := openKeys(t, path, secured); lets(last, text) || last.Guard() == nil {
		t.Error("a restart forgets that the key is revoked")
	}
}

func TestKeysThatCannotBeIssuedOrRevoked(t *testing.T) {
	keys := openKeys(t, t.TempDir(), access.Settings{Enabled: true, Keys: []access.Key{{ID: "static", KeySHA256: strings.Repeat("0a", 32)}}})
	issue := func(id string) error {
		_, _, err := keys.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{ID: id}}, access.Change{By: "ops", At: time.Now()})
		return err
	}
	if err := issue("a"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name      string
		got, want error
	}{ // one after the other
		{"twice", issue("a"), access.ErrExists},
		{"of the file", issue("static"), access.ErrExists},
		{"revoke the file's", keys.Keys.Revoke(t.Context(), "static", access.Change{By: "ops", At: time.Now()}), nil},
		{"revoke unknown", keys.Keys.Revoke(t.Context(), "nobody", access.Change{By: "ops", At: time.Now()}), access.ErrUnknown},
		{"revoke, dry", keys.Keys.Revoke(t.Context(), "a", access.Change{By: "ops", At: time.Now(), DryRun: true}), nil},
		{"revoke", keys.Keys.Revoke(t.Context(), "a", access.Change{By: "ops", At: time.Now()}), nil},
		{"revoke again", keys.Keys.Revoke(t.Context(), "a", access.Change{By: "ops", At: time.Now()}), access.ErrRevoked},
	} {
		if !errors.Is(step.got, step.want) {
			t.Errorf("%s: %v, want %v", step.name, step.got, step.want)
		}
	}
	if err := issue("a"); err != nil {
		t.Errorf("the id of a revoked key: %v", err)
	}
}

func TestDamagedKeysAreNoKeys(t *testing.T) {
	for _, damage := range []string{"", "x", `{"keys":[{"id":"a"}]}`, `{"keys":[],"more":1}`} {
		path := t.TempDir()
		if err := os.WriteFile(filepath.Join(path, "keys.json"), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		dir, _ := durable.Open(path)
		if _, err := access.OpenCredentials(dir, access.Settings{}, slog.New(slog.DiscardHandler), nil); err == nil {
			t.Errorf("%q is taken for keys", damage)
		}
	}
}

func TestMasks(t *testing.T) {
	for secret, want := range map[string]string{"": "", "a": "****", "12345678": "****", "123456789": "****6789", "sk-long-secret-wxyz": "****wxyz"} {
		if got := access.Mask(secret); got != want || secret != "" && !access.IsMask(got) {
			t.Errorf("the mask of %q is %q, want %q", secret, got, want)
		}
	}
	for _, text := range []string{"", "sk-1", "***1", "****12345"} {
		if access.IsMask(text) {
			t.Errorf("%q is taken for a mask", text)
		}
	}
}

func TestRolesHoldTheirPermissions(t *testing.T) {
	for _, test := range []struct {
		role access.Role
		code access.Permission
		want bool
	}{
		{access.Admin, access.ManageKeys, true}, {access.Admin, access.WriteQuota, true}, {access.Operator, access.WriteQuota, true},
		{access.Operator, access.ReadQuotaUsage, true}, {access.Operator, access.ManageKeys, false}, {access.Viewer, access.ReadQuota, true},
		{access.Viewer, access.WriteQuota, false}, {access.Viewer, access.ManageKeys, false}, {0, access.ReadModels, false},
	} {
		if got := test.role.Holds(test.code); got != test.want {
			t.Errorf("%s and %s: %t", test.role, test.code, got)
		}
	}
}

func TestOnlyOneWholeBearerTokenIdentifies(t *testing.T) {
	const hashOfFoo = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
	roster := openKeys(t, t.TempDir(), access.Settings{Enabled: true, Tokens: []access.Token{{Name: "ops", Role: access.Operator, TokenSHA256: hashOfFoo}}}).Roster()
	for _, test := range []struct {
		given []string
		want  bool
	}{
		{nil, false}, {[]string{""}, false}, {[]string{"Bearer foo"}, true}, {[]string{"bearer foo"}, true}, {[]string{"Bearer  foo "}, true},
		{[]string{"Basic foo"}, false}, {[]string{"foo"}, false}, {[]string{"Bearer foo", "Bearer foo"}, false}, {[]string{"Bearer foo, Bearer foo"}, false},
		{[]string{"Bearer " + hashOfFoo}, false}, {[]string{"Bearer " + strings.Repeat("x", 9000)}, false},
	} {
		who, ok, _ := roster.Identify(http.Header{"Authorization": test.given}, time.Now())
		if ok != test.want || ok && (who.Name != "ops" || who.SeesSecrets) {
			t.Errorf("%q: %+v %t", test.given, who, ok)
		}
	}
	if openKeys(t, t.TempDir(), access.Settings{}).Roster() != nil {
		t.Error("an open gateway has a roster")
	}
}

// Keys that had an id one after the other are told apart, also where all of it happens
// within a second; a rotated key is the same one.
func TestKeysThatAreIssuedAgainAreOtherKeys(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	settings := access.Settings{Enabled: true, Keys: []access.Key{{ID: "file", KeySHA256: access.HashOf("one")}}}
	keys := openKeys(t, path, settings)
	now := time.Date(2030, 1, 1, 0, 0, 0, 5, time.UTC)
	change := access.Change{By: "ops", At: now}
	grantOf := func(keys *access.Credentials, text string) *access.Grant {
		t.Helper()
		grant, err := keys.Guard().Identify(http.Header{"Authorization": {"Bearer " + text}}, now)
		if err != nil {
			t.Fatal(err)
		}
		return grant
	}
	issues := map[string]bool{}
	var last time.Time
	for range 3 {
		text, _, err := keys.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{ID: "team"}}, change)
		if err != nil {
			t.Fatal(err)
		}
		issued := grantOf(keys, text)
		if issues[issued.Issue] || !issued.Since.After(last) {
			t.Errorf("the issue %s since %s is one of %v until %s", issued.Issue, issued.Since, issues, last)
		}
		issues[issued.Issue], last = true, issued.Since
		rotated, _, err := keys.Keys.Rotate(t.Context(), "team", time.Hour, change)
		if err != nil {
			t.Fatal(err)
		}
		for _, again := range []*access.Grant{grantOf(keys, rotated), grantOf(keys, text), grantOf(openKeys(t, path, settings), rotated)} {
			if again.Issue != issued.Issue || !again.Since.Equal(issued.Since) {
				t.Errorf("after a rotation %s since %s", again.Issue, again.Since)
			}
		}
		if err := keys.Keys.Revoke(t.Context(), "team", change); err != nil {
			t.Fatal(err)
		}
	}
	one := grantOf(keys, "one")
	settings.Keys[0].KeySHA256 = access.HashOf("two")
	two := grantOf(openKeys(t, t.TempDir(), settings), "two")
	if one.Issue == "" || one.Issue == two.Issue || !one.Since.IsZero() || strings.Contains(access.HashOf("one"), strings.TrimPrefix(one.Issue, "file-")) {
		t.Errorf("of the file: %s and %s", one.Issue, two.Issue)
	}
}

// Where keys are known and not required, a good key has its grant, and others are guests.
func TestGuestsAreLetInBesideKnownKeys(t *testing.T) {
	hash := sha256.Sum256([]byte("sk-shop"))
	keys := openKeys(t, t.TempDir(), access.Settings{Keys: []access.Key{{ID: "shop", Tenant: "acme", KeySHA256: hex.EncodeToString(hash[:])}}})
	callers := access.Callers{Credentials: keys}
	identify := func(header http.Header) *access.Grant {
		t.Helper()
		grant, refusal := callers.Identify(header, netip.MustParseAddr("127.0.0.1"))
		if refusal != nil {
			t.Errorf("%v: %v", header, refusal)
		}
		return grant
	}
	known, wrong := http.Header{"Authorization": {"Bearer sk-shop"}}, http.Header{"Authorization": {"Bearer sk-other"}}
	if identify(known) != nil {
		t.Error("the key is known without a book")
	}
	keys.SetBook(budget.New(budget.Options{}))
	if grant := identify(known); grant == nil || grant.Tenant != "acme" {
		t.Errorf("the key has the grant %+v", grant)
	}
	if identify(wrong) != nil || identify(http.Header{}) != nil || callers.Needed() {
		t.Error("a guest has a grant, or needs one")
	}
	if _, isGood := callers.Bearer("", "", ""); !isGood {
		t.Error("the work of a guest does not go on")
	}
	if _, isGood := callers.Bearer("gone", "", ""); isGood {
		t.Error("the work of a key that is gone goes on")
	}
}
