package scatter

import (
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// counted are the members of an answer that have counts: tokens, or the units that a
// provider of rankings bills.
var counted = [...]string{"usage", "meta"}

// sums returns the edits that put sums in the place of the counts of the first answer, in
// the order of the text. Where not all are known, the counts become those of an answer
// that does not report them.
func sums(parts []*Part, known bool) (edits []jsonscan.Edit) {
	for _, name := range counted {
		own := parts[0].doc.Root().Get(name)
		var values []jsonscan.Value
		for _, p := range parts {
			if v := p.doc.Root().Get(name); v.Kind() == jsonscan.Object && (known || !p.usage.Known) {
				values = append(values, v)
			}
		}
		if !known {
			values = values[:min(len(values), 1)]
		}
		if own.Kind() == jsonscan.Object && len(values) > 0 {
			edits = append(edits, own.Replace(sum(values[0], values)))
		}
	}
	slices.SortFunc(edits, func(a, b jsonscan.Edit) int { return a.Start - b.Start })
	return edits
}

// sum returns an object with the members of a first one. Whole numbers are the sums
// over all values, objects are sums again, and anything else is as it was.
func sum(first jsonscan.Value, all []jsonscan.Value) []byte {
	if first.Kind() != jsonscan.Object || first.First().Kind() == jsonscan.Absent {
		return first.Raw()
	}
	var w jsonwrite.Writer
	w.Object()
	for m := first.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		key := string(m.Key())
		values := make([]jsonscan.Value, 0, len(all))
		for _, v := range all {
			if own := v.Get(key); own.Kind() == m.Kind() {
				values = append(values, own)
			}
		}
		w.TextName(key)
		switch m.Kind() {
		case jsonscan.Number:
			w.Raw(total(m, values))
		case jsonscan.Object:
			w.Raw(sum(m, values))
		default:
			w.Raw(m.Raw())
		}
	}
	w.EndObject()
	return w.Out
}

// total adds numbers up. Where one of them is not whole, such as seconds, the sum is a
// decimal number.
func total(first jsonscan.Value, all []jsonscan.Value) []byte {
	var whole int64
	var decimal float64
	isWhole := true
	for _, v := range all {
		n, ok := v.Int()
		isWhole = isWhole && ok
		whole += n
		f, ok := v.Float()
		if !ok {
			return first.Raw()
		}
		decimal += f
	}
	if isWhole {
		return strconv.AppendInt(nil, whole, 10)
	}
	return strconv.AppendFloat(nil, decimal, 'f', -1, 64)
}
