package redisanswers

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/request/recall"
	"github.com/patchbay-ai/patchbay/internal/store"
)

// stored is an answer as it is kept, in JSON, sealed if there is a master key. Issue is the issue of its owner.
type stored struct {
	Issue    string         `json:"issue,omitempty"`
	Previous []string       `json:"previous,omitempty"`
	Input    jsontext.Value `json:"input"`
	Response jsontext.Value `json:"response,omitzero"`
	Instance string         `json:"instance,omitempty"`
	Run      string         `json:"run,omitempty"`
}

func encode(a *recall.Answer) ([]byte, error) {
	value := stored{Issue: a.Owner.Issue, Previous: a.Previous, Instance: a.Instance, Response: a.Response,
		Run: a.Run}
	value.Input = append(append(append(value.Input, '['), a.Input...), ']')
	return json.Marshal(value, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
		jsontext.PreserveRawStrings(true))
}

func decode(text string) (v stored, err error) {
	err = json.Unmarshal([]byte(text), &v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return v, err
}

func (v *stored) answer(owner recall.Owner, id string) *recall.Answer {
	a := &recall.Answer{ID: id, Owner: owner, Previous: v.Previous, Response: v.Response, Instance: v.Instance,
		Run: v.Run}
	if n := len(v.Input); n > len("[]") {
		a.Input = v.Input[1 : n-1]
	}
	return a
}

// seal returns a text for a key in Redis, which has the ids of the owner and of the answer, encrypted if there is a
// master key.
func (s *Store) seal(key string, text []byte) string {
	if s.options.Keys == nil {
		return string(text)
	}
	return s.options.Keys.Seal(key, string(text))
}

// open returns the text at a key, and reports whether a gateway with the master key, or without one any, kept it
// there.
func (s *Store) open(key, text string) (opened string, isGood bool) {
	if s.options.Keys == nil {
		return text, strings.HasPrefix(text, "{")
	}
	opened, err := s.options.Keys.Open(key, text)
	return opened, err == nil
}

// rekey seals an answer with the current key. Other keys are counts.
func rekey(r *store.Rekeying, key string, fields map[string]string) error {
	text, has := fields[""]
	if !has || !isAnswer(key) || r.Keys.IsCurrent(text) {
		return nil
	}
	err := store.ErrUnsigned
	if isPlain := strings.HasPrefix(text, "{"); !isPlain {
		text, err = r.Keys.Open(key, text)
	} else if r.IsFirst {
		err = nil
	}
	if err == nil {
		fields[""] = r.Keys.Seal(key, text)
	}
	r.Done(key, err)
	return nil
}

// isAnswer reports whether a key holds an answer, and not a count.
func isAnswer(key string) bool {
	length, rest, found := strings.Cut(strings.TrimPrefix(key, prefix), ":")
	n, err := strconv.Atoi(length)
	return found && err == nil && n >= 0 && n < len(rest) && rest[n] == ':'
}
