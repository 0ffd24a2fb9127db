package access_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

func TestNamesThatCanStandInAPath(t *testing.T) {
	problems := func(check func(report func(path string, fault say.Sentence))) (fields []string) {
		check(func(path string, _ say.Sentence) { fields = append(fields, path) })
		return fields
	}
	const plain = "-_.:0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for r := rune(0); r < 0x180; r++ {
		id := access.Key{ID: "a" + string(r)}
		if good := len(problems(id.Check)) == 0; good != strings.ContainsRune(plain, r) {
			t.Errorf("the letter %q is good: %t", r, good)
		}
	}
	long := strings.Repeat("x", 128)
	for _, test := range []struct {
		check func(report func(path string, fault say.Sentence))
		want  []string
	}{
		{access.Key{}.Check, nil}, // it gets an id
		{access.Key{ID: long, Tenant: long}.Check, nil},
		{access.Key{ID: ".."}.Check, []string{"id"}},
		{access.Key{ID: "."}.Check, []string{"id"}},
		{access.Key{ID: "...", Tenant: "ä/ö & co."}.Check, nil},
		{access.Key{Tenant: "a\x00b"}.Check, []string{"tenant"}},
		{access.Key{Tenant: "a\xffb"}.Check, []string{"tenant"}},
		{access.IssuedToken{Token: access.Token{Name: "..", Role: access.Viewer}}.Check, []string{"name"}},
		{access.Key{ID: long + "x", Tenant: long + "x"}.Check, []string{"id", "tenant"}},
		{access.Key{Terms: access.Terms{ExpiresAt: "tomorrow"}}.Check, []string{"expiresAt"}},
		{access.IssuedToken{Token: access.Token{Name: long, Role: access.Viewer}}.Check, nil},
		{access.IssuedToken{Token: access.Token{Name: long + "x"}, ExpiresAt: "tomorrow"}.Check, []string{"name", "role", "expiresAt"}},
	} {
		if got := problems(test.check); !slices.Equal(got, test.want) {
			t.Errorf("problems of %v, want %v", got, test.want)
		}
	}
}

