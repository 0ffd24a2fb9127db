package redisanswers

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/request/recall"
	"github.com/patchbay-ai/patchbay/internal/store/takeover"
)

// stored is an answer as it is kept, in JSON, or sealed where there is a master key. Issue
// is the issue of its owner.
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

// placeOf returns the place that a sealed answer is bound to: its key in Redis, which has
// the id of the owner and its own, and the issue of the owner.
func placeOf(key, issue string) string { return strconv.Itoa(len(issue)) + ":" + issue + " " + key }

// isPlain reports whether a text is an answer that nobody sealed.
func isPlain(text string) bool { return strings.HasPrefix(text, "{") }

// seal returns a text for a place, encrypted where there is a master key.
func (s *Store) seal(key, issue string, text []byte) string {
	if s.options.Keys == nil {
		return string(text)
	}
	return s.options.Keys.Seal(placeOf(key, issue), string(text))
}

// open returns the text at a key, and reports whether it belongs to an owner who has this
// issue: it was sealed for it. Without a master key, and while unsigned data is read, a plain text is taken
// as it is.
func (s *Store) open(key, issue, text string) (opened string, isGood bool) {
	if isPlain(text) {
		return text, s.options.Keys == nil || s.options.Takeovers.ReadsUnsigned(takeover.Responses)
	}
	if s.options.Keys == nil {
		return "", false
	}
	opened, err := s.options.Keys.Open(placeOf(key, issue), text)
	return opened, err == nil
}
