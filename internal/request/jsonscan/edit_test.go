package jsonscan

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestSplice(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		edits      func(root Value) []Edit
	}{
		"no edit": {`{"a":1}`, `{"a":1}`, func(Value) []Edit { return nil }},
		"replace a value": {`{"a":1,"model":"x" }`, `{"a":1,"model":"y" }`, func(r Value) []Edit {
			return []Edit{r.Get("model").Replace([]byte(`"y"`))}
		}},
		"insert into an object":       {`{"a":1}`, `{"b":2,"a":1}`, func(r Value) []Edit { return []Edit{r.Insert([]byte(`"b":2`))} }},
		"insert into an empty object": {`{ }`, `{"b":2 }`, func(r Value) []Edit { return []Edit{r.Insert([]byte(`"b":2`))} }},
		"remove the first":            {`{ "a":1 , "b":2}`, `{  "b":2}`, func(r Value) []Edit { return []Edit{r.Get("a").Remove()} }},
		"remove the last":             {`{"a":1 , "b":2 }`, `{"a":1  }`, func(r Value) []Edit { return []Edit{r.Get("b").Remove()} }},
		"remove the only one":         {`{ "a":1 }`, `{  }`, func(r Value) []Edit { return []Edit{r.Get("a").Remove()} }},
		"several in any order": {`{"a":1,"b":2,"c":3}`, `{"z":0,"a":9,"c":3}`, func(r Value) []Edit {
			return []Edit{r.Get("b").Remove(), r.Get("a").Replace([]byte("9")), r.Insert([]byte(`"z":0`))}
		}},
		"replace everything": {`{"a":1}`, `[]`, func(r Value) []Edit { return []Edit{r.Replace([]byte("[]"))} }},
		"longer and shorter": {`{"a":1,"b":"long","c":3}`, `{"a":100,"b":2,"c":3}`, func(r Value) []Edit {
			return []Edit{r.Get("a").Replace([]byte("100")), r.Get("b").Replace([]byte("2"))}
		}},
		"remove the first and insert": {`{"a":1,"b":2}`, `{"x":0,"y":0,"b":2}`, func(r Value) []Edit {
			return []Edit{r.Get("a").Remove(), r.Insert([]byte(`"x":0`)), r.Insert([]byte(`"y":0`))}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var doc Document
			if err := doc.Parse([]byte(c.text)); err != nil {
				t.Fatal(err)
			}
			edits := c.edits(doc.Root())
			segments := doc.Splice(nil, edits)
			for _, segment := range segments {
				if len(segment) == 0 {
					t.Errorf("an empty segment in %q", segments)
				}
			}
			got := bytes.Join(segments, nil)
			checkMoved(t, c.text, string(got), edits)
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if err := new(Document).Parse(got); err != nil {
				t.Errorf("the result is no JSON: %v", err)
			}
		})
	}
}

// checkMoved requires that the bytes which no edit touches are found where Moved
// says that they are.
func checkMoved(t *testing.T, before, after string, edits []Edit) {
	t.Helper()
	for place := range before {
		touched := slices.ContainsFunc(edits, func(e Edit) bool { return e.Start <= place && place < e.End })
		if moved := Moved(edits, place); !touched && (moved < 0 || moved >= len(after) || after[moved] != before[place]) {
			t.Errorf("%q at %d of %s is not at %d of %s", before[place], place, before, moved, after)
		}
	}
}

// Many edits in the worst order take no quadratic time and keep their order where
// they are in one place.
func TestSpliceBringsManyEditsIntoOrder(t *testing.T) {
	var doc Document
	if err := doc.Parse([]byte(`[` + strings.Repeat("0,", 50_000) + `0]`)); err != nil {
		t.Fatal(err)
	}
	var edits []Edit
	for v := doc.Root().First(); v.Kind() != Absent; v = v.Next() {
		start, _ := v.Span()
		edits = append(edits, v.Replace([]byte("12")), Edit{Start: start, End: start, With: []byte("[")}, Edit{Start: start, End: start, With: []byte("]+")})
	}
	slices.Reverse(edits)
	for i := 0; i+2 < len(edits); i += 3 {
		edits[i], edits[i+1] = edits[i+1], edits[i]
	}
	got := bytes.Join(doc.Splice(nil, edits), nil)
	if want := `[` + strings.Repeat("[]+12,", 50_000) + `[]+12]`; string(got) != want {
		t.Errorf("got %.60s, want %.60s", got, want)
	}
}
