package backend

import (
	"maps"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Doubt is why nobody vouches for the address of an instance: it was stored by somebody
// who did not show that they have the master key. An instance in doubt sends none of its
// secrets. The zero value is none.
type Doubt string

// The doubts.
const (
	// DoubtForeign is an instance of a version without a signature, at an address that no signed
	// version has.
	DoubtForeign Doubt = "foreign"
	// DoubtBare is a foreign instance that had no secrets to send, or only plain ones.
	DoubtBare Doubt = "bare"
	// DoubtFound is an instance that was stored before versions were signed, and that has
	// references to secrets unlike any in the configuration file.
	DoubtFound Doubt = "found"
	// DoubtRestored is an instance of an unsigned backup that was restored and not confirmed.
	DoubtRestored Doubt = "restored"
)

// Withholds reports whether an instance in this doubt may not send its secrets.
func (d Doubt) Withholds() bool { return d != "" && d != DoubtBare }

// reason says why the secrets of an instance are not sent, and how to change that.
func (d Doubt) reason() say.Sentence {
	switch d {
	case DoubtFound:
		return say.New("instance.unsigned")
	case DoubtRestored:
		return say.New("instance.restored")
	}
	return say.New("instance.unvouched")
}

// Route returns the settings that decide where the calls of an instance go, apart from
// headers. Two instances with the same route send their secrets to the same place.
func (s Settings) Route() string {
	return strings.Join([]string{s.BaseURL, s.Path, s.HealthPath, s.Proxy, s.TLS.CA, s.TLS.Cert, s.TLS.Key,
		s.TLS.ServerName}, "\x00")
}

// PlainHeaders returns the headers of stored settings that are not encrypted, by their
// names. Somebody without the master key may have written them.
func (s Settings) PlainHeaders() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		if header := s.Headers[name]; !header.isSealed && !header.isReference {
			names = append(names, name)
		}
	}
	return names
}

// Entrusts reports whether stored settings entrust something to the backend that only a
// holder of the master key may give away: encrypted secrets, references, or the
// credentials of callers.
func (s Settings) Entrusts() bool {
	entrusts := s.ForwardAuthorization
	s.EachSecret("", func(_ string, secret Secret) {
		entrusts = entrusts || secret.isSealed || secret.isReference
	})
	return entrusts
}

// HasSecrets reports whether settings have secrets, or send the credentials of callers.
func (s Settings) HasSecrets() bool {
	has := s.ForwardAuthorization
	s.EachSecret("", func(_ string, secret Secret) { has = has || !secret.IsEmpty() })
	return has
}

// NeedsCaller reports whether calls carry the credential of their caller and settings have none to
// use in place of it.
func (s Settings) NeedsCaller() bool {
	forwards := s.ForwardAuthorization
	s.ForwardAuthorization = false
	return forwards && !s.HasSecrets()
}

// EachSecret calls a function with every secret of the settings and its place, in a
// fixed order.
func (s Settings) EachSecret(place string, visit func(at string, secret Secret)) {
	_, _ = s.mapSecrets(place, func(at string, secret Secret) (Secret, error) {
		visit(at, secret)
		return secret, nil
	})
}
