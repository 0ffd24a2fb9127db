package access_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
)

func TestWhichKeysAreRemoved(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	settings := access.Settings{Enabled: true, Keys: []access.Key{{ID: "file", KeySHA256: access.HashOf("one")}}}
	keys := openKeys(t, path, settings)
	now := time.Now()
	change := access.Change{By: "ops", At: now}
	issueOf := func(text string) string {
		t.Helper()
		grant, refusal := keys.Guard().Identify(http.Header{"Authorization": {"Bearer " + text}}, now)
		if refusal != nil {
			t.Fatal(refusal)
		}
		return grant.Issue
	}
	text, _, err := keys.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{ID: "team", Terms: access.Terms{ExpiresAt: now.Add(time.Hour).Format(time.RFC3339)}}}, change)
	if err != nil {
		t.Fatal(err)
	}
	first, ofFile := issueOf(text), issueOf("one")
	expect := func(why, id, issue string, want bool) {
		t.Helper()
		if got := keys.IsRemoved(id, issue); got != want {
			t.Errorf("%s: %s is removed: %v", why, id, got)
		}
	}
	expect("in force", "team", first, false)
	expect("of the file", "file", ofFile, false)
	expect("never issued", "nobody", first, true)
	if _, _, err := keys.Keys.Rotate(t.Context(), "team", 0, change); err != nil {
		t.Fatal(err)
	}
	expect("rotated", "team", first, false)
	_, err = keys.Keys.Edit(t.Context(), "team", change, func(key access.IssuedKey) (access.Key, error) {
		key.ExpiresAt = now.Add(-time.Hour).Format(time.RFC3339)
		return key.Key, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expect("expired", "team", first, false)
	if err := keys.Keys.Revoke(t.Context(), "team", change); err != nil {
		t.Fatal(err)
	}
	expect("revoked", "team", first, true)
	again, _, err := keys.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{ID: "team"}}, change)
	if err != nil {
		t.Fatal(err)
	}
	expect("issued again", "team", first, true)
	expect("the new one", "team", issueOf(again), false)
	settings.Keys = nil
	keys = openKeys(t, path, settings)
	expect("out of the file", "file", ofFile, true)
	settings.Enabled = false
	keys = openKeys(t, path, settings)
	expect("keys are not required", "file", ofFile, false)
}
