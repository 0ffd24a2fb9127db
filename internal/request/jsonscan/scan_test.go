package jsonscan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestParseAccepts(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `null`, `true`, `false`, `0`, `-0`, `1.5e-10`, `1E+2`, `""`, ` {"a" : [ 1 , 2 ] } `,
		`"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`, `"é你好🙂"`, `{"a":{"a":1},"b":[{"a":1},{"a":2}]}`,
		`"\ud83d"`, `"\ude00"`, `"\ud800\u0041"`, `"\ud83d\ud83d\ude00"`, `"\ud83d\n"`, `{"\ud83d":"\udc00\ud800"}`,
		"\ufeff{}", "\ufeff \"x\"", `{"\ud83d":1,"\ud83d\ude00":2,"\ud83dx":3}`,
		`"exactly8"`, `"1234567"`, `"\u0000"`, `[` + strings.Repeat(`"x",`, 100) + `"y"]`,
		strings.Repeat(`[`, MaxDepth) + strings.Repeat(`]`, MaxDepth),
	} {
		var doc Document
		if err := doc.Parse([]byte(text)); err != nil {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, reason := range map[string]string{
		``:                                      "the text is empty at byte 0",
		`  `:                                    "the text is empty at byte 2",
		`{`:                                     "unexpected end of the text: expected a key in double quotes at byte 1",
		`{"a"`:                                  "unexpected end of the text: expected ':' after a key at byte 4",
		`{"a":`:                                 "unexpected end of the text: expected a value at byte 5",
		`{"a":1`:                                "unexpected end of the text: expected ',' or '}' at byte 6",
		`{"a":1,}`:                              "expected a key in double quotes at byte 7",
		`{a:1}`:                                 "expected a key in double quotes at byte 1",
		`[1,]`:                                  "expected a value at byte 3",
		`[1 2]`:                                 "expected ',' or ']' at byte 3",
		`[1`:                                    "unexpected end of the text: expected ',' or ']' at byte 2",
		`[nul`:                                  "expected a value at byte 1",
		`[`:                                     "unexpected end of the text: expected a value at byte 1",
		`1 2`:                                   "unexpected text after the value at byte 2",
		`{}{}`:                                  "unexpected text after the value at byte 2",
		`01`:                                    "unexpected text after the value at byte 1",
		`1.`:                                    "unexpected end of the text: expected a digit after the decimal point at byte 2",
		`1e`:                                    "unexpected end of the text: expected a digit in the exponent at byte 2",
		`+1`:                                    "expected a value at byte 0",
		`-`:                                     "expected a value at byte 0",
		`NaN`:                                   "expected a value at byte 0",
		`nul`:                                   "expected a value at byte 0",
		"\ufeff":                                "expected a value at byte 0",
		"\ufeff\ufeff{}":                        "expected a value at byte 0",
		" \ufeff{}":                             "expected a value at byte 1",
		"{\ufeff}":                              "expected a key in double quotes at byte 1",
		`"abc`:                                  "unterminated string at byte 0",
		`"a\`:                                   "unterminated string at byte 2",
		`"a\x"`:                                 "unknown escape sequence at byte 2",
		`"\u12"`:                                "\\u needs four hexadecimal digits at byte 1",
		"\"a\nb\"":                              "control character in a string at byte 2",
		"\"longer than eight \x01\"":            "control character in a string at byte 19",
		"\"\xff\"":                              "invalid UTF-8 in a string at byte 1",
		"\"\x80\"":                              "invalid UTF-8 in a string at byte 1",
		"\"\xc0\xaf\"":                          "invalid UTF-8 in a string at byte 1",
		"\"\xed\xa0\x80\"":                      "invalid UTF-8 in a string at byte 1",
		`"\ud800\u00"`:                          "\\u needs four hexadecimal digits at byte 7",
		`"\ud800\x"`:                            "unknown escape sequence at byte 7",
		"\"\\ud83d\xff\"":                       "invalid UTF-8 in a string at byte 1",
		`{"\ud83d":1,"\ud83d":2}`:               "duplicate key \"\ufffd\" at byte 13",
		`{"a\ud83d":1,"a\uD83D":2}`:             "duplicate key \"a\ufffd\" at byte 14",
		`{"a\ud83d":1,"a\uDC00":2}`:             "duplicate key \"a\ufffd\" at byte 14",
		"{\"\\ud83d\":1,\"\ufffd\":2}":          "duplicate key \"\ufffd\" at byte 13",
		`{"model":"a","model":"b"}`:             `duplicate key "model" at byte 14`,
		`{"x":[{"y":{"a":1,"a":2}}]}`:           `duplicate key "a" at byte 19`,
		`{"model":1,"\u006dodel":2}`:            `duplicate key "model" at byte 12`,
		`{"longer-than-8":1,"longer-than-8":2}`: `duplicate key "longer-than-8" at byte 20`,
		strings.Repeat(`[`, MaxDepth+1):         "nested deeper than 128 levels at byte 128",
		strings.Repeat(`{"a":`, 10_000):         "nested deeper than 128 levels at byte 640",
	} {
		var doc Document
		err := doc.Parse([]byte(text))
		if err == nil {
			t.Errorf("%.60q was accepted, want: %s", text, reason)
		} else if err.Error() != reason {
			t.Errorf("%.60q: %v, want: %s", text, err, reason)
		}
		if doc.Root().Kind() != Absent {
			t.Errorf("%.60q: a refused text still has a root", text)
		}
	}
}

func TestDuplicatesAreFoundInObjectsOfAnySize(t *testing.T) {
	for size := 1; size < 4*linearKeys; size++ {
		var b strings.Builder
		b.WriteString(`{"before":{"k0":0},`)
		for i := range size {
			fmt.Fprintf(&b, `"k%d":{"k0":%d},`, i, i)
		}
		var doc Document
		distinct := b.String() + `"last":1}`
		if err := doc.Parse([]byte(distinct)); err != nil {
			t.Fatalf("%d distinct keys: %v", size, err)
		}
		for _, dup := range []int{0, size / 2, size - 1} {
			text := b.String() + fmt.Sprintf(`"k%d":1}`, dup)
			if err := doc.Parse([]byte(text)); err == nil {
				t.Fatalf("key %d of %d stands twice and was not found", dup, size)
			}
			doc.AllowDuplicateKeys = true
			if err := doc.Parse([]byte(text)); err != nil {
				t.Fatalf("duplicates allowed: %v", err)
			}
			doc.AllowDuplicateKeys = false
		}
	}
}

func TestLookup(t *testing.T) {
	text := `{"model":"m","esc\u0061ped":"a\nb","n":1.0,"big":12345678901234567890,"off":null,
		"messages":[{"role":"user","content":[{"deep":1}]},{"role":"tool"}],"empty":[ ],"opts":{"a":true}}`
	var doc Document
	if err := doc.Parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	root := doc.Root()
	for path, want := range map[string]string{
		"model": `"m"`, "escaped": `"a\nb"`, "big": "12345678901234567890", "empty": "[ ]", "missing": "",
	} {
		if got := string(root.Get(path).Raw()); got != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
	if got := string(root.Get("escaped").Text()); got != "a\nb" {
		t.Errorf("text without escapes = %q", got)
	}
	if n, ok := root.Get("n").Int(); !ok || n != 1 {
		t.Errorf("1.0 as a whole number = %d, %v", n, ok)
	}
	if _, ok := root.Get("big").Int(); ok {
		t.Error("a number beyond int64 was read as one")
	}
	if root.Get("off").Given() || root.Get("missing").Given() || !root.Get("opts").Get("a").Given() {
		t.Error("null and absent are not given, true is")
	}
	if !root.Get("empty").Empty() || root.Get("opts").Empty() || root.Get("missing").Empty() {
		t.Error("only [ ] is empty")
	}
	var roles []string
	for m := root.Get("messages").First(); m.Kind() != Absent; m = m.Next() {
		roles = append(roles, string(m.Get("role").Text()))
	}
	if strings.Join(roles, ",") != "user,tool" {
		t.Errorf("roles = %v", roles)
	}
	start, end := root.Get("n").MemberSpan()
	if got := text[start:end]; got != `"n":1.0` {
		t.Errorf("member span = %s", got)
	}
	if v := root.Get("messages").First().Get("content").First(); v.Kind() != Absent {
		t.Error("values deeper than the record are not to be found")
	}
}

func TestHalfAPairIsTheReplacementCharacterAsText(t *testing.T) {
	for raw, want := range map[string]string{
		`"\ud83d\ude00"`:             "😀",
		`"\ud83d"`:                   "\ufffd",
		`"\ude00"`:                   "\ufffd",
		`"a\ud83d"`:                  "a\ufffd",
		`"\ud83d\u00e9"`:             "\ufffdé",
		`"\ud83d\n"`:                 "\ufffd\n",
		`"\ud83dude00"`:              "\ufffdude00",
		`"\ud83d\ud83d\ude00\ude00"`: "\ufffd😀\ufffd",
		`"\ude00\ud83d"`:             "\ufffd\ufffd",
		`"\ufffd\ufffd"`:             "\ufffd\ufffd",
		`"\ud83d\\ude00"`:            `�\ude00`,
	} {
		var doc Document
		if err := doc.Parse([]byte(raw)); err != nil {
			t.Errorf("%s: %v", raw, err)
		} else if got := string(doc.Root().Text()); got != want {
			t.Errorf("%s is %q, want %q", raw, got, want)
		} else if got := string(doc.Root().Raw()); got != raw {
			t.Errorf("%s is passed on as %s", raw, got)
		}
	}
}

func TestByteOrderMarkIsNoPartOfTheText(t *testing.T) {
	var doc Document
	if err := doc.Parse([]byte("\ufeff{\"a\":1}")); err != nil {
		t.Fatal(err)
	}
	var sent strings.Builder
	for _, segment := range doc.Splice(nil, []Edit{doc.Root().Get("a").Replace([]byte("2"))}) {
		sent.Write(segment)
	}
	if string(doc.Data()) != `{"a":1}` || sent.String() != `{"a":2}` {
		t.Errorf("the text is %q and with an edit %q", doc.Data(), sent.String())
	}
}

// lenient is what the scanner accepts besides strict JSON: half of a surrogate
// pair as an escape. Bytes that are no UTF-8 are looked for apart.
var lenient = jsontext.AllowInvalidUTF8(true)

// oracle is the strict tokenizer that the scanner must agree with.
func oracle(text []byte) error {
	text = bytes.TrimPrefix(text, []byte(ByteOrderMark))
	if !utf8.Valid(text) {
		return errors.New("invalid UTF-8")
	}
	dec := jsontext.NewDecoder(bytes.NewReader(text), lenient)
	if err := dec.SkipValue(); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("text after the value")
	}
	return nil
}

func depthOf(text []byte) int {
	deepest := 0
	dec := jsontext.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte(ByteOrderMark))), lenient)
	for {
		if _, err := dec.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, dec.StackDepth())
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}]}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`,
		"\"\xff\"", `"\ud83d\ude00"`, `"\ud83d"`, `{"\ud83d":1,"\ud83e":2}`, "\ufeff{}", `[1,2.5,-0,1e400,0.1e-9]`, `{"a":{"b":[{}]}} `, "\"\x7f\u2028\"", `tru`,
		strings.Repeat("[", 200) + strings.Repeat("]", 200), string(chatBody(1 << 10)),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var doc Document
		err := doc.Parse(text)
		want := oracle(text)
		switch {
		case err == nil && want != nil:
			t.Fatalf("accepted %q, the oracle says %v", text, want)
		case err != nil && want == nil && depthOf(text) <= MaxDepth:
			t.Fatalf("refused %q (%v), the oracle accepts it", text, err)
		case err == nil:
			checkSpans(t, doc.Root())
		}
	})
}

// checkSpans requires that every recorded value is a JSON text by itself.
func checkSpans(t *testing.T, v Value) {
	t.Helper()
	if err := oracle(v.Raw()); err != nil {
		t.Fatalf("recorded value %q: %v", v.Raw(), err)
	}
	first := v.First()
	for c := first; c.Kind() != Absent; c = c.Next() {
		checkSpans(t, c)
	}
	if v.Kind() == Array && first.Kind() != Absent {
		checkElements(t, v)
	}
	if v.Kind() == String {
		want, _ := jsontext.AppendUnquote(nil, v.Raw()) // the error is about half a pair, which it replaces
		if string(want) != string(v.Text()) {
			t.Fatalf("text of %q = %q, want %q", v.Raw(), v.Text(), want)
		}
	}
}

// checkElements requires that going through an array finds what the strict
// tokenizer finds in it.
func checkElements(t *testing.T, array Value) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(array.Raw()), lenient)
	if _, err := dec.ReadToken(); err != nil {
		t.Fatal(err)
	}
	for v := array.First(); v.Kind() != Absent; v = v.Next() {
		kind := dec.PeekKind()
		want, err := dec.ReadValue()
		if err != nil || kind == ']' || !bytes.Equal(want, v.Raw()) {
			t.Fatalf("%q: found %q, want %q (%v)", array.Raw(), v.Raw(), want, err)
		}
	}
	if dec.PeekKind() != ']' {
		t.Fatalf("%q: elements are missing", array.Raw())
	}
}

