package web

import (
	"github.com/patchbay-ai/patchbay/internal/see/say"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
)

// Wording returns a text about an error as a certain role may see it.
type Wording func(string) string

// WordingFor returns how a role sees texts: whole, or without the words of backends.
func WordingFor(role access.Role) Wording {
	if role.SeesWords() {
		return func(text string) string { return text }
	}
	return say.WithoutWords
}