// A record in the file of this gateway alone is whole, or the gateway does not start.
func TestStoredRecordsAreChecked(t *testing.T) {
	hash := access.HashOf("secret")
	for _, test := range []struct {
		values string
		good   bool
	}{
		{`"key/k":{"id":"k","keySha256":"` + hash + `"},"token/t":{"name":"t","role":"ADMIN","tokenSha256":"` + hash + `"}`, true},
		{`"key/k":{"id":"other","keySha256":"` + hash + `"}`, false},
		{`"key/k":{"id":"k","keySha256":"x"}`, false},
		{`"key/k":{"id":"k","keySha256":"` + hash + `","more":1}`, false},
		{`"token/t":{"name":"other","role":"ADMIN","tokenSha256":"` + hash + `"}`, false},
		{`"token/t":{"name":"t","role":"ADMIN","tokenSha256":"x"}`, false},
		{`"token/t":{"name":"t","role":"ADMIN","tokenSha256":"` + hash + `","expiresAt":"tomorrow"}`, false},
		{`"token/t":{"name":"t","role":"ADMIN","tokenSha256":"` + hash + `","more":1}`, false},
		{`"other/t":{}`, false},
	} {
		path := t.TempDir()
		if err := os.WriteFile(filepath.Join(path, "keys.json"), []byte(`{"values":{`+test.values+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		dir, err := durable.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := access.OpenCredentials(dir, access.Settings{}, slog.New(slog.DiscardHandler), nil); (err == nil) != test.good {
			t.Errorf("%s: %v", test.values, err)
		}
	}
}

// A key of the file is listed once, and as revoked only while it is the one that
// was revoked.
func TestKeysOfTheFileAreListedWithTheirState(t *testing.T) {
	path := t.TempDir()
	settings := func(text string) access.Settings {
		return access.Settings{Enabled: true, Keys: []access.Key{{ID: "file", KeySHA256: access.HashOf(text)}}}
	}
	states := func(c *access.Credentials) string {
		var all []string
		for _, key := range c.Keys.List() {
			all = append(all, key.ID+" "+key.Source+" "+key.Status(time.Now()))
		}
		return strings.Join(all, ", ")
	}
	c := openKeys(t, path, settings("one"))
	if _, _, err := c.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{ID: "issued"}}, access.Change{By: "ops", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if got := states(c); got != "file config ACTIVE, issued issued ACTIVE" {
		t.Errorf("keys %s", got)
	}
	if err := c.Keys.Revoke(t.Context(), "file", access.Change{By: "ops", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := c.Keys.Revoke(t.Context(), "file", access.Change{By: "ops", At: time.Now()}); !errors.Is(err, access.ErrRevoked) {
		t.Errorf("revoked again: %v", err)
	}
	if got := states(c); got != "file config REVOKED, issued issued ACTIVE" {
		t.Errorf("keys after the file's was revoked %s", got)
	}
	renewed := openKeys(t, path, settings("two"))
	if got := states(renewed); got != "file config ACTIVE, issued issued ACTIVE" || !lets(renewed, "two") {
		t.Errorf("keys after the file's was replaced %s", got)
	}
	if err := renewed.Keys.Revoke(t.Context(), "file", access.Change{By: "ops", At: time.Now()}); err != nil || lets(renewed, "two") {
		t.Errorf("the key that took its place cannot be revoked: %v", err)
	}
	removed := openKeys(t, path, access.Settings{Enabled: true})
	if got := states(removed); !strings.Contains(got, "file issued REVOKED") {
		t.Errorf("keys after the file has none %s", got)
	}
}

func TestTokensThatCannotBeChanged(t *testing.T) {
	log := &fakeLog{values: map[string][]byte{"token/new": []byte(`{"name":"new","limit":1}`)}}
	c := log.join(openKeys(t, t.TempDir(), access.Settings{Enabled: true}))
	if _, _, err := c.Tokens.Issue(t.Context(), access.IssuedToken{Token: access.Token{Name: "t", Role: access.Viewer}}, access.Change{By: "ops", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	rotate := func(name string) error {
		_, _, err := c.Tokens.Rotate(t.Context(), name, access.Change{At: time.Now()})
		return err
	}
	revoke := func(name string) error {
		return c.Tokens.Revoke(t.Context(), name, access.Change{By: "ops", At: time.Now()})
	}
	unreadable := func(err error) bool {
		return err != nil && strings.HasSuffix(err.Error(), "was written by another release and cannot be read")
	}
	if err := rotate("new"); !unreadable(err) {
		t.Errorf("rotate one that cannot be read: %v", err)
	}
	if err := revoke("new"); !unreadable(err) {
		t.Errorf("revoke one that cannot be read: %v", err)
	}
	for _, change := range []func(string) error{rotate, revoke} {
		if err := change("nobody"); !errors.Is(err, access.ErrUnknown) {
			t.Errorf("change one that does not exist: %v", err)
		}
	}
	if err := revoke("t"); err != nil {
		t.Errorf("revoke: %v", err)
	}
	for _, change := range []func(string) error{rotate, revoke} {
		if err := change("t"); !errors.Is(err, access.ErrRevoked) {
			t.Errorf("change one that is revoked: %v", err)
		}
	}
}

// What the log says is in force; what could not be read or stored is logged.
func TestFaultsOfSharedCredentialsAreLogged(t *testing.T) {
	path := t.TempDir()
	dir, err := durable.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	c, err := access.OpenCredentials(dir, access.Settings{Enabled: true}, slog.New(slog.NewTextHandler(&logged, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	log := &fakeLog{values: map[string][]byte{}}
	c.Share(log)
	good := func(text string) []byte { return []byte(`{"id":"k","keySha256":"` + access.HashOf(text) + `"}`) }
	file := filepath.Join(path, "keys.json")
	c.Take("log", true, trusted(map[string][]byte{"key/k": good("one"), "quota/x": []byte(`{}`)}))
	if !lets(c, "one") || lets(c, "two") || logged.Len() > 0 {
		t.Errorf("a good key is not in force, or a fault is logged: %s", logged.String())
	}
	c.Take("log", false, trusted(map[string][]byte{"key/new": []byte(`{"id":"new","limit":1}`)}))
	if !strings.Contains(logged.String(), "a shared credential is refused") || !strings.Contains(logged.String(), "key/new") {
		t.Errorf("logged %s", logged.String())
	}

	// Nothing that concerns credentials changes nothing, unless the log is another.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	c.Take("log", false, trusted(map[string][]byte{"quota/x": []byte(`{}`)}))
	if _, err := os.Stat(file); err == nil {
		t.Error("the copy is written although nothing changed")
	}
	c.Take("other", false, nil)
	if content, err := os.ReadFile(file); err != nil || !strings.Contains(string(content), `"log": "other"`) {
		t.Errorf("the copy does not follow the log: %v %s", err, content)
	}

	logged.Reset()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	c.Take("other", false, trusted(map[string][]byte{"key/k": good("two")}))
	if !lets(c, "two") || lets(c, "one") || !strings.Contains(logged.String(), "could not be saved here") {
		t.Errorf("the key is not in force, or the fault is not logged: %s", logged.String())
	}
}
