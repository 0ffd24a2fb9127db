package balance

import "github.com/patchbay-ai/patchbay/internal/request/schema"

// Goal is the time that the strategy least_time makes short.
type Goal uint8

// The goals. The zero value is the default.
const (
	ToFirstToken Goal = iota
	ToAnswer          // to the end of the answer
)

// Names returns every name.
func (Goal) Names() []string { return []string{"first_token", "answer"} }

// Valid reports whether g is one of these.
func (g Goal) Valid() bool { return int(g) < len(g.Names()) }

// String returns the name with underscores.
func (g Goal) String() string { return schema.NameOf(g, g.Names()) }

// MarshalText writes the name with underscores.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads a name in any case, with hyphens or underscores.
func (g *Goal) UnmarshalText(text []byte) error {
	return schema.ReadName(g, "goal of least_time", string(text), g.Names())
}
