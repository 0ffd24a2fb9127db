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

func none(*vouch.Trust) bool { return false }

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

// TestWhatASignedVersionVouchesFor: an instance of an unsigned one gets its secrets at a
// route that is known, with references that are known there, and with no other plain
// headers.
func TestWhatASignedVersionVouchesFor(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	known := services(func(s *backend.Settings) { s.APIKey = backend.Reference("${KEY}") })
	for name, row := range map[string]struct {
		edit  func(*backend.Settings)
		doubt backend.Doubt
	}{
		"the same":             {unchanged, ""},
		"another weight":       {func(s *backend.Settings) { s.Weight, s.Tier, s.Enabled, s.MaxConcurrency = 5, 2, false, 3 }, ""},
		"another model":        {func(s *backend.Settings) { s.Name = "n" }, ""},
		"another sealed key":   {func(s *backend.Settings) { s.APIKey = backend.Literal("other") }, ""},
		"another address":      {func(s *backend.Settings) { s.BaseURL = "https://b.example" }, backend.DoubtForeign},
		"without encryption":   {func(s *backend.Settings) { s.BaseURL = "http://a.example" }, backend.DoubtForeign},
		"a path":               {func(s *backend.Settings) { s.Path = "/x" }, backend.DoubtForeign},
		"a path of health":     {func(s *backend.Settings) { s.HealthPath = "/x" }, backend.DoubtForeign},
		"a proxy":              {func(s *backend.Settings) { s.Proxy = "http://p.example" }, backend.DoubtForeign},
		"no proxy":             {func(s *backend.Settings) { s.Proxy = "none" }, backend.DoubtForeign},
		"another authority":    {func(s *backend.Settings) { s.TLS.CA = "/data/ca.pem" }, backend.DoubtForeign},
		"another server name":  {func(s *backend.Settings) { s.TLS.ServerName = "b.example" }, backend.DoubtForeign},
		"a client certificate": {func(s *backend.Settings) { s.TLS.Cert, s.TLS.Key = "/c", "/k" }, backend.DoubtForeign},
		"another reference":    {func(s *backend.Settings) { s.APIKey = backend.Reference("${OTHER}") }, backend.DoubtForeign},
		"callers' credentials": {func(s *backend.Settings) {
			s.BaseURL, s.APIKey, s.Headers, s.ForwardAuthorization = "https://b.example", backend.Secret{}, nil, true
		}, backend.DoubtForeign},
		"elsewhere without secrets": {func(s *backend.Settings) { s.BaseURL, s.APIKey, s.Headers = "https://b.example", backend.Secret{}, nil }, backend.DoubtBare},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trust := new(vouch.Trust)
			trust.Add(known)
			open := services(func(s *backend.Settings) {
				s.APIKey = backend.Reference("${KEY}")
				row.edit(s)
			})
			judged := trust.Judge(open, vouch.Seal(keys, open), none)
			if got := judged[schema.Chat].Instances[0].Doubt; got != row.doubt {
				t.Errorf("%q, want %q", got, row.doubt)
			}
		})
	}
	trust := new(vouch.Trust)
	trust.Add(known)
	plain := services(func(s *backend.Settings) {
		s.APIKey = backend.Reference("${KEY}")
		s.Headers["X-Target"] = backend.Literal("https://b.example")
	})
	if got := trust.Judge(plain, plain, none)[schema.Chat].Instances[0].Doubt; got != backend.DoubtForeign {
		t.Errorf("a plain header: %q", got)
	}
	twins := services(func(s *backend.Settings) {
		s.Name, s.BaseURL, s.APIKey, s.Headers = "", "https://b.example", backend.Reference("${KEY}"), nil
	})
	chat := twins[schema.Chat]
	bare := chat.Instances[0]
	bare.APIKey = backend.Secret{}
	chat.Instances = append(chat.Instances, bare)
	twins[schema.Chat] = chat
	for i, want := range []backend.Doubt{backend.DoubtForeign, backend.DoubtBare} {
		if got := trust.Judge(twins, twins, none)[schema.Chat].Instances[i].Doubt; got != want {
			t.Errorf("instance %d of two with the same id: %q, want %q", i, got, want)
		}
	}
	doubted := new(vouch.Trust)
	doubted.Add(trust.Judge(plain, plain, none))
	if got := doubted.Judge(plain, plain, none)[schema.Chat].Instances[0].Doubt; got != backend.DoubtForeign {
		t.Errorf("an instance in doubt vouches for another: %q", got)
	}
}

// A version of an unsigned backup stays in doubt, also if the configuration file has its instances in the
// same way, and nobody takes the mark out of its signature.
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
	trust := new(vouch.Trust)
	trust.Add(own) // as the file has them
	lifted := trust.Lift(vouch.WithDoubts(own, doubts), []string{"KEY"}, none)
	if !vouch.HasDoubts(lifted) {
		t.Error("there is no doubt")
	}
	if got := lifted[schema.Chat].Instances[0].Doubt; got != backend.DoubtRestored || !got.Withholds() {
		t.Errorf("the doubt about the instance is %q", got)
	}
	bare := strings.Replace(signature, `"":"r"`, `"other":"r"`, 1)
	if _, err := version.Verify(keys, bare); bare == signature || !errors.Is(err, seal.ErrForged) {
		t.Errorf("the mark is taken out of %s: %v", signature, err)
	}
}