func TestElementsAreFoundWithAndWithoutNodes(t *testing.T) {
	long := `"a string that is longer than what is found again"`
	for _, text := range []string{
		`[1,-2.5e3 , true,false,null,"","a","\"\\]",[],{},[ ],{ },[1,[2,"]"],[]],[[[[["x"]]]]]]`,
		`[` + long + `,1,` + long + `,[` + long + `],"b",{"a":1},2,{"a":[1,2]},[{"a":1}],3]`,
		`{"a":[1,2],"b":[` + long + `],"c":[[1],[2]],"d":{"e":[1 ,2, [3] ]}}`,
		`[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18],1,[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]]`,
		`[12345678901234567890123456789012345678901234567890,1]`,
	} {
		for _, deep := range []bool{false, true} {
			doc := Document{Deep: deep}
			if err := doc.Parse([]byte(text)); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			checkSpans(t, doc.Root())
		}
	}
}

func TestDeepDocumentsRecordEveryLevel(t *testing.T) {
	text := []byte(`{"a":{"b":{"c":{"d":{"e":[{"f":[{"g":"here"}]}]}}}}}`)
	for _, deep := range []bool{false, true} {
		doc := Document{Deep: deep}
		if err := doc.Parse(text); err != nil {
			t.Fatal(err)
		}
		d := doc.Root().Get("a").Get("b").Get("c").Get("d")
		got := string(d.Get("e").First().Get("f").First().Get("g").Text())
		if deep && got != "here" || !deep && d.Kind() != Absent {
			t.Errorf("deep %v: found %q", deep, got)
		}
	}
}

