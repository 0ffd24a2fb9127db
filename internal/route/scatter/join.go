package scatter

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Part is the answer to one piece.
type Part struct {
	from  int // the first input of the piece
	usage schema.Usage
	doc   jsonscan.Document
	list  jsonscan.Value // the vectors, results or completions
}

// ReadPart reads the answer to a piece, in the unified shape. The part shares memory with
// the answer if that is one segment.
func ReadPart(door schema.Door, piece Piece, answer *dialect.Reply) (*Part, error) {
	text := answer.Segments[0]
	if len(answer.Segments) > 1 {
		text = slices.Concat(answer.Segments...)
	}
	p := &Part{from: piece.From, usage: answer.Usage}
	if _, err := dialect.Parse(&p.doc, text); err != nil {
		return nil, err
	}
	if p.list = p.doc.Root().Get(resultsName(door)); p.list.Kind() != jsonscan.Array {
		return nil, fmt.Errorf("%w: no results", dialect.ErrInvalid)
	}
	return p, nil
}

// resultsName returns the name of the list that the answers of a door have.
func resultsName(door schema.Door) string {
	switch door {
	case schema.DoorRerank:
		return "results"
	case schema.DoorCompletions:
		return "choices"
	}
	return "data"
}

// Join makes one answer of the answers to all pieces, in their order. It begins like the
// answer to the first piece; the elements of the others follow as they came, with numbers
// that count from the beginning of the request. Usages are added up. If one of them is not
// known, the sum is not known. The reply shares memory with the parts.
func Join(req *schema.Request, parts []*Part, reply *dialect.Reply) {
	reply.Usage = joinUsage(parts)
	first := parts[0]
	start, end := first.list.Span()
	edits := sums(parts, reply.Usage.Known)
	// Of the first answer everything but the elements of the list stays.
	head := slices.DeleteFunc(slices.Clone(edits), func(e jsonscan.Edit) bool { return e.Start > start })
	tail := slices.DeleteFunc(edits, func(e jsonscan.Edit) bool { return e.Start < end })
	data := first.doc.Data()
	segments := splice(reply.Segments[:0], data, head, 0, start+1)
	if req.Door == schema.DoorRerank {
		segments = joinRanked(segments, req, parts)
	} else {
		segments = joinInOrder(segments, parts, answersPerInput(req))
	}
	reply.Segments = splice(segments, data, tail, end-1, len(data))
}

// joinUsage adds usages up.
func joinUsage(parts []*Part) (sum schema.Usage) {
	sum = schema.Usage{Known: true, IsCachedTold: true}
	for _, p := range parts {
		u := p.usage
		if !u.Known {
			return schema.Usage{}
		}
		sum.Prompt += u.Prompt
		sum.Completion += u.Completion
		sum.Total += u.Total
		sum.Cached += u.Cached
		sum.Written += u.Written
		sum.Seconds += u.Seconds
		sum.IsCachedTold = sum.IsCachedTold && u.IsCachedTold
	}
	return sum
}

// answersPerInput returns how many elements of the answer belong to one input.
func answersPerInput(req *schema.Request) int {
	if req.Door == schema.DoorCompletions {
		return dialect.WantedChoices(req)
	}
	return 1
}

var comma = []byte{','}

// joinInOrder appends the elements of all parts.
func joinInOrder(segments [][]byte, parts []*Part, perInput int) [][]byte {
	written := false
	for _, p := range parts {
		if p.list.Empty() {
			continue
		}
		start, end := p.list.Span()
		var edits []jsonscan.Edit
		if offset := p.from * perInput; offset > 0 {
			for v := p.list.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
				if number := v.Get("index"); number.Given() {
					edits = append(edits, renumbered(number, offset))
				}
			}
		}
		if written {
			segments = append(segments, comma)
		}
		written = true
		segments = splice(segments, p.doc.Data(), edits, start+1, end-1)
	}
	return segments
}

// renumbered returns the edit that adds to a number. Anything but a whole number stays.
func renumbered(number jsonscan.Value, offset int) jsonscan.Edit {
	n, ok := number.Int()
	if !ok {
		return number.Replace(number.Raw())
	}
	return number.Replace(strconv.AppendInt(nil, n+int64(offset), 10))
}

// rankedResult is a result of a rerank.
type rankedResult struct {
	part  *Part
	value jsonscan.Value
	index int64 // among all documents
	score float64
}

// joinRanked appends the results of all parts, the best first, and no more than the request
// wants. Of equal ones the earlier document goes first.
func joinRanked(segments [][]byte, req *schema.Request, parts []*Part) [][]byte {
	var all []rankedResult
	for _, p := range parts {
		for v := p.list.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
			index, _ := v.Get("index").Int()
			score, _ := v.Get("relevance_score").Float()
			all = append(all, rankedResult{p, v, index + int64(p.from), score})
		}
	}
	slices.SortStableFunc(all, func(a, b rankedResult) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.index, b.index))
	})
	if top, ok := req.Field(topName).Int(); ok {
		all = all[:min(int64(len(all)), top)]
	}
	for n, r := range all {
		if n > 0 {
			segments = append(segments, comma)
		}
		start, end := r.value.Span()
		edits := []jsonscan.Edit{r.value.Get("index").Replace(strconv.AppendInt(nil, r.index, 10))}
		segments = splice(segments, r.part.doc.Data(), edits, start, end)
	}
	return segments
}

// splice appends a range of a text with edits made, which are in order and within it.
func splice(segments [][]byte, text []byte, edits []jsonscan.Edit, from, to int) [][]byte {
	for _, e := range edits {
		if e.Start > from {
			segments = append(segments, text[from:e.Start])
		}
		segments = append(segments, e.With)
		from = e.End
	}
	if to > from {
		segments = append(segments, text[from:to])
	}
	return segments
}
