package web

import (
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Wording returns the text of a sentence, and the sentence, as a certain role may see them.
type Wording func(say.Sentence) (string, []say.Sentence)

// WordingFor returns how a role sees sentences: whole, or without the words of backends.
func WordingFor(role access.Role) Wording {
	if role.SeesWords() {
		return func(said say.Sentence) (string, []say.Sentence) { return said.String(), say.All(said) }
	}
	return func(said say.Sentence) (string, []say.Sentence) {
		own := said.Own()
		return own.String(), say.All(own)
	}
}
