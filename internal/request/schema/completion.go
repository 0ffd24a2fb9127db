package schema

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// ParseCompletion reads and checks a request for completions of texts. It has the
// same options as a chat, and a prompt in place of messages.
func (r *Request) ParseCompletion(body []byte) error {
	if err := r.scan(DoorCompletions, body); err != nil {
		return err
	}
	return r.checkCompletion()
}

func (r *Request) checkCompletion() error {
	var at found
	if err := r.checkCommon(&at, CompletionFields); err != nil {
		return err
	}
	if err := r.checkPrompt(); err != nil {
		return err
	}
	if err := r.checkRules(CompletionFields.rules[placedFields:]); err != nil {
		return err
	}
	return r.checkGeneration(&at, CompletionFields)
}

// checkPrompt accepts a text, texts, or token ids of one text or of several.
func (r *Request) checkPrompt() error {
	want := say.New("value.texts_or_ids")
	prompt := r.Field("prompt")
	switch prompt.Kind() {
	case jsonscan.Absent, jsonscan.Null:
		err := MissingParameter("prompt")
		if r.Body.Root().Get("messages").Given() {
			err.Hint("hint.to_chat")
		}
		return err
	case jsonscan.String:
		return nil
	case jsonscan.Array:
	default:
		return Invalid("prompt", want)
	}
	if prompt.Empty() {
		return BadField("prompt", "field.empty")
	}
	return checkList("prompt", prompt, want, jsonscan.String, jsonscan.Number, jsonscan.Array)
}

// checkList checks that all elements of a list are of the kind of the first, and that
// this kind is allowed.
func checkList(param string, list jsonscan.Value, want say.Sentence, allowed ...jsonscan.Kind) error {
	first := list.First().Kind()
	if !slices.Contains(allowed, first) {
		return Invalid(param, want)
	}
	for v := range list.All() {
		if v.Kind() != first {
			return Invalid(param, want)
		}
	}
	return nil
}

// Prompts returns how many prompts a request for completions has.
func (r *Request) Prompts() int {
	prompt := r.Field("prompt")
	if prompt.Kind() != jsonscan.Array || prompt.First().Kind() == jsonscan.Number {
		return 1
	}
	return prompt.Len()
}

// ParseModeration reads and checks a request that asks whether texts or images are
// harmful.
func (r *Request) ParseModeration(body []byte) error {
	if err := r.scan(DoorModerations, body); err != nil {
		return err
	}
	if err := r.checkCommon(new(found), ModerationFields); err != nil {
		return err
	}
	return r.checkInput(say.New("value.texts_or_objects"), jsonscan.String, jsonscan.Object)
}
