package schema

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// Choice is a value that is one of some names, which N lists. A value is the index of its name; the zero
// value is the first. N is an unexported type with the name of the choice, such as
//
//	type sharing struct{}
//
//	func (sharing) Names() []string { return []string{"all", "tenant", "key"} }
//
//	type Sharing = schema.Choice[sharing]
type Choice[N interface{ Names() []string }] uint8

// Names returns the name of every value.
func (Choice[N]) Names() []string { return (*new(N)).Names() }

// Valid reports whether c is one of the values.
func (c Choice[N]) Valid() bool { return int(c) < len(c.Names()) }

// String returns the name.
func (c Choice[N]) String() string {
	if names := c.Names(); int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("%s(%d)", c.Noun(), uint8(c))
}

// MarshalText writes the name.
func (c Choice[N]) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a name in any spelling that Fold makes equal.
func (c *Choice[N]) UnmarshalText(text []byte) error {
	return ReadName(c, c.Noun(), string(text), c.Names())
}

// Noun returns the words for a value, which are those of the name of N.
func (Choice[N]) Noun() string {
	var noun strings.Builder
	for _, r := range reflect.TypeFor[N]().Name() {
		if unicode.IsUpper(r) {
			noun.WriteByte(' ')
		}
		noun.WriteRune(unicode.ToLower(r))
	}
	return noun.String()
}
