package config

import (
	"reflect"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

func TestDecoderReadsPointersAndNamedMaps(t *testing.T) {
	type inner struct {
		Count int8 `json:"count"`
	}
	type outer struct {
		Inner   *inner                `json:"inner"`
		Absent  *inner                `json:"absent"`
		ByLevel map[logs.LogLevel]int `json:"byLevel"`
		Ignored string
	}
	var problems Problems
	tree := reader{file: "f", problems: &problems}
	root := tree.readYAML([]byte("inner: {count: 5}\nabsent: null\nby_level: {WARN: 3, wrn: 1}\nignored: x\n"))
	var got outer
	newDecoder(&problems).decode(root, "", reflect.ValueOf(&got).Elem())
	if got.Inner == nil || got.Inner.Count != 5 || got.Absent != nil || got.ByLevel[logs.LevelWarn] != 3 {
		t.Errorf("got %+v", got)
	}
	want := `f:3:21  by-level.wrn: unknown log level "wrn" (did you mean "warn"?)` + "\n" +
		`f:4:1  ignored: unknown key "ignored" (known: inner, absent, by-level)`
	if problems.Error() != want {
		t.Errorf("problems:\n%v", problems)
	}
}

func TestSmallIntegersDoNotOverflow(t *testing.T) {
	var small int8
	if err := setInt("128", reflect.ValueOf(&small).Elem()); err == nil {
		t.Error("128 fits into 8 bits")
	}
}

func TestPaths(t *testing.T) {
	for camel, want := range map[string]string{
		"baseUrl": "base-url", "clientIpEnable": "client-ip-enable", "keySha256": "key-sha256",
		"instances[0].baseUrl": "instances[0].base-url", `headers["X-FooBar"]`: `headers["X-FooBar"]`,
		`customTags["a]b"].someThing`: `custom-tags["a]b"].some-thing`, "fail_open": "fail-open", "a[": "a[",
	} {
		if got := Kebab(camel); got != want {
			t.Errorf("Kebab(%s) is %s, want %s", camel, got, want)
		}
	}
	for path, want := range map[string]string{
		"a.b.c": "a.b", "a": "", "": "", "a.b[3]": "a.b", `a.h["x.y]"]`: "a.h", "a[1].b[22]": "a[1].b", "a[1].b": "a[1]", "[0]": "",
	} {
		if got := parent(path); got != want {
			t.Errorf("parent(%s) is %s, want %s", path, got, want)
		}
	}
}

func TestMaskHidesOnlyTheSecret(t *testing.T) {
	for _, c := range []struct {
		said say.Sentence
		want string
	}{
		{say.Plain(`want "30s", found "hush \"now\"" or "now"`), `want "30s", found "****" or "****"`},
		{say.New("field.whole", "found", `hush "now"`), `want a whole number, found "****"`},
		{say.New("field.whole", "found", `hush "then"`), `want a whole number, found "hush \"then\""`},
		{
			say.New("field.found", "fault", say.New("field.duration_plain"), "found", "hush"),
			`want milliseconds or a length of time such as "30s" or "1m30s", found "****"`,
		},
		{say.New("field.alias_fault", "fault", say.New("field.large", "found", "now")), `the alias "****" is too large`},
	} {
		secret := `say hush "now"`
		if c.said.Code != say.Other {
			secret += " 30s" // which is no value of the sentence
		}
		got := mask(c.said, secret)
		if got.String() != c.want || got.Code != c.said.Code {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
