package jsonwrite

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

func scanned(t *testing.T, text string) jsonscan.Value {
	t.Helper()
	var doc jsonscan.Document
	if err := doc.Parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return doc.Root()
}

func TestCommasStandBetweenSiblingsOnly(t *testing.T) {
	source := scanned(t, `{"a\"b": [1, 2], "null": null, "c": "x"}`)
	for want, write := range map[string]func(*Writer){
		`{}`:    func(w *Writer) { w.Object(); w.EndObject() },
		`[]`:    func(w *Writer) { w.Array(); w.EndArray() },
		`[1,2]`: func(w *Writer) { w.Array(); w.Int(1); w.Int(2); w.EndArray() },
		`[[],[],{}]`: func(w *Writer) {
			w.Array()
			w.Array()
			w.EndArray()
			w.Array()
			w.EndArray()
			w.Object()
			w.EndObject()
			w.EndArray()
		},
		`{"a":1,"b":[],"c":"x"}`: func(w *Writer) {
			w.Object()
			w.Name("a")
			w.Int(1)
			w.Name("b")
			w.Array()
			w.EndArray()
			w.Name("c")
			w.Literal(`"x"`)
			w.EndObject()
		},
		`{"a":{"b":{}},"c":0}`: func(w *Writer) {
			w.Object()
			w.Name("a")
			w.Object()
			w.Name("b")
			w.Object()
			w.EndObject()
			w.EndObject()
			w.Name("c")
			w.Int(0)
			w.EndObject()
		},
		`["a\n","\u00e9","\"é"]`: func(w *Writer) {
			w.Array()
			w.Escaped([]byte(`a\n`))
			w.Escaped([]byte(`\u00e9`))
			w.Text([]byte(`"é`))
			w.EndArray()
		},
		`{"a\"b":[1, 2],"c":"x"}`: func(w *Writer) {
			w.Object()
			w.Copy(source.First())
			w.Field("null", source.Get("null"))
			w.Field("gone", source.Get("gone"))
			w.Field("c", source.Get("c"))
			w.EndObject()
		},
		`{"head":[{"a":1}]}`: func(w *Writer) {
			w.Begin(w.Out, []byte(`{"head":[`))
			w.Object()
			w.Member("a", []byte("1"))
			w.EndObject()
			w.EndArray()
			w.EndObject()
		},
	} {
		var w Writer
		write(&w)
		if string(w.Out) != want {
			t.Errorf("%s, want %s", w.Out, want)
		}
	}
}

func TestWritingIntoMemoryThatIsThereAllocatesNothing(t *testing.T) {
	var w Writer
	text := []byte("text")
	allocations := testing.AllocsPerRun(100, func() {
		w.Begin(w.Out, nil)
		w.Object()
		w.Name("a")
		w.Text(text)
		w.Member("b", text)
		w.Name("c")
		w.Array()
		w.Int(1 << 40)
		w.EndArray()
		w.EndObject()
	})
	if allocations != 0 {
		t.Errorf("%v allocations, want none", allocations)
	}
}

// Of several members of one name the first counts.
func TestMembersHaveEveryNameOnce(t *testing.T) {
	var members Members
	if !members.Empty() {
		t.Error("there are members before any was added")
	}
	for round := range 2 {
		for i := range 100 {
			members.Add(fmt.Sprint("k", i), strconv.AppendInt(nil, int64(round), 10))
		}
	}
	if got := string(members.Object()); strings.Count(got, ":0") != 100 || strings.Contains(got, ":1") {
		t.Errorf("the members are %s", got)
	}
}
