package jsonscan

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) *Document {
	t.Helper()
	doc := new(Document)
	if err := doc.Parse([]byte(text)); err != nil {
		t.Fatalf("%.60s: %v", text, err)
	}
	return doc
}

// object writes an object with so many members, called k0, k1 and so on.
func object(members int) string {
	var b strings.Builder
	for i := range members {
		fmt.Fprintf(&b, `,"k%d":%d`, i, i)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

// A string ends at its first quote, and a control character is found, wherever
// they stand among eight or sixteen bytes, and whatever stands before.
func TestStringsAreScannedAtEveryOffset(t *testing.T) {
	for _, filler := range []string{" ", "A", "z", "~", "\x7f", "é", "你", `\n`, `\"`} {
		for before := range 40 {
			start := strings.Repeat(filler, before)
			for _, at := range []string{"", "\x00", "\x1f", "\n", "\xff", `\`, `\u00e9`, `\u00`, `"`} {
				for _, after := range []string{"", "end of text"} {
					text := []byte(`["` + start + at + after + `"]`)
					var doc Document
					err, want := doc.Parse(text), oracle(text)
					if (err == nil) != (want == nil) {
						t.Fatalf("%q: %v, the oracle says %v", text, err, want)
					}
					if err == nil {
						checkSpans(t, doc.Root())
					}
				}
			}
		}
	}
}

// What stands in memory behind the text is no part of it.
func TestTextEndsWhereItsSliceEnds(t *testing.T) {
	for text, length := range map[string]int{"[null]": 4, "[true]": 3, `["ab"]`: 4, "[12]": 3, `{"a":1}`: 6} {
		if err := new(Document).Parse([]byte(text)[:length]); err == nil || err.Error() != new(Document).Parse([]byte(text[:length])).Error() {
			t.Errorf("%s cut off at %d: %v", text, length, err)
		}
	}
}

func TestStringEnds(t *testing.T) {
	for _, c := range []struct {
		text         string
		start, quote int
		want         bool
	}{
		{`"abc"`, 1, 4, true}, {`"abc"`, 1, 5, false}, {`"abc"`, 1, 3, false}, {`x"abc" `, 2, 5, true},
		{`"a"c"`, 1, 4, false}, {`"a"c"`, 1, 2, true}, {`"a\"c"`, 1, 5, true}, {`"a\"c"`, 1, 3, false},
		{`""`, 1, 1, true}, {`"\x"`, 1, 3, false}, {"\"\x01\"", 1, 2, false}, {"\"\xff\"", 1, 2, false}, {``, 0, 0, false},
	} {
		if got := StringEnds([]byte(c.text), c.start, c.quote); got != c.want {
			t.Errorf("%q from %d ends at %d: %v", c.text, c.start, c.quote, got)
		}
	}
}

func TestNumbersThatAreWhole(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-1": -1, "1.0": 1, "1e2": 100, "9223372036854775807": 1<<63 - 1,
		"9007199254740992.0": 1 << 53, "-9007199254740992.0": -1 << 53,
	} {
		if got, ok := parse(t, text).Root().Int(); !ok || got != want {
			t.Errorf("%s is %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"1.5", "9223372036854775808", "9007199254740994.0", "1e400", `"1"`, "null", "[1]"} {
		if got, ok := parse(t, text).Root().Int(); ok {
			t.Errorf("%s is %d", text, got)
		}
	}
}

func TestOnlyNumbers(t *testing.T) {
	many := strings.Repeat("0.25,", 40)
	for text, want := range map[string]bool{
		"[]": true, "[ ]": true, "[1]": true, "[-1.5e3, 2]": true, "[" + many + "1]": true, "[" + many + strings.Repeat("1", 40) + "]": true,
		"[null]": false, `["1"]`: false, "[[1]]": false, "[[]]": false, "[{}]": false, "[1,true]": false, "[true,1]": false,
		"[" + many + "null]": false, "[null," + many + "1]": false, "[" + many + `"a",` + many + "1]": false, "[" + many + "[1]]": false,
		"1": false, "{}": false, `"1"`: false,
	} {
		for list, value := range map[string]func(root Value) Value{
			text:                 func(root Value) Value { return root },
			"[" + text + "]":     func(root Value) Value { return root.First() },
			"[1," + text + "]":   func(root Value) Value { return root.First().Next() },
			`{"a":` + text + "}": func(root Value) Value { return root.Get("a") },
		} {
			if got := value(parse(t, list).Root()).OnlyNumbers(); got != want {
				t.Errorf("%.60s in %.60s holds only numbers: %v", text, list, got)
			}
		}
	}
	if (Value{}).OnlyNumbers() {
		t.Error("what is absent holds numbers")
	}
}

func TestKeysAsTheyCameAndAsText(t *testing.T) {
	root := parse(t, `{"a":1,"\u0062c":2,"":[3]}`).Root()
	var keys []string
	for v := root.First(); v.Kind() != Absent; v = v.Next() {
		keys = append(keys, string(v.RawKey())+"="+string(v.Key()))
	}
	if got := strings.Join(keys, " "); got != `a=a \u0062c=bc =` {
		t.Errorf("keys %s", got)
	}
	for _, v := range []Value{{}, root.Get("").First(), root.Get("missing")} {
		if start, end := v.MemberSpan(); v.RawKey() != nil || v.Key() != nil || start != 0 || end != 0 {
			t.Errorf("%q has the key %q from %d to %d", v.Raw(), v.Key(), start, end)
		}
	}
}

// What is not there has no content and nothing after it.
func TestLookupsThatFindNothing(t *testing.T) {
	root := parse(t, `{"empty":{},"list":[{},{"k0":1}],"deep":[[[[{"a":1}]]]],"last":{}}`).Root()
	for name, v := range map[string]Value{
		"the member of an empty object":          root.Get("empty").First(),
		"the member of the last empty object":    root.Get("last").First(),
		"the member of an empty element":         root.Get("list").First().First(),
		"a member of an empty element":           root.Get("list").First().Get("k0"),
		"the sibling of the root":                root.Next(),
		"the sibling of the last member":         root.Get("last").Next(),
		"the sibling of the last element":        root.Get("list").First().Next().Next(),
		"the sibling of a number that is a root": parse(t, "1").Root().Next(),
		"what lies too deep":                     root.Get("deep").First().First().First(),
		"the sibling of nothing":                 Value{}.Next(),
		"the member of nothing":                  Value{}.First(),
		"a member of an array":                   root.Get("list").Get("k0"),
	} {
		if v.Kind() != Absent || v.Raw() != nil {
			t.Errorf("%s is %s", name, v.Raw())
		}
		if start, end := v.Span(); start != 0 || end != 0 {
			t.Errorf("%s stands from %d to %d", name, start, end)
		}
	}
}

func TestMembersOfElementsAreFound(t *testing.T) {
	long := strings.Repeat("x", 100)
	for text, want := range map[string]string{
		`["` + long + `",{"a":1}]`: "1", `[` + strings.Repeat("1", 40) + `,{"a":2}]`: "2", `[[{"b":1}],{"a":3}]`: "3", `[{},{"a":4}]`: "4",
	} {
		if got := string(parse(t, text).Root().First().Next().Get("a").Raw()); got != want {
			t.Errorf("%s: the second element has %q", text, got)
		}
	}
	if got := string(parse(t, `[[{"a":1}]]`).Root().First().First().Get("a").Raw()); got != "1" {
		t.Errorf("an object in two arrays has %q", got)
	}
}

// Elements of up to 32 bytes have no node; longer ones have one, down to the
// depth at which values are looked up.
func TestLongElementsHaveNodes(t *testing.T) {
	digits := strings.Repeat("1", shortElement)
	for _, c := range []struct {
		text  string
		nodes int
	}{
		{`[` + digits + `]`, 1}, {`[` + digits + `1]`, 2},
		{`["` + digits[2:] + `"]`, 1}, {`["` + digits[1:] + `"]`, 2},
		{`[[` + digits[2:] + `]]`, 1}, {`[[` + digits[1:] + `]]`, 2},
		{`[[["` + digits + `"]]]`, 4},   // within reach
		{`[[[["` + digits + `"]]]]`, 4}, // one level deeper
	} {
		if doc := parse(t, c.text); len(doc.nodes) != c.nodes {
			t.Errorf("%s takes %d nodes, want %d", c.text, len(doc.nodes), c.nodes)
		}
	}
}

// Many members get a map, which few do not need; that is what keeps looking up
// all of them from taking quadratic time.
func TestMembersUseAMapWhereTheyAreMany(t *testing.T) {
	for _, size := range []int{0, 1, linearKeys - 1, linearKeys, 10 * linearKeys} {
		members := parse(t, object(size)).Root().Members()
		want := 0
		if size >= linearKeys {
			want = size
		}
		if len(members.nodes) != want {
			t.Errorf("%d members: %d are in the map", size, len(members.nodes))
		}
		for i := range size {
			if got := members.Get(fmt.Appendf(nil, "k%d", i)); string(got.Raw()) != fmt.Sprint(i) {
				t.Errorf("%d members: k%d is %q", size, i, got.Raw())
			}
		}
		if got := members.Get([]byte("other")); got.Kind() != Absent {
			t.Errorf("%d members: another key is %q", size, got.Raw())
		}
	}
	root := parse(t, `[{},`+object(2*linearKeys)+`]`).Root()
	for _, v := range []Value{{}, root, root.First()} {
		if members := v.Members(); members.Get([]byte("k1")).Kind() != Absent {
			t.Errorf("%.20s has a member", v.Raw())
		}
	}
}

func TestDuplicateKeysWithEscapesAreFoundAmongMany(t *testing.T) {
	many := strings.TrimSuffix(object(2*linearKeys), "}")
	for key, want := range map[string]string{`a\"b`: `"a\"b"`, `\u006b7`: `"k7"`, `\\`: `"\\"`} {
		err := new(Document).Parse([]byte(many + `,"` + key + `":1,"` + key + `":2}`))
		if err == nil || !strings.Contains(err.Error(), "duplicate key "+want) {
			t.Errorf("%s stands twice: %v", key, err)
		}
	}
}

// Reserve is asked for exactly what a text takes beyond what is kept anyway.
func TestReserveIsAskedForWhatIsTaken(t *testing.T) {
	deep := func(members int) string { return "[[[[[" + object(members) + "]]]]]" } // no nodes, but keys to compare
	var list strings.Builder
	for range 5000 {
		list.WriteString(`{"a":1},`)
	}
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{"as many nodes as are kept", object(keepNodes * 3 / 4), keySize * (4096 - 64)},
		{"more nodes", "[" + list.String() + "{}]", 3 * keepNodes * NodeSize},
		{"a map that is just not full", deep(64), 0},
		{"a map that grows", deep(65), keySize * 64},
		{"a map that grows twice", deep(129), keySize * (64 + 128)},
	} {
		var doc Document
		reserved := 0
		doc.Reserve = func(bytes int) error { reserved += bytes; return nil }
		if err := doc.Parse([]byte(c.text)); err != nil {
			t.Fatal(err)
		}
		if reserved != c.want {
			t.Errorf("%s: reserved %d bytes, want %d", c.name, reserved, c.want)
		}
		if kept := cap(doc.nodes); kept <= keepNodes {
			if doc.Reset(); cap(doc.nodes) != kept {
				t.Errorf("%s: of %d nodes %d are kept", c.name, kept, cap(doc.nodes))
			}
		}
		if c.want == 0 {
			continue
		}
		refused := errors.New("no memory")
		doc = Document{Reserve: func(int) error { return refused }}
		if err := doc.Parse([]byte(c.text)); !errors.Is(err, refused) {
			t.Errorf("%s: the scan ended with %v", c.name, err)
		}
	}
}

// Objects with few keys are compared without a table, also within others.
func TestNestedObjectsDoNotAllocate(t *testing.T) {
	few := object(linearKeys - 2)
	body := []byte(strings.TrimSuffix(few, "}") + `,"inner":` + few + `}`)
	var doc Document
	if n := testing.AllocsPerRun(100, func() { _ = doc.Parse(body) }); n > 0 {
		t.Errorf("%v allocations per scan, want none", n)
	}
}
