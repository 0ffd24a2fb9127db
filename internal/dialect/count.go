package dialect

import (
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// CountError means that an answer has another number of parts than were asked for.
// It is an ErrInvalid.
type CountError struct {
	// What names the counted thing, in the singular.
	What      string
	Want, Got int
	// Harmless says that it tells nothing against the backend: it has no way to
	// give as many, and the next caller may not ask for them.
	Harmless bool
}

// Error names the expected and the received number; callers may read it.
func (e *CountError) Error() string {
	text := strings.TrimSuffix(e.Said().String(), ".")
	return strings.ToLower(text[:1]) + text[1:]
}

// Said names the expected and the received number.
func (e *CountError) Said() say.Sentence {
	code := say.Code("call.count")
	if e.Want == 1 {
		code = "call.count_one"
	}
	return say.New(code, "got", counted(e.Got, e.What), "wanted", e.Want)
}

// Unwrap makes it an ErrInvalid.
func (e *CountError) Unwrap() error { return ErrInvalid }

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// WrongVectors says that vectors and inputs cannot be matched.
func WrongVectors(got, want int) error { return &CountError{What: "vector", Want: want, Got: got} }

// TokenIDsHint tells a caller how to do without token ids, because its backend takes
// none. Some clients send them unless they are told not to.
const TokenIDsHint = "Send the text itself; in LangChain set check_embedding_ctx_length=False."

// RefuseTokenIDs refuses token ids where only texts can be sent.
func RefuseTokenIDs() error { return schema.BadField("input", "value.texts_not_ids") }

// WantedChoices returns how many choices a request asks for.
func WantedChoices(req *schema.Request) int {
	if req.Decode != nil {
		return 1
	}
	n, ok := req.Field("n").Int()
	if !ok || n < 1 {
		return 1
	}
	return int(n)
}

// CheckChoices says that there are fewer choices than the several that were asked
// for.
func CheckChoices(got, want int) error {
	if want <= 1 || got >= want {
		return nil
	}
	return &CountError{What: "choice", Want: want, Got: got, Harmless: true}
}

// TokenCount reads one count; one that is not there is zero.
func TokenCount(v jsonscan.Value) (int64, bool) {
	const most = 1 << 40 // more than that is no count
	if !v.Given() {
		return 0, true
	}
	n, ok := v.Int()
	return n, ok && n >= 0 && n <= most
}

// ReadCount returns the count that the answer to a question for it has under a name, and
// whether another gateway has estimated it.
func (r *Reply) ReadCount(answer Answer, name string) (n int64, isEstimated bool, err error) {
	root, err := r.Scan(answer.Body)
	if err != nil {
		return 0, false, err
	}
	n, ok := TokenCount(root.Get(name))
	if !ok || !root.Get(name).Given() {
		return 0, false, Invalid("no count")
	}
	return n, root.IsTrue("estimated"), nil
}

// Counts returns an adapter for questions for a number of tokens, which the answers have under a name.
// write makes the reply of the number.
func Counts(rules accountids.Rules, call func(*schema.Request, *Target, *wire.Call) error, name string,
	write func(n int64, isEstimated bool) []byte) *Adapter {
	return &Adapter{Account: rules, Call: call, Reply: func(_ *schema.Request, answer Answer, reply *Reply) error {
		n, isEstimated, err := reply.ReadCount(answer, name)
		if err == nil {
			reply.Set(write(n, isEstimated))
		}
		return err
	}}
}

// WriteCount returns an object that begins with a count. A count that no backend gave is
// marked as an estimate.
func WriteCount(begin string, n int64, isEstimated bool) []byte {
	var w jsonwrite.Writer
	w.Open(begin).Int(n)
	if isEstimated {
		w.Literal(`"estimated":true`)
	}
	w.EndObject()
	return w.Out
}

// CallTokenize asks for the tokens of the chat; the answer has their number as count.
func CallTokenize(req *schema.Request, to *Target, call *wire.Call) error {
	asked, err := req.Chat()
	if err != nil {
		return err
	}
	var w jsonwrite.Writer
	w.Object()
	w.Member("model", to.ModelNameJSON(req))
	w.Name("messages")
	chat.WriteMessages(&w, asked.Messages)
	asked.WriteTools(&w)
	w.Literal(`"add_generation_prompt":true`)
	w.EndObject()
	to.Begin(call, to.PathFor(req), "application/json", "application/json")
	call.Body = append(call.Body[:0], w.Out)
	return nil
}
