package jsonscan

import (
	"fmt"
	"testing"
)

func TestFindPutsMembersInThePlacesOfTheirNames(t *testing.T) {
	names := NewNames("role", "content", "id", "name", "presence_penalty", "frequency_penalty", "")
	for text, want := range map[string]string{
		`{}`: `0 [      ]`,
		`{"content":1,"role":2,"x":3,"frequency_penalty":4,"presence_penalty":5}`: `1 [2 1   5 4 ]`,
		`{"role":1,"role":2,"":3,"i":4,"id":5,"di":6}`:                            `2 [1  5    3]`,
		`{"r\u006fle":{"id":1},"Role":2,"contents":3,"conten":4}`:                 `3 [{"id":1}      ]`,
		`["role"]`: `0 [      ]`,
		`"role"`:   `0 [      ]`,
	} {
		var d Document
		d.AllowDuplicateKeys = true
		if err := d.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
		var found [7]Value
		others := d.Root().Find(names, found[:])
		got := fmt.Sprint(others, " [")
		for i, v := range found {
			if i > 0 {
				got += " "
			}
			got += string(v.Raw())
		}
		if got += "]"; got != want {
			t.Errorf("%s: %s in place of %s", text, got, want)
		}
		for _, v := range found {
			if v.Kind() != Absent && string(v.Raw()) != string(d.Root().Get(string(v.Key())).Raw()) {
				t.Errorf("%s: %s is not what Get returns", text, v.Raw())
			}
		}
	}
	var d Document
	if err := d.Parse([]byte(`{"name":1,"content":2}`)); err != nil {
		t.Fatal(err)
	}
	first := make([]Value, 2)
	if others := d.Root().Find(names, first); others != 0 || first[0].Kind() != Absent || first[1].Kind() != Number {
		t.Errorf("%d others, %v", others, first)
	}
	if (Value{}).Find(names, make([]Value, 7)) != 0 {
		t.Error("an absent value has members")
	}
}

func TestASetHasItsNamesAndNoOthers(t *testing.T) {
	names := NewNames("role", "presence_penalty", "")
	for name, want := range map[string]bool{
		"role": true, "presence_penalty": true, "": true,
		"rolf": false, "Role": false, "presence_penaltx": false, "presence-penalty": false, "r": false,
	} {
		if names.Has([]byte(name)) != want {
			t.Errorf("%q: %v, want %v", name, !want, want)
		}
	}
}
