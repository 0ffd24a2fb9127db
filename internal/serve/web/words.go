package web

import (
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Wording returns a sentence and its text as a certain role may see them. The text is there
// for sentences that are not known, as those of records of an earlier release.
type Wording func(text string, said say.Sentence) (string, []say.Sentence)

// WordingFor returns how a role sees sentences: whole, or without the words of backends.
func WordingFor(role access.Role) Wording {
	if role.SeesWords() {
		return func(text string, said say.Sentence) (string, []say.Sentence) { return text, say.All(said) }
	}
	return func(_ string, said say.Sentence) (string, []say.Sentence) {
		own := said.Own()
		return own.String(), say.All(own)
	}
}

// Tell returns a sentence and its text as the role may see them.
func (w Wording) Tell(said say.Sentence) (string, []say.Sentence) { return w(said.String(), said) }