// What a text takes beside itself is in proportion to what can be looked up in
// it; lists of small values take nothing.
func TestShortElementsTakeNoMemory(t *testing.T) {
	for name, element := range map[string]string{
		"numbers": "1", "floats": "-0.123", "texts": `""`, "lists": "[1]", "empty lists": "[]", "empty objects": "{}", "null": "null",
		"lists of lists": "[[1],[2]]",
	} {
		var doc Document
		text := `{"input":[` + strings.Repeat(element+",", 100_000) + element + `]}`
		if err := doc.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if len(doc.nodes) > 2 {
			t.Errorf("%s: %d nodes", name, len(doc.nodes))
		}
		count := 0
		for v := doc.Root().Get("input").First(); v.Kind() != Absent; v = v.Next() {
			count++
		}
		if count != 100_001 {
			t.Errorf("%s: found %d elements", name, count)
		}
	}
}

func TestMemoryForALargeTextIsReservedAndGivenUp(t *testing.T) {
	objects := []byte(`[` + strings.Repeat(`{"a":1},`, 50_000) + `{}]`)
	var members strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&members, `"k%d":1,`, i)
	}
	object := []byte(`{` + members.String() + `"k":1}`)
	for name, text := range map[string][]byte{"many objects": objects, "many members": object} {
		t.Run(name, func(t *testing.T) {
			var doc Document
			reserved := 0
			doc.Reserve = func(bytes int) error { reserved += bytes; return nil }
			if err := doc.Parse(text); err != nil {
				t.Fatal(err)
			}
			if took := (cap(doc.nodes) - keepNodes) * NodeSize; reserved < took {
				t.Errorf("reserved %d bytes and took %d", reserved, took)
			}
			doc.Reset()
			if cap(doc.nodes) > keepNodes {
				t.Errorf("%d nodes are kept for the next text", cap(doc.nodes))
			}
			refused := errors.New("no memory")
			doc.Reserve = func(int) error { return refused }
			if err := doc.Parse(text); !errors.Is(err, refused) {
				t.Errorf("the scan ended with %v", err)
			}
			if doc.Root().Kind() != Absent {
				t.Error("a scan that was ended has a root")
			}
		})
	}
}

