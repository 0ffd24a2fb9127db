package vouch_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/vouch"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

func newKeys(t *testing.T) *seal.Keys {
	t.Helper()
	keys, err := seal.New(rand.Text()+rand.Text(), "")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// services has one instance for chat, after an edit.
func services(edit func(*backend.Settings)) vouch.Services {
	s := backend.DefaultSettings()
	s.Name, s.BaseURL, s.APIKey = "m", "https://a.example", backend.Literal("key")
	s.Headers = map[string]backend.Secret{"X-Team": backend.Literal("team")}
	edit(&s)
	chat := config.DefaultService()
	chat.Instances = []backend.Settings{s}
	return vouch.Services{schema.Chat: chat}
}

func unchanged(*backend.Settings) {}

// TestASignatureOutlivesEncryption: it is the same for a version with its secrets as plain
// text, encrypted and encrypted anew, and with other white space.
func TestASignatureOutlivesEncryption(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	const format = `{"version":3,"services":{"chat":{"instances":[{"name":"m","baseUrl":"https://a.example","apiKey":APIKEY,"headers":HEADERS,"proxy":PROXY}]}}}`
	record := func(key, headers, proxy string) []byte {
		return []byte(strings.NewReplacer("APIKEY", key, "HEADERS", headers, "PROXY", proxy).Replace(format))
	}
	plain := record(`"key"`, `{"X-Team":"team"}`, `""`)
	signature, err := vouch.Version{Number: 3, Record: plain, Services: services(unchanged)}.Sign(keys)
	if err != nil {
		t.Fatal(err)
	}
	for name, same := range map[string][]byte{
		"encrypted":       record(`{"sealed":"v1.a.b"}`, `{"X-Team":{"sealed":"v1.c.d"}}`, `""`),
		"encrypted anew":  record(`{"sealed":"v1.e.f"}`, `{"X-Team":{"sealed":"v1.g.h"}}`, `""`),
		"of another form": []byte(strings.ReplaceAll(string(plain), ",", " ,\n\t")),
	} {
		if _, err := (vouch.Version{Number: 3, Record: same, Services: services(unchanged)}).Verify(keys, signature); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, other := range map[string]vouch.Version{
		"number":       {Number: 4, Record: plain, Services: services(unchanged)},
		"key":          {Number: 3, Record: plain, Services: services(func(s *backend.Settings) { s.APIKey = backend.Literal("other") })},
		"reference":    {Number: 3, Record: plain, Services: services(func(s *backend.Settings) { s.APIKey = backend.Reference("key") })},
		"empty header": {Number: 3, Record: plain, Services: services(func(s *backend.Settings) { s.Headers["X-New"] = backend.Literal("") })},
		"proxy":        {Number: 3, Record: plain, Services: services(func(s *backend.Settings) { s.Proxy = "http://proxy.example" })},
		"member":       {Number: 3, Record: []byte(strings.Replace(string(plain), `"name"`, `"path":"/x","name"`, 1)), Services: services(unchanged)},
	} {
		if _, err := other.Verify(keys, signature); !errors.Is(err, seal.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A version of an unsigned backup stays in doubt, and nobody takes the mark out of its signature.
func TestTheMarkOfAnUnsignedBackupStays(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	own := services(func(s *backend.Settings) { s.APIKey = backend.Reference("${KEY}") })
	version := vouch.Version{Number: 3, Record: []byte(`{"version":3}`), Services: own, Restore: "r"}
	signature, err := version.Sign(keys)
	if err != nil {
		t.Fatal(err)
	}
	doubts, err := version.Verify(keys, signature)
	if err != nil || doubts.Restore() != "r" {
		t.Fatalf("the doubts are %v, %v", doubts, err)
	}
	lifted := vouch.WithDoubts(own, doubts)
	if !vouch.HasDoubts(lifted) {
		t.Error("there is no doubt")
	}
	if got := lifted[schema.Chat].Instances[0].Doubt; got != backend.DoubtRestored {
		t.Errorf("the doubt about the instance is %q", got)
	}
	bare := strings.Replace(signature, `"":"r"`, `"other":"r"`, 1)
	if _, err := version.Verify(keys, bare); bare == signature || !errors.Is(err, seal.ErrForged) {
		t.Errorf("the mark is taken out of %s: %v", signature, err)
	}
}
