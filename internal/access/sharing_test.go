package access_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// fakeLog is a shared log that gateways follow within one test.
type fakeLog struct {
	values    map[string][]byte
	followers []*access.Credentials
	away      error
}

func (l *fakeLog) Change(_ context.Context, edit func() (string, []byte, error)) error {
	if l.away != nil {
		return l.away
	}
	name, value, err := edit()
	if err != nil {
		return err
	}
	if value == nil {
		delete(l.values, name)
		return nil
	}
	l.values[name] = value
	for _, c := range l.followers {
		c.Take("log", false, trusted(map[string][]byte{name: value}))
	}
	return nil
}

// trusted returns values as they are read where they are all signed.
func trusted(values map[string][]byte) map[string]seal.Value {
	read := map[string]seal.Value{}
	for name, value := range values {
		read[name] = seal.Value{Data: value, IsTrusted: true}
	}
	return read
}

func (l *fakeLog) join(c *access.Credentials) *access.Credentials {
	own := c.Share(l)
	if len(l.values) == 0 {
		for name, value := range own {
			l.values[name] = value.Data
		}
	}
	c.Take("log", true, trusted(l.values))
	l.followers = append(l.followers, c)
	return c
}

func TestSharedCredentialsAreTheSameEverywhere(t *testing.T) {
	log := &fakeLog{values: map[string][]byte{}}
	secured := access.Settings{Enabled: true}
	path := t.TempDir()
	one, two := log.join(openKeys(t, t.TempDir(), secured)), log.join(openKeys(t, path, secured))
	key, issued, err := one.Keys.Issue(t.Context(), access.IssuedKey{}, access.Change{By: "ops", At: time.Now()})
	if err != nil || !lets(two, key) || lets(two, "wrong") {
		t.Fatalf("%v: the key of one gateway is not that of the other", err)
	}
	token, _, err := two.Tokens.Issue(t.Context(), access.IssuedToken{Token: access.Token{Name: "t", Role: access.Admin}}, access.Change{By: "ops", At: time.Now()})
	if err != nil || roleOf(one, token) != access.Admin {
		t.Error("the token of one gateway is not that of the other")
	}
	info, err := os.Stat(filepath.Join(path, "keys.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v %v", info, err)
	}

	// Without the log the last known state is in force and cannot be changed.
	log.away = errors.New("away")
	if err := two.Keys.Revoke(t.Context(), issued.ID, access.Change{By: "ops", At: time.Now()}); !errors.Is(err, log.away) {
		t.Errorf("a change without the log: %v", err)
	}
	restarted := openKeys(t, path, secured)
	restarted.Share(log)
	if !restarted.Known() || !lets(restarted, key) || lets(restarted, "wrong") {
		t.Error("a restart without the log forgets the keys")
	}
	stranger := openKeys(t, t.TempDir(), secured)
	stranger.Share(log)
	if stranger.Known() {
		t.Error("a gateway that never read the log believes that it knows who may be let in")
	}
	log.away = nil
	if err := one.Keys.Revoke(t.Context(), issued.ID, access.Change{By: "ops", At: time.Now()}); err != nil || lets(two, key) || two.Guard() == nil {
		t.Error("the key is revoked on one gateway and good on the other")
	}
}

// Who joins brings nothing along: that would let in others than those who share.
func TestKeysOfAGatewayThatJoinsAreKeptAside(t *testing.T) {
	secured := access.Settings{Enabled: true}
	log := &fakeLog{values: map[string][]byte{}}
	first := log.join(openKeys(t, t.TempDir(), secured))
	shared, _, err := first.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{ID: "shared"}}, access.Change{By: "ops", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	late := openKeys(t, path, secured)
	own, _, err := late.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{ID: "own"}}, access.Change{By: "ops", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	log.join(late)
	if !lets(late, shared) || lets(late, own) || lets(first, own) {
		t.Error("the shared keys are not the ones in force")
	}
	copies, _ := filepath.Glob(filepath.Join(path, "keys-before-sharing-*.json"))
	if len(copies) != 1 {
		t.Fatalf("the keys that were issued before are lost: %v", copies)
	}
	if content, err := os.ReadFile(copies[0]); err != nil || !strings.Contains(string(content), `"own"`) {
		t.Errorf("%v %s", err, content)
	}
}

// A record of a newer release may narrow a key in a way that is not understood
// here: the key is refused, and keys are asked for.
func TestRecordsThatCannotBeReadAreRefused(t *testing.T) {
	log := &fakeLog{values: map[string][]byte{"key/new": []byte(`{"id":"new","keySha256":"` + access.HashOf("secret") + `","limit":1}`)}}
	path := t.TempDir()
	c := log.join(openKeys(t, path, access.Settings{Enabled: true}))
	if c.Guard() == nil || lets(c, "secret") || c.Keys.List()[0].Status(time.Now()) != "UNREADABLE" {
		t.Errorf("%+v", c.Keys.List())
	}
	again := openKeys(t, path, access.Settings{Enabled: true})
	if again.Guard() == nil || lets(again, "secret") {
		t.Error("a restart forgets that there is a key")
	}
}