func TestMembersAreFoundInObjectsOfAnySize(t *testing.T) {
	for _, size := range []int{0, 1, linearKeys - 1, linearKeys, 10 * linearKeys} {
		var b strings.Builder
		b.WriteString(`{"outer":{`)
		for i := range size {
			fmt.Fprintf(&b, `"k\u003%d":[%d],`, i%10, i)
		}
		b.WriteString(`"last":{"k":1}},"k0":0}`)
		doc := Document{AllowDuplicateKeys: true}
		if err := doc.Parse([]byte(b.String())); err != nil {
			t.Fatal(err)
		}
		object := doc.Root().Get("outer")
		members := object.Members()
		for _, name := range []string{"k0", "k7", "k", "last", ""} {
			got := members.Get([]byte(name))
			if want := object.Get(name); string(got.Raw()) != string(want.Raw()) || string(got.Next().Raw()) != string(want.Next().Raw()) {
				t.Errorf("%d members: %s is %q, want %q", size, name, got.Raw(), want.Raw())
			}
		}
	}
}

func TestParseDoesNotAllocate(t *testing.T) {
	body := chatBody(1 << 10)
	var doc Document
	if n := testing.AllocsPerRun(100, func() { _ = doc.Parse(body) }); n > 0 {
		t.Errorf("%v allocations per scan, want none", n)
	}
}
