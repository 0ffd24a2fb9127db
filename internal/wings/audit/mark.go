package audit

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/go-json-experiment/json"
)

// position is a record of a chain; the zero position is before the first one.
type position struct {
	Chain int    `json:"chain"`
	Seq   int64  `json:"seq"`
	Hash  string `json:"hash,omitzero"`
}

// mark is what a gateway remembers of the end of a chain. It is kept before records are written: a
// chain that ends with the last record or one of the next is as the gateway left it.
type mark struct {
	Name string     `json:"name"`
	Last position   `json:"last"`
	Next []position `json:"next,omitzero"`
	MAC  string     `json:"mac,omitzero"`
}

// lastFile has the marks of both chains. If a database keeps them, those of the file are as old as
// the last heads.
const lastFile = "last"

// mark returns a mark as text.
func (s *signer) mark(m mark) string {
	m.MAC = ""
	m.MAC = s.mac(canonical(m))
	return string(canonical(m))
}

// readMark returns the mark of a chain, if this gateway wrote the text.
func (s *signer) readMark(name, text string) (m mark, isOwn bool) {
	if json.Unmarshal([]byte(text), &m) != nil {
		return mark{}, false
	}
	given := m.MAC
	m.MAC = ""
	isOwn = m.Name == name && hmac.Equal([]byte(s.mac(canonical(m))), []byte(given))
	return m, isOwn
}

// readMarks reads the file of marks.
func (w *Writer) readMarks() error {
	text, err := w.options.Dir.Read(lastFile)
	w.marks = map[string]string{}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && json.Unmarshal(text, &w.marks) != nil {
		w.marks = map[string]string{} // the marks are missing
	}
	return err
}

// keepMark keeps the mark of a chain in the file.
func (w *Writer) keepMark(name, text string) error {
	w.marks[name] = text
	content, err := json.Marshal(w.marks, json.Deterministic(true))
	if err != nil {
		return err
	}
	return w.options.Dir.Write(lastFile, content)
}

// settle keeps the mark of a chain of which no record is being written.
func (w *Writer) settle(ctx context.Context, c *chain) error {
	text := w.signer.mark(mark{Name: c.name, Last: c.at()})
	if w.options.Store.KeepsMarks() {
		if err := w.options.Store.SetMark(ctx, c.name, text); err != nil {
			return err
		}
	}
	return w.keepMark(c.name, text)
}

// check returns why a chain cannot be continued, empty if it can, and up to which record this
// gateway is known to have written it.
func (w *Writer) check(ctx context.Context, c *chain, s *State) (why string, known position, err error) {
	end := position{s.Chain, s.Last.Seq, s.Last.Hash}
	text := w.marks[c.name]
	floor, isFloor := w.signer.readMark(c.name, text)
	if w.options.Store.KeepsMarks() {
		text = s.Mark
	}
	m, isOwn := w.signer.readMark(c.name, text)
	isHead := w.isHead(s)
	switch {
	case isOwn && (end == m.Last || slices.Contains(m.Next, end)):
		known = end
	case isOwn && m.Last.Chain > 0:
		known, err = w.followed(ctx, c, m)
		why = "its end is not the one that this gateway wrote"
	case isFloor && floor.Last.Chain > 0:
		known = floor.Last
		why = "the database does not have the mark of its end that this gateway wrote"
	default:
		if isHead {
			known = position{s.Chain, s.Head.Seq, s.Head.Hash}
		}
		if s.Chain > 0 || !isFloor && !w.signer.isNew {
			why = "the mark of its end, audit/" + lastFile + ", is missing or is not the one that this gateway wrote"
		}
	}
	switch {
	case err != nil:
	case s.Fault != "":
		why = s.Fault
	case why == "" && isFloor &&
		(floor.Last.Chain > end.Chain || floor.Last.Chain == end.Chain && floor.Last.Seq > end.Seq):
		why, known = fmt.Sprintf("records up to seq %d were written and are missing", floor.Last.Seq), floor.Last
	case why == "" && isHead && s.Head.Seq > s.Last.Seq:
		why = fmt.Sprintf("records up to seq %d were signed and are missing", s.Head.Seq)
		known = position{s.Chain, s.Head.Seq, s.Head.Hash}
	}
	return why, known, err
}

// isHead reports whether the gateway signed the last head of the chain that is there. A gateway
// whose key is new accepts the keys before it.
func (w *Writer) isHead(s *State) bool {
	keys := []PublicKey{w.signer.public}
	if w.signer.isNew {
		keys = append(keys, s.Keys...)
	}
	return s.Head.Seq > 0 && s.Head.Time >= s.First && verifies(keys, s.Head.Gateway, s.Head.signed(), s.Head.Signature)
}

// followed returns the last record that follows a mark as the gateway wrote it.
func (w *Writer) followed(ctx context.Context, c *chain, m mark) (position, error) {
	known := m.Last
	for _, next := range m.Next {
		records, err := w.options.Store.After(ctx, c.name, next.Chain, next.Seq-1, 1)
		if err != nil || len(records) == 0 || records[0].Hash != next.Hash {
			return known, err
		}
		known = next
	}
	return known, nil
}

// beginning returns the object of the first record of a new chain, and the last record before it
// that this gateway is known to have written. An empty text means that the chain is continued.
func (w *Writer) beginning(ctx context.Context, c *chain, s *State) (why string, known position, err error) {
	why, known, err = w.check(ctx, c, s)
	switch {
	case err != nil:
		return "", known, err
	case s.Restored.Time > s.Last.Time && (s.Chain > 0 || !IsLow(c.name)):
		why = "a backup of " + s.Restored.Made + " was restored at " + s.Restored.Time
	case why == "":
		return "", known, nil
	default:
		why = "the chain before cannot be continued: " + why
	}
	before := known
	if before.Chain == 0 && s.Chain > 0 {
		before = position{Chain: s.Chain, Hash: "unknown"}
	}
	if before.Chain > 0 && (s.Last.Gateway == "" || s.Last.Gateway == c.name) {
		why += fmt.Sprintf("; chain %d before it ended at seq %d, hash %s", before.Chain, before.Seq, before.Hash)
	}
	return why, known, nil
}
