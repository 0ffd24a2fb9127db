package access_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

const archiveKey = "a master key of thirty-two characters"

// valueOf returns the stored record of a key or a token.
func valueOf(t *testing.T, record map[string]any) access.StoredValue {
	t.Helper()
	text, err := json.Marshal(record, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return access.StoredValue{Data: text}
}

// restoredKeys opens credentials with the values of a backup without a signature.
func restoredKeys(t *testing.T, backup map[string]access.StoredValue) *access.Credentials {
	t.Helper()
	keys, err := seal.New(archiveKey, "")
	if err != nil {
		t.Fatal(err)
	}
	values, err := access.Restored(backup, nil, keys, "r")
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	if err := access.WriteStored(durable.At(path), values); err != nil {
		t.Fatal(err)
	}
	return openKeys(t, path, access.Settings{Enabled: true, MasterKey: archiveKey})
}

// A rotation by the owner of a key, or an edit, leaves it disabled. An administrator enables it.
func TestOnlyAnAdministratorEnablesByRotation(t *testing.T) {
	t.Parallel()
	now := time.Now()
	owner, admin := access.Change{By: "owner", At: now}, access.Change{By: "admin", At: now, MayEnable: true}
	for name, test := range map[string]struct {
		do   func(*access.Credentials) (text string, err error)
		want string
	}{
		"the owner rotates": {func(c *access.Credentials) (string, error) {
			text, _, err := c.Keys.Rotate(t.Context(), "k", 0, owner)
			return text, err
		}, "DISABLED"},
		"an administrator rotates": {func(c *access.Credentials) (string, error) {
			text, _, err := c.Keys.Rotate(t.Context(), "k", 0, admin)
			return text, err
		}, "ACTIVE"},
		"an administrator edits": {func(c *access.Credentials) (string, error) {
			_, err := c.Keys.Edit(t.Context(), "k", admin, func(k access.IssuedKey) (access.Key, error) { return k.Key, nil })
			return "text", err
		}, "DISABLED"},
		"an administrator enables": {func(c *access.Credentials) (string, error) {
			_, err := c.Keys.Enable(t.Context(), "k", admin)
			return "text", err
		}, "ACTIVE"},
	} {
		c := restoredKeys(t, map[string]access.StoredValue{"key/k": valueOf(t, map[string]any{
			"id": "k", "keySha256": access.HashOf("text"), "createdAt": "2026-01-01T00:00:00Z", "createdBy": "x", "disabled": false,
		})})
		if status := c.Keys.List()[0].Status(now); status != "DISABLED" || c.IsRemoved("k", "at-2026-01-01T00:00:00Z") {
			t.Errorf("%s: before, the key is %s, removed: %v", name, status, c.IsRemoved("k", "at-2026-01-01T00:00:00Z"))
		}
		text, err := test.do(c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, refusal := c.Guard().Identify(http.Header{"Authorization": {"Bearer " + text}}, now)
		if status := c.Keys.List()[0].Status(now); status != test.want || (refusal == nil) != (test.want == "ACTIVE") {
			t.Errorf("%s: the key is %s, want %s; refused: %v", name, status, test.want, refusal)
		}
	}
}

// Records that are crafted to stay enabled are disabled or refused.
func TestCraftedRecordsAreDisabled(t *testing.T) {
	t.Parallel()
	keys, err := seal.New(archiveKey, "")
	if err != nil {
		t.Fatal(err)
	}
	token := map[string]any{"name": "t", "role": "ADMIN", "tokenSha256": access.HashOf("text"), "createdAt": "2026-01-01T00:00:00Z", "createdBy": "x"}
	for name, change := range map[string]func(map[string]any){
		"as it is":    func(map[string]any) {},
		"enabled":     func(r map[string]any) { r["disabled"] = false },
		"of the file": func(r map[string]any) { r["static"] = true },
	} {
		record := maps.Clone(token)
		change(record)
		c := restoredKeys(t, map[string]access.StoredValue{"token/t": valueOf(t, record)})
		if _, isKnown, _ := c.Roster().Identify(http.Header{"Authorization": {"Bearer text"}}, time.Now()); isKnown {
			t.Errorf("a token %s is good", name)
		}
	}
	twice := `{"name":"t","role":"ADMIN","tokenSha256":"` + access.HashOf("text") + `","disabled":true,"disabled":false}`
	if _, err := access.Restored(map[string]access.StoredValue{"token/t": {Data: []byte(twice)}}, nil, keys, "r"); err == nil {
		t.Error("a record with a member twice is restored")
	}
}

// The key of sessions is another one after a restore, while that for the ids of tokens' subjects stays.
func TestARestoreMakesANewKeyOfSessions(t *testing.T) {
	t.Parallel()
	const key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	before := map[string]access.StoredValue{"session/key": {Data: []byte(`{"key":"` + key + `"}`)}, "sealed/session": {Data: []byte(`{"sealed":"x"}`)}}
	first, err := access.Restored(before, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	again, err := access.Restored(first, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if subjects := string(first["session/subjects"].Data); subjects == "" || subjects != string(again["session/subjects"].Data) {
		t.Errorf("the key of the ids is %s, then %s", subjects, again["session/subjects"].Data)
	}
	if a, b := string(first["session/key"].Data), string(again["session/key"].Data); a == "" || a == b || strings.Contains(a, key) {
		t.Errorf("the keys of sessions are %s and %s", a, b)
	}
	if _, has := first["sealed/session"]; has {
		t.Error("the sealed key of sessions is restored")
	}
}

// What an unsigned restore has brought takes the place of nothing in a signed backup, however late it is, unless it is revoked.
func TestADisabledRecordReplacesNothing(t *testing.T) {
	t.Parallel()
	keys, err := seal.New(archiveKey, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ disabled, revoked, want string }{
		"a rotation of the place":              {"", "", "place"},
		"a rotation of an unsigned backup":     {"r", "", "backup"},
		"a revocation that the backup brought": {"r", "2026-02-01T00:00:00Z", "place"},
	} {
		record := func(text string, more map[string]any) access.StoredValue {
			maps.Copy(more, map[string]any{"id": "k", "keySha256": access.HashOf(text), "createdAt": "2026-01-01T00:00:00Z", "createdBy": "x"})
			value := valueOf(t, more)
			value.Signatures = []string{keys.SignValue("key/k", value.Data)}
			return value
		}
		more := map[string]any{"rotatedAt": "2026-02-01T00:00:00Z"}
		if test.disabled != "" {
			more["disabled"] = test.disabled
		}
		if test.revoked != "" {
			more["revokedAt"] = test.revoked
		}
		values, err := access.Restored(map[string]access.StoredValue{"key/k": record("backup", map[string]any{})},
			map[string]access.StoredValue{"key/k": record("place", more)}, keys, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := string(values["key/k"].Data); !strings.Contains(got, access.HashOf(test.want)) {
			t.Errorf("%s: the record is %s, want that of the %s", name, got, test.want)
		}
	}
}

// A confirmation that is killed between its two files leaves the old records with the new signatures.
func TestAConfirmationCanBeRepeated(t *testing.T) {
	t.Parallel()
	keys, err := seal.New(archiveKey, "")
	if err != nil {
		t.Fatal(err)
	}
	disabled := valueOf(t, map[string]any{"id": "k", "keySha256": access.HashOf("k"), "createdAt": "2026-01-01T00:00:00Z", "createdBy": "x", "disabled": "r"})
	disabled.Signatures = []string{keys.SignValue("key/k", disabled.Data)}
	for range 2 {
		enabled, err := access.Confirmed(map[string]access.StoredValue{"key/k": disabled}, keys, "r")
		if err != nil || len(enabled) != 1 || strings.Contains(string(enabled["key/k"].Data), "disabled") {
			t.Fatalf("confirmed: %v, %v", enabled, err)
		}
		disabled.Signatures = enabled["key/k"].Signatures
	}
}
