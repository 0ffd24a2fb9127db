package access_test

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// roleOf returns the role that a token has, no role for one that is refused.
func roleOf(c *access.Credentials, token string) access.Role {
	who, _, _ := c.Roster().Identify(http.Header{"Authorization": {"Bearer " + token}}, time.Now())
	return who.Role
}

func TestTokensAreIssuedRotatedAndRevokedAtOnce(t *testing.T) {
	path := t.TempDir()
	secured := access.Settings{Enabled: true, Tokens: []access.Token{{Name: "file", Role: access.Admin, TokenSHA256: access.HashOf("from-file")}}}
	c := openKeys(t, path, secured)
	wanted := access.IssuedToken{Token: access.Token{Name: "ops", Role: access.Operator}}
	first, issued, err := c.Tokens.Issue(t.Context(), wanted, access.Change{By: "file", At: time.Now()})
	if err != nil || !strings.HasPrefix(first, "pbt-") || issued.CreatedBy != "file" || roleOf(c, first) != access.Operator {
		t.Fatalf("%q %+v %v", first, issued, err)
	}
	if _, _, err := c.Tokens.Issue(t.Context(), wanted, access.Change{By: "file", At: time.Now()}); !errors.Is(err, access.ErrExists) {
		t.Errorf("the name twice: %v", err)
	}
	second, _, err := c.Tokens.Rotate(t.Context(), "ops", access.Change{At: time.Now()})
	if err != nil || roleOf(c, first) != 0 || roleOf(c, second) != access.Operator {
		t.Errorf("rotated: %v, the old one has the role %q, the new one %q", err, roleOf(c, first), roleOf(c, second))
	}
	if text, _, err := c.Tokens.Rotate(t.Context(), "ops", access.Change{At: time.Now(), DryRun: true}); text != "" || err != nil || roleOf(c, second) == 0 {
		t.Errorf("a dry run: %q %v", text, err)
	}
	if _, _, err := c.Tokens.Rotate(t.Context(), "file", access.Change{At: time.Now()}); !errors.Is(err, access.ErrStatic) {
		t.Errorf("rotate the file's: %v", err)
	}
	expired := access.IssuedToken{Token: access.Token{Name: "old", Role: access.Admin}, ExpiresAt: "2001-01-01T00:00:00Z"}
	if text, _, err := c.Tokens.Issue(t.Context(), expired, access.Change{By: "file", At: time.Now()}); err != nil || roleOf(c, text) != 0 {
		t.Errorf("an expired token is good: %v", err)
	}
	// The token of the file is revoked as well, and stays so after a restart.
	if err := c.Tokens.Revoke(t.Context(), "file", access.Change{By: "ops", At: time.Now()}); err != nil || roleOf(c, "from-file") != 0 {
		t.Errorf("the token of the file: %v", err)
	}
	again := openKeys(t, path, secured)
	if roleOf(again, "from-file") != 0 || roleOf(again, second) != access.Operator {
		t.Error("a restart brings back what was revoked, or forgets what was issued")
	}
	if err := again.Tokens.Revoke(t.Context(), "file", access.Change{By: "ops", At: time.Now()}); !errors.Is(err, access.ErrRevoked) {
		t.Errorf("revoke again: %v", err)
	}
	if got := again.Tokens.List(); len(got) != 3 || got[0].Status(time.Now()) != "REVOKED" || got[0].Source != access.FromFile {
		t.Errorf("%+v", got)
	}
	// A new text under the same name, in the file, is another token.
	secured.Tokens[0].TokenSHA256 = access.HashOf("from-file-2")
	if c := openKeys(t, path, secured); roleOf(c, "from-file-2") != access.Admin || roleOf(c, "from-file") != 0 {
		t.Error("the new token of the file is refused")
	}
}

func TestHashesOfEmptyTextsAreRefused(t *testing.T) {
	for _, nothing := range []string{"", "\n", "\r\n", " "} {
		hash := access.HashOf(nothing)
		s := access.Settings{Tokens: []access.Token{{Name: "a", Role: access.Admin, TokenSHA256: hash}}, Keys: []access.Key{{ID: "k", KeySHA256: hash}}}
		var paths []string
		s.Check(func(path string, fault say.Sentence) {
			if strings.Contains(fault.String(), "empty text") {
				paths = append(paths, path)
			}
		})
		if strings.Join(paths, " ") != "tokens[0].tokenSha256 keys[0].keySha256" {
			t.Errorf("the hash of %q: %v", nothing, paths)
		}
	}
}

// Settings are checked where they are read; here they come unchecked.
func TestMissingCredentialIsNeverAccepted(t *testing.T) {
	hash := access.HashOf("")
	c := openKeys(t, t.TempDir(), access.Settings{
		Enabled: true, Tokens: []access.Token{{Name: "a", Role: access.Admin, TokenSHA256: hash}}, Keys: []access.Key{{ID: "k", KeySHA256: hash}},
	})
	for _, header := range []http.Header{{}, {"Authorization": {""}}, {"Authorization": {"Bearer "}}, {"Authorization": {"Bearer"}}, {"X-Api-Key": {""}}} {
		if _, known, presents := c.Roster().Identify(header, time.Now()); known || presents {
			t.Errorf("%v is an administrator", header)
		}
		if _, err := c.Guard().Identify(header, time.Now()); err == nil {
			t.Errorf("%v has a key", header)
		}
	}
}

func TestACredentialThatIsNotThereLetsNobodyIn(t *testing.T) {
	c := openKeys(t, t.TempDir(), access.Settings{
		Enabled: true, Tokens: []access.Token{{Name: "a", Role: access.Admin, TokenSHA256: access.NobodysHash}}, Keys: []access.Key{{ID: "k", KeySHA256: access.NobodysHash}},
	})
	for _, text := range []string{"", access.NobodysHash, "a", "k"} {
		header := http.Header{"Authorization": {"Bearer " + text}}
		if _, known, _ := c.Roster().Identify(header, time.Now()); known {
			t.Errorf("%q is an administrator", text)
		}
		if _, err := c.Guard().Identify(header, time.Now()); err == nil {
			t.Errorf("%q has a key", text)
		}
	}
	if c.Roster().HasAdmin(time.Now()) {
		t.Error("a token that nobody has counts as an administrator")
	}
}

func TestWrongCredentialsAreSlowedDownByAddress(t *testing.T) {
	now := time.Now()
	attempts := access.NewAttempts(now)
	wrong := func(address string) time.Duration { return attempts.Wrong(netip.MustParseAddr(address), now) }
	for n := range 10 {
		if wait := wrong("192.0.2.1"); wait != 0 {
			t.Fatalf("the try %d waits %v", n+1, wait)
		}
	}
	if wrong("192.0.2.1") == 0 || wrong("192.0.2.2") != 0 {
		t.Error("the address that tried too much is not told from another")
	}
	for n := range 11 {
		address := netip.MustParseAddr("2001:db8::1")
		bytes := address.As16()
		bytes[15] = byte(n)
		attempts.Wrong(netip.AddrFrom16(bytes), now)
	}
	if wrong("2001:db8::ffff") == 0 || wrong("2001:db8:0:1::1") != 0 {
		t.Error("an IPv6 subscriber is not one client")
	}
	now = now.Add(time.Second)
	if wrong("192.0.2.1") != 0 || wrong("192.0.2.1") == 0 {
		t.Error("after a second there is no further try, or more than one")
	}
}
