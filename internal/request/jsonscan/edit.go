package jsonscan

import (
	"cmp"
	"slices"
)

// Edit replaces a part of a text.
type Edit struct {
	Start, End int
	With       []byte

	comma bool // a comma follows the insertion
}

var commaText = []byte{','}

func compareEdits(a, b Edit) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
}

// sortEdits brings edits into the order of the text; edits of one place keep their
// order. Most texts get a handful, and moving each to its place is fastest for so few.
func sortEdits(edits []Edit) {
	const few = 12
	if len(edits) > few {
		if !slices.IsSortedFunc(edits, compareEdits) {
			slices.SortStableFunc(edits, compareEdits)
		}
		return
	}
	for i := range edits {
		for j := i; j > 0 && compareEdits(edits[j], edits[j-1]) < 0; j-- {
			edits[j], edits[j-1] = edits[j-1], edits[j]
		}
	}
}

// Replace returns the edit that gives v another value, written as JSON.
func (v Value) Replace(with []byte) Edit {
	start, end := v.Span()
	return Edit{Start: start, End: end, With: with}
}

// Insert returns the edit that puts members, written as JSON without a comma
// around them, in front of the first member of the object v.
func (v Value) Insert(members []byte) Edit {
	start, _ := v.Span()
	return Edit{Start: start + 1, End: start + 1, With: members, comma: !v.Empty()}
}

// Remove returns the edit that takes the member v out of its object, together
// with the comma that becomes superfluous.
func (v Value) Remove() Edit {
	data := v.doc.data
	start, end := v.MemberSpan()
	if after := skipSpace(data, end); data[after] == ',' {
		return Edit{Start: start, End: after + 1}
	}
	before := start - 1
	for isSpace(data[before]) {
		before--
	}
	if data[before] == ',' {
		start = before
	}
	return Edit{Start: start, End: end}
}

// Moved returns where a place of the text that no edit touches is after them.
func Moved(edits []Edit, place int) int {
	moved := place
	for i := range edits {
		if e := &edits[i]; e.End <= place {
			moved += len(e.With) - (e.End - e.Start)
			if e.comma {
				moved++
			}
		}
	}
	return moved
}

// Splice appends to dst the segments of the text with the edits made. The edits must
// not overlap; they are brought into order here. An insertion comes before a
// replacement in the same place.
func (d *Document) Splice(dst [][]byte, edits []Edit) [][]byte {
	sortEdits(edits)
	at := 0
	for _, e := range edits {
		if e.Start > at {
			dst = append(dst, d.data[at:e.Start])
		}
		if len(e.With) > 0 {
			dst = append(dst, e.With)
		}
		if e.comma {
			dst = append(dst, commaText)
		}
		at = e.End
	}
	if at < len(d.data) {
		dst = append(dst, d.data[at:])
	}
	return dst
}
