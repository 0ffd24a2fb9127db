package access_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// A change of credentials whose file cannot be written is told and changes nothing: not
// what is in force, and not what the next start finds, unless the rename may not last.
func TestCredentialsThatCannotBeSavedStayAsTheyAre(t *testing.T) {
	fault := errors.New("fault on purpose")
	open := func(t *testing.T, dir *durable.Dir) *access.Credentials {
		t.Helper()
		c, err := access.OpenCredentials(dir, access.Settings{Enabled: true}, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	describe := func(c *access.Credentials) string { return fmt.Sprint(c.Keys.List(), c.Tokens.List()) }
	change := access.Change{At: time.Now()}
	for name, do := range map[string]func(*testing.T, *access.Credentials) error{
		"issue a key": func(t *testing.T, c *access.Credentials) error {
			_, _, err := c.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{ID: "new"}}, change)
			return err
		},
		"revoke a key": func(t *testing.T, c *access.Credentials) error { return c.Keys.Revoke(t.Context(), "old", change) },
		"issue a token": func(t *testing.T, c *access.Credentials) error {
			_, _, err := c.Tokens.Issue(t.Context(), access.IssuedToken{Token: access.Token{Name: "new", Role: access.Viewer}}, change)
			return err
		},
	} {
		for _, step := range []durable.Step{durable.Create, durable.Fill, durable.Sync, durable.Rename, durable.SyncDir} {
			t.Run(name+"/"+string(step), func(t *testing.T) {
				path := t.TempDir()
				dir, err := durable.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				c := open(t, dir)
				if _, _, err := c.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{ID: "old"}}, change); err != nil {
					t.Fatal(err)
				}
				before := describe(c)
				dir.Before = func(now durable.Step) error {
					if now == step {
						return fault
					}
					return nil
				}
				if err := do(t, c); !errors.Is(err, access.ErrSave) || !errors.Is(err, fault) {
					t.Errorf("error %v", err)
				}
				if now := describe(c); now != before {
					t.Errorf("in force is %s, and was %s", now, before)
				}
				again, err := durable.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				if next := describe(open(t, again)); next != before && step != durable.SyncDir {
					t.Errorf("after a restart it is %s, and was %s", next, before)
				}
				dir.Before = nil
				if err := do(t, c); err != nil {
					t.Errorf("when the disk is well: %v", err)
				}
			})
		}
	}
}

// Credentials that are a copy of a shared log stay one when a change of them cannot be
// saved. Else they would be kept aside as those of this gateway when the log is back.
func TestAChangeThatFailsLeavesACopyOfTheSharedLog(t *testing.T) {
	path := t.TempDir()
	dir, err := durable.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := access.OpenCredentials(dir, access.Settings{Enabled: true}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	record := []byte(`{"id":"theirs","keySha256":"` + access.HashOf("secret") + `"}`)
	c.Take("log", true, map[string]seal.Value{"key/theirs": {Data: record, IsTrusted: true}})
	dir.Before = func(durable.Step) error { return errors.New("fault on purpose") }
	if _, _, err := c.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{ID: "new"}}, access.Change{At: time.Now()}); !errors.Is(err, access.ErrSave) {
		t.Errorf("error %v", err)
	}
	dir.Before = nil
	c.Take("log", true, nil)
	if copies, _ := filepath.Glob(filepath.Join(path, "keys-before-sharing-*.json")); len(copies) != 0 {
		t.Errorf("the credentials of the log were kept aside as this gateway's own: %v", copies)
	}
}
