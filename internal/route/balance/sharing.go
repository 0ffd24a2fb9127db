package balance

import "github.com/patchbay-ai/patchbay/internal/request/schema"

// Sharing is who shares the prompts that instances have in their caches: a request is sent
// to a cached prompt only if one of these has sent that prompt before. Others learn
// nothing about their prompts from response times.
type Sharing uint8

// Who may share. The zero value is the default.
const (
	SharedByAll Sharing = iota
	SharedByTenant
	SharedByKey
)

// Names returns every name.
func (Sharing) Names() []string { return []string{"all", "tenant", "key"} }

// Valid reports whether s is one of these.
func (s Sharing) Valid() bool { return int(s) < len(s.Names()) }

// String returns the name.
func (s Sharing) String() string { return schema.NameOf(s, s.Names()) }

// MarshalText writes the name.
func (s Sharing) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name in any case.
func (s *Sharing) UnmarshalText(text []byte) error {
	return schema.ReadName(s, "prompt sharing", string(text), s.Names())
}

// Scope returns the scope of the prompts of a caller. Without a tenant the scope is the
// caller's key. Without a key either, all such callers share a scope.
func (s Sharing) Scope(tenant, key string) string {
	switch {
	case s == SharedByAll:
		return ""
	case s == SharedByTenant && tenant != "":
		return "tenant " + tenant
	case key != "":
		return "key " + key
	}
	return ""
}
