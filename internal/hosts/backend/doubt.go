package backend

// Doubt is why an instance sends none of its secrets. The zero value is none.
type Doubt string

// DoubtRestored is the doubt about an instance of an unsigned backup that was restored and not confirmed.
const DoubtRestored Doubt = "restored"

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
