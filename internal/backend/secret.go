package backend

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// Secret is a text that only few may see, such as the key of a backend. It is a
// literal, or a reference such as "${OPENAI_KEY}" to a text that the environment
// or a file of the machine has. Only the configuration file makes references:
// text from anywhere else is a literal, whatever it contains. The zero value is
// the empty literal. Secrets that are equal by == say the same.
type Secret struct {
	text        string
	isReference bool
}

// Resolver returns the text that a reference stands for on this machine, now.
type Resolver func(reference string) (string, error)

// Literal returns the secret that is this very text.
func Literal(text string) Secret { return Secret{text: text} }

// Reference returns the secret that stands for another text. It is kept as it
// was written, "Bearer ${TOKEN}" for example.
func Reference(written string) Secret { return Secret{text: written, isReference: true} }

// IsReference tells a reference from a literal.
func (s Secret) IsReference() bool { return s.isReference }

// IsEmpty tells whether the secret is the empty literal: there is none.
func (s Secret) IsEmpty() bool { return s == Secret{} }

// Equal is ==.
func (s Secret) Equal(other Secret) bool { return s == other }

// Reveal returns the secret as it is stored, for those who may see it: the
// literal, or the reference as it was written.
func (s Secret) Reveal() string { return s.text }

// Masked returns what everybody may see. Of a reference that is nothing, because
// its default may be a secret.
func (s Secret) Masked() string {
	if s.isReference {
		return access.Mask("?") // short texts are masked whole
	}
	return access.Mask(s.text)
}

// String keeps secrets out of texts that are printed by mistake.
func (s Secret) String() string { return s.Masked() }

// resolve returns the text that is sent.
func (s Secret) resolve(with Resolver) (string, error) {
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
	Reference string `json:"reference"`
}

// MarshalJSON writes a string for a literal and an object for a reference, so
// that neither can be taken for the other.
func (s Secret) MarshalJSON() ([]byte, error) {
	if s.isReference {
		return json.Marshal(stored{s.text})
	}
	return json.Marshal(s.text)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Secret) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var reference stored
		if err := json.Unmarshal(data, &reference, json.RejectUnknownMembers(true)); err != nil {
			return err
		}
		*s = Reference(reference.Reference)
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*s = Literal(text)
	return nil
}

// Resolved returns the settings with literals only: every reference is replaced
// by the text that it stands for. The error names the setting and never repeats
// a secret.
func (s Settings) Resolved(with Resolver) (Settings, error) {
	s = s.Clone()
	key, err := s.APIKey.resolve(with)
	if err != nil {
		return s, fmt.Errorf("api-key: %w", err)
	}
	s.APIKey = Literal(key)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		value, err := s.Headers[name].resolve(with)
		if err != nil {
			return s, fmt.Errorf("headers[%s]: %w", strconv.Quote(name), err)
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
