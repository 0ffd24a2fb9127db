package resume

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ErrDiverged means that another answer does not go on with the one that was sent: it has
// other text, or reasoning before the rest.
var ErrDiverged = errors.New("the other answer does not go on with what was sent")

// Joint is the rest of an answer that another instance goes on with.
type Joint struct {
	from dialect.Deltas
	plan Plan
	sent *chat.Transcript

	missing []byte   // must come, and was sent before
	blank   []byte   // may come, and was sent before
	rests   [][]byte // the missing ends of stop sequences that have begun
	held    []byte   // text that may be the end of a stop sequence

	last chat.Delta // the end, where the gateway tells it
	over bool       // nothing follows
}

// Join returns the rest of an answer, given the deltas of the instance that goes on with it.
func (p *Plan) Join(from dialect.Deltas) *Joint {
	j := &Joint{from: from, plan: *p, sent: p.broken.sent, blank: p.blank}
	switch {
	case p.How == Aligned:
		j.missing = []byte(p.broken.text)
	case !p.isFull:
		j.rests = p.broken.rests()
	}
	return j
}

// Raw returns the usage that the instance reported for its own call.
func (j *Joint) Raw() schema.Usage { return j.from.Usage().Tokens }

// Usage returns the usage for the client: the tokens of the prompt once, and the tokens
// of the joined answer.
func (j *Joint) Usage() chat.Usage {
	u := j.from.Usage()
	if !u.Known || j.plan.How != Continued {
		return u
	}
	told := j.plan.broken.told
	prompt := max(u.Prompt-j.plan.Sent, 0)
	if told.Known && told.Prompt > 0 && told.Prompt <= u.Prompt {
		prompt = told.Prompt
	}
	if j.plan.isFull { // the token beyond the limit was not sent
		u.Total -= u.Completion
		u.Completion = 0
	}
	u.Completion += u.Prompt - prompt
	u.Prompt = prompt
	u.Tokens.Cached, u.Cached = min(u.Tokens.Cached, prompt), min(u.Cached, prompt)
	return u
}

// Next returns the next delta that the client does not have.
func (j *Joint) Next() (*chat.Delta, error) {
	for !j.over {
		delta, err := j.from.Next()
		switch {
		case errors.Is(err, dialect.ErrEmpty) && j.plan.How == Continued:
			return j.end(chat.Stop, nil), nil // nothing was missing but the end
		case errors.Is(err, io.EOF) && len(j.missing) > 0:
			return nil, fmt.Errorf("%w: it is shorter", ErrDiverged)
		case err != nil:
			return nil, err
		}
		if j.isClear() && !needsCare(delta) {
			j.sent.Note(delta)
			return delta, nil
		}
		found, err := j.take(delta)
		if err != nil {
			return nil, err
		}
		if found != nil {
			j.sent.Note(found)
			return found, nil
		}
	}
	return nil, io.EOF
}

// isClear reports whether nothing of the following text was sent before.
func (j *Joint) isClear() bool {
	return len(j.missing)+len(j.blank)+len(j.rests) == 0 && !j.plan.isFull
}

// needsCare reports whether a delta has something that the rest of an answer must not have.
func needsCare(delta *chat.Delta) bool {
	for i := range delta.Choices {
		if c := &delta.Choices[i]; c.Index > 0 || c.Begins || len(c.Thinking)+len(c.Blocks)+len(c.Details) > 0 {
			return true
		}
	}
	return false
}

// take returns the part of a delta that the client does not have, nil if there is
// none.
func (j *Joint) take(delta *chat.Delta) (*chat.Delta, error) {
	c := delta.First()
	if c == nil {
		return nil, nil //nolint:nilnil // there is nothing in it
	}
	if len(c.Thinking) > 0 {
		return nil, fmt.Errorf("%w: the model thinks", ErrDiverged)
	}
	delta.Choices = delta.Choices[:1]
	c.Begins, c.HasNoText, c.Blocks, c.Details = false, false, nil, nil
	text, err := j.rest(c)
	if err != nil {
		return nil, err
	}
	if j.plan.isFull {
		text, c.Calls, c.Refusal = nil, nil, nil
		if c.Finish != "" {
			c.Finish, c.StopSequence = chat.Length, nil
		}
	}
	text, stop := j.withoutStop(text, c.Finish != "" || len(c.Calls) > 0)
	if stop != nil {
		return j.end(chat.Stop, stop), nil
	}
	c.Text = nil
	if len(text) > 0 {
		c.Text = chat.Escape(text)
	}
	if !c.HasContent() && c.Finish == "" {
		return nil, nil //nolint:nilnil // the client has it
	}
	return delta, nil
}

// rest returns the text of a choice without the part that was sent before.
func (j *Joint) rest(c *chat.Choice) ([]byte, error) {
	text := chat.Unescape(c.Text)
	if len(j.missing) > 0 {
		n := min(len(text), len(j.missing))
		if !bytes.Equal(text[:n], j.missing[:n]) || len(c.Calls)+len(c.Refusal)+len(c.Images) > 0 {
			return nil, fmt.Errorf("%w: it says something else", ErrDiverged)
		}
		text, j.missing = text[n:], j.missing[n:]
		if c.Finish != "" && len(j.missing) > 0 {
			return nil, fmt.Errorf("%w: it is shorter", ErrDiverged)
		}
		return text, nil
	}
	if len(j.blank) > 0 && len(text) > 0 {
		n := commonPrefix(text, j.blank)
		j.blank = j.blank[n:]
		if text = text[n:]; len(text) > 0 {
			j.blank = nil
		}
	}
	return text, nil
}

// withoutStop holds text back while it may be the end of a stop sequence that began in the
// sent text, and returns the sequence's end when it is.
func (j *Joint) withoutStop(text []byte, isLast bool) (rest, stop []byte) {
	if len(j.rests) == 0 {
		return text, nil
	}
	j.held = append(j.held, text...)
	isOpen := false
	for _, end := range j.rests {
		if bytes.HasPrefix(j.held, end) {
			return nil, end
		}
		isOpen = isOpen || bytes.HasPrefix(end, j.held)
	}
	if isOpen && !isLast {
		return nil, nil
	}
	rest, j.rests, j.held = j.held, nil, nil
	return rest, nil
}

// end returns the last delta, with a reason that the gateway knows.
func (j *Joint) end(reason chat.FinishReason, stop []byte) *chat.Delta {
	j.over = true
	c := j.last.Add(0)
	c.Finish = reason
	if stop != nil {
		for _, whole := range j.plan.broken.stops {
			if bytes.HasSuffix(whole, stop) {
				c.StopSequence = whole
			}
		}
	}
	return &j.last
}
