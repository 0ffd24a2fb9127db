package resume_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
)

// said are deltas that say pieces of a text, and then end.
type said struct {
	pieces []string
	finish chat.FinishReason
	delta  chat.Delta
}

func (s *said) Usage() chat.Usage {
	return chat.Usage{Tokens: chat.Tokens{Prompt: 20, Completion: 5, Total: 25, Known: true}}
}

func (s *said) Next() (*chat.Delta, error) {
	s.delta.Reset()
	switch {
	case len(s.pieces) > 0:
		s.delta.Add(0).Text = chat.Escape(s.pieces[0])
		s.pieces = s.pieces[1:]
	case s.finish != "":
		s.delta.Add(0).Finish = s.finish
		s.finish = ""
	default:
		return nil, io.EOF
	}
	return &s.delta, nil
}

// request returns a request for a chat with more members.
func request(t *testing.T, more string) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	if err := req.ParseChat([]byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]` + more + `}`)); err != nil {
		t.Fatal(err)
	}
	return req
}

// join returns what a client has when an answer goes on with these deltas.
func join(t *testing.T, req *schema.Request, sent string, canContinue bool, from dialect.Deltas) (text string, finish chat.FinishReason, plan resume.Plan, err error) {
	t.Helper()
	transcript := new(chat.Transcript)
	transcript.Add(chat.Escape(sent))
	broken, reason := resume.Read(req, transcript, schema.Usage{})
	if reason != "" {
		t.Fatal(reason)
	}
	plan, ok := broken.For(canContinue)
	if !ok {
		t.Fatalf("%q cannot go on", sent)
	}
	text = sent
	for joint := plan.Join(from); ; {
		delta, err := joint.Next()
		if errors.Is(err, io.EOF) {
			if string(transcript.Text) != text && transcript.Bar == "" {
				t.Errorf("the transcript has %q, the client %q", transcript.Text, text)
			}
			return text, finish, plan, nil
		}
		if err != nil {
			return text, finish, plan, err
		}
		c := delta.First()
		text += string(chat.Unescape(c.Text))
		if c.Finish != "" {
			finish = c.Finish
		}
	}
}

// pieces splits a text after every n bytes, between characters.
func pieces(text string, n int) (all []string) {
	for text != "" {
		end := min(n, len(text))
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		all, text = append(all, text[:end]), text[end:]
	}
	return all
}

const answer = "Ça va? 你好 🙂!\n\n  \"Nächste\\Zeile\": a  b\tc \u200d\U0001F469\u200d\U0001F680 — fin.\n"

// Wherever an answer is cut, and however the rest comes in pieces, the two make the whole.
func TestAnAnswerThatIsCutAnywhereIsJoined(t *testing.T) {
	t.Parallel()
	for cut := 1; cut <= len(answer); cut++ {
		if cut < len(answer) && !utf8.RuneStart(answer[cut]) {
			continue // events have whole characters
		}
		sent := answer[:cut]
		for size := 1; size <= len(answer); size++ {
			got, finish, _, err := join(t, request(t, `,"seed":1`), sent, false, &said{pieces: pieces(answer, size), finish: chat.Stop})
			if got != answer || finish != chat.Stop || err != nil {
				t.Fatalf("made again, cut at %d, pieces of %d: %q, %v", cut, size, got, err)
			}
			if strings.TrimSpace(sent) == "" {
				continue
			}
			from := &said{finish: chat.Stop}
			text, finish, plan, err := join(t, request(t, ``), sent, true, from)
			if text != sent || finish != chat.Stop || err != nil || plan.How != resume.Continued {
				t.Fatalf("nothing was missing, cut at %d: %q, %v", cut, text, err)
			}
			// The model goes on behind the text that it was given.
			from = &said{pieces: pieces(answer[len(plan.Text):], size), finish: chat.Stop}
			if text, _, _, err = join(t, request(t, ``), sent, true, from); text != answer || err != nil {
				t.Fatalf("continued, cut at %d, pieces of %d: %q, %v", cut, size, text, err)
			}
		}
	}
}

// An answer that is made again and differs anywhere in what was sent is not joined.
func TestAnotherAnswerIsNotJoined(t *testing.T) {
	t.Parallel()
	const sent = "one two three"
	for at := range len(sent) {
		other := []byte(sent + " four")
		other[at] ^= 1
		text, _, _, err := join(t, request(t, `,"temperature":0`), sent, false, &said{pieces: pieces(string(other), 2), finish: chat.Stop})
		if !errors.Is(err, resume.ErrDiverged) || text != sent {
			t.Errorf("%q: %q, %v", other, text, err)
		}
	}
}

// Clients are told the prompt once, and the joined answer.
func TestTheUsageOfAJoinedAnswer(t *testing.T) {
	t.Parallel()
	transcript := new(chat.Transcript)
	for _, piece := range []string{"a", " b", " c"} {
		transcript.Add(chat.Text(piece))
	}
	for name, test := range map[string]struct {
		told        schema.Usage
		canContinue bool
		prompt, all int64
	}{
		"continued":              {schema.Usage{}, true, 17, 8},
		"continued, prompt told": {schema.Usage{Prompt: 16, Total: 16, Known: true}, true, 16, 9},
		"made again":             {schema.Usage{}, false, 20, 5},
	} {
		broken, reason := resume.Read(request(t, `,"seed":1`), transcript, test.told)
		if reason != "" {
			t.Fatal(reason)
		}
		plan, _ := broken.For(test.canContinue)
		usage := plan.Join(&said{}).Usage()
		if usage.Prompt != test.prompt || usage.Completion != test.all || usage.Total != 25 {
			t.Errorf("%s: %+v", name, usage)
		}
	}
}
