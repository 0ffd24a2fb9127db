package backend

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Secret is a text that few people may see, such as the key of a backend. It is a
// literal, or a reference such as "${OPENAI_KEY}" to a text that the environment or a
// file of the machine has. Only the configuration file makes references: text from
// anywhere else is a literal, whatever it contains. The zero value is the empty
// literal. Secrets that are equal by == are the same secret.
//
// In a store, a literal may be sealed: encrypted with a key that is not stored. Only
// the store sees the encrypted form.
type Secret struct {
	text        string
	isReference bool
	isSealed    bool
}

// Resolver returns the text of a reference on this machine, now.
type Resolver func(reference string) (string, error)

// Literal returns the secret that is this very text.
func Literal(text string) Secret { return Secret{text: text} }

// Reference returns a secret that refers to another text. It is kept as it was
// written, "Bearer ${TOKEN}" for example.
func Reference(written string) Secret { return Secret{text: written, isReference: true} }

// IsReference tells a reference from a literal.
func (s Secret) IsReference() bool { return s.isReference }

// IsEmpty reports whether the secret is the empty literal: there is none.
func (s Secret) IsEmpty() bool { return s == Secret{} }

// Equal is ==, for tests that compare settings by reflection.
func (s Secret) Equal(other Secret) bool { return s == other }

// Reveal returns the secret as it is stored, for people who may see it: the
// literal, or the reference as it was written.
func (s Secret) Reveal() string { return s.text }

// Masked returns the part that everybody may see. Of a reference that is nothing,
// because its default may be a secret.
func (s Secret) Masked() string {
	if s.isReference {
		return access.Mask("?") // short texts are masked whole
	}
	return access.Mask(s.text)
}

// String keeps secrets out of texts that are printed by mistake.
func (s Secret) String() string { return s.Masked() }

// Resolve returns the text that is sent.
func (s Secret) Resolve(with Resolver) (string, error) {
	if s.isSealed {
		return "", errors.New("it is encrypted and was not opened")
	}
	if !s.isReference {
		return s.text, nil
	}
	if with == nil {
		return "", errors.New("this gateway has no configuration that resolves references")
	}
	return with(s.text)
}

// stored is how a reference is written in JSON. A literal is a string there, as
// all secrets were before there were references.
type stored struct {
	Reference string `json:"reference,omitzero"`
	Sealed    string `json:"sealed,omitzero"`
}

// MarshalJSON writes a string for a literal and an object for a reference. Neither
// can be taken for the other.
func (s Secret) MarshalJSON() ([]byte, error) {
	switch {
	case s.isReference:
		return json.Marshal(stored{Reference: s.text})
	case s.isSealed:
		return json.Marshal(stored{Sealed: s.text})
	}
	return json.Marshal(s.text)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (s *Secret) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var written stored
		if err := json.Unmarshal(data, &written, json.RejectUnknownMembers(true)); err != nil {
			return err
		}
		*s = Reference(written.Reference)
		if written.Sealed != "" {
			*s = Secret{text: written.Sealed, isSealed: true}
		}
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*s = Literal(text)
	return nil
}

// Sealed returns the settings as a store has them: literals are encrypted. Place names
// where the settings belong; the encryption binds the secrets to it.
func (s Settings) Sealed(keys *seal.Keys, place string) Settings {
	sealed, _ := s.mapSecrets(place, Sealing(keys))
	return sealed
}

// Sealing returns a function that encrypts a literal and binds it to its place.
func Sealing(keys *seal.Keys) func(at string, secret Secret) (Secret, error) {
	return func(at string, secret Secret) (Secret, error) {
		if secret.isReference || secret.isSealed || secret.text == "" {
			return secret, nil
		}
		return Secret{text: keys.Seal(at, secret.text), isSealed: true}, nil
	}
}

// Opened returns the settings with literals in place of encrypted ones. The error names
// the setting.
func (s Settings) Opened(keys *seal.Keys, place string) (Settings, error) {
	return s.mapSecrets(place, Opening(keys))
}

// Opening returns a function that decrypts a secret at its place.
func Opening(keys *seal.Keys) func(at string, secret Secret) (Secret, error) {
	return func(at string, secret Secret) (Secret, error) {
		if !secret.isSealed {
			return secret, nil
		}
		text, err := keys.Open(at, secret.text)
		return Literal(text), err
	}
}

// NeedsSealing reports whether a secret is stored as plain text, or encrypted with
// another key than the current one.
func (s Settings) NeedsSealing(keys *seal.Keys, place string) bool {
	needs := false
	s.EachSecret(place, func(at string, secret Secret) { needs = needs || secret.NeedsSealing(keys, at) })
	return needs
}

// NeedsSealing is Settings.NeedsSealing for one secret.
func (s Secret) NeedsSealing(keys *seal.Keys, at string) bool {
	return !s.isReference && s.text != "" &&
		(!s.isSealed || !keys.IsCurrent(s.text))
}

// References returns the references of the settings, as they are written.
func (s Settings) References() []string {
	var written []string
	s.EachSecret("", func(_ string, secret Secret) {
		if secret.isReference {
			written = append(written, secret.text)
		}
	})
	return written
}

// mapSecrets returns a copy of the settings with each secret replaced.
func (s Settings) mapSecrets(place string, replace func(at string, secret Secret) (Secret, error)) (Settings, error) {
	s = settings.Clone(s)
	place += "/" + s.ID() + "/"
	var err error
	if s.APIKey, err = replace(place+"api-key", s.APIKey); err != nil {
		return s, fmt.Errorf("api-key of %s: %w", s.ID(), err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		if s.Headers[name], err = replace(place+"headers/"+name, s.Headers[name]); err != nil {
			return s, fmt.Errorf("header %s of %s: %w", strconv.Quote(name), s.ID(), err)
		}
	}
	proxy, isSecret := proxySecret(s.Proxy)
	if !isSecret {
		return s, nil
	}
	if proxy, err = replace(place+"proxy", proxy); err != nil {
		return s, fmt.Errorf("proxy of %s: %w", s.ID(), err)
	}
	s.Proxy = proxy.text
	if proxy.isSealed {
		s.Proxy = sealedProxy + proxy.text
	}
	return s, nil
}

// sealedProxy precedes the address of a proxy that is stored encrypted. No address of a
// proxy begins so.
const sealedProxy = "sealed:"

// proxySecret returns the address of a proxy as a secret, where it holds credentials.
func proxySecret(address string) (Secret, bool) {
	if sealed, is := strings.CutPrefix(address, sealedProxy); is {
		return Secret{text: sealed, isSealed: true}, true
	}
	parsed, err := url.Parse(address)
	return Literal(address), err == nil && parsed.User != nil
}

// Resolved returns the settings with literals only: every reference is replaced by
// its text. The error names the setting and never repeats a secret.
func (s Settings) Resolved(with Resolver) (Settings, error) {
	s = settings.Clone(s)
	key, err := s.APIKey.Resolve(with)
	if err != nil {
		return s, say.About("api-key", err)
	}
	s.APIKey = Literal(key)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		value, err := s.Headers[name].Resolve(with)
		if err != nil {
			return s, say.About("headers["+strconv.Quote(name)+"]", err)
		}
		s.Headers[name] = Literal(value)
	}
	return s, nil
}

// revealed returns headers as they are sent.
func revealed(headers map[string]Secret) map[string]string {
	if headers == nil {
		return nil
	}
	plain := make(map[string]string, len(headers))
	for name, value := range headers {
		plain[name] = value.text
	}
	return plain
}
