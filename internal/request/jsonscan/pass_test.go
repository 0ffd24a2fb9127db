package jsonscan

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What is passed over ends where a Document that records everything says.
func TestEndsOfValuesAreThoseOfTheScan(t *testing.T) {
	pieces := rapid.SampledFrom([]string{
		"a", "plain words ", strings.Repeat("long text without an end ", 20), `\"`, `\\`, `\n`, `\u00e9`, `\ud83d\ude00`, strings.Repeat(`\u4f60`, 30),
		"é", "你", "{", "}", "[", "]", ",", ":",
	})
	text := rapid.Custom(func(t *rapid.T) string {
		return `"` + strings.Join(rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces"), "") + `"`
	})
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			kinds := 3
			if depth == 0 {
				kinds = 1
			}
			gap := space.Draw(t, "space")
			switch rapid.IntRange(0, kinds).Draw(t, "kind") {
			case 0:
				return text.Draw(t, "text")
			case 1:
				return rapid.SampledFrom([]string{"1", "-2.5e3", "true", "null", strings.Repeat("7", 40)}).Draw(t, "scalar")
			case 2:
				return "[" + gap + strings.Join(rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "list"), gap+","+gap) + gap + "]"
			}
			var members []string
			for _, v := range rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "members") {
				members = append(members, text.Draw(t, "key")+gap+":"+gap+v)
			}
			return "{" + gap + strings.Join(members, gap+","+gap) + gap + "}"
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		all, doc := Document{Deep: true, AllowDuplicateKeys: true}, Document{AllowDuplicateKeys: true}
		list := []byte("[" + space.Draw(t, "space") + value(6).Draw(t, "value") + space.Draw(t, "space") + "]")
		for _, d := range []*Document{&doc, &all, &doc} { // the second time after another text
			if err := d.Parse(list); err != nil {
				t.Fatal(err)
			}
		}
		compareEnds(t, &doc, all.Root())
	})
}

// compareEnds compares the ends of all values within v, and of all keys, with those that a
// document finds which records less.
func compareEnds(t *rapid.T, doc *Document, v Value) {
	for inner := v.First(); inner.Kind() != Absent; inner = inner.Next() {
		start, end := inner.Span()
		if got := doc.EndOfValue(start); got != end {
			t.Fatalf("%s at %d ends at %d, want %d", doc.data, start, got, end)
		}
		if key := inner.RawKey(); v.Kind() == Object {
			start, _ := inner.MemberSpan()
			if got := doc.EndOfString(start + 1); got != start+1+len(key) {
				t.Fatalf("%s: the key at %d ends at %d, want %d", doc.data, start, got, start+1+len(key))
			}
		}
		compareEnds(t, doc, inner)
	}
}
