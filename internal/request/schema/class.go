package schema

import (
	"fmt"
	"strings"
)

// Class is how urgent a request is. It decides the order of waiting requests; a running
// one is never cut. The zero value belongs to a setting that says nothing.
type Class uint8

// The classes, the least urgent first. Spare is the class of the lines of batches, which
// take slots that nobody waits for; nobody can ask for it by name.
const (
	NoClass Class = iota
	Spare
	Batch
	Normal
	Interactive

	// ClassCount sizes arrays that are indexed by Class.
	ClassCount = int(Interactive) + 1
)

var classNames = [ClassCount]string{"", "spare", "batch", "normal", "interactive"}

// Classes returns the classes that a request can ask for, the most urgent first.
func Classes() []Class { return []Class{Interactive, Normal, Batch} }

// Names returns the name of every class that a request can ask for.
func (Class) Names() []string {
	var names []string
	for _, class := range Classes() {
		names = append(names, class.String())
	}
	return names
}

// String returns the name, empty for NoClass.
func (c Class) String() string { return NameOf(c, classNames[:]) }

// Or returns the class, or another one where it is NoClass.
func (c Class) Or(other Class) Class {
	if c == NoClass {
		return other
	}
	return c
}

// MarshalText writes the name.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the name of a class that a request can ask for; an empty text is
// NoClass.
func (c *Class) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*c = NoClass
		return nil
	}
	for _, class := range Classes() {
		if strings.EqualFold(string(text), class.String()) {
			*c = class
			return nil
		}
	}
	return fmt.Errorf("unknown priority %q (known: %s)", text, strings.Join(c.Names(), ", "))
}
