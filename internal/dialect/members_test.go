package dialect_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestMembersOfABodyAreReplaced(t *testing.T) {
	for _, c := range []struct{ members, body, want string }{
		{`{"top_k":20}`, `{"model":"m","x":1}`, `{"model":"m","x":1,"top_k":20}`},
		{`{"b":null,"c":null}`, `{"a":1, "b":2 ,"c":[3]}`, `{"a":1}`},
		{`{"a":null,"b":null}`, `{"a":1,"b":2}`, `{}`},
		{`{"a":{"deep":[1e2]},"b":null}`, `{"\u0061":1,"c":"\ud83d\ude00"}`, `{"c":"\ud83d\ude00","a":{"deep":[1e2]}}`},
		{`{"ü\"":"x"}`, `{}`, `{"ü\"":"x"}`},
		{`{}`, `{"a":1}`, `{"a":1}`},
		{``, `{"a":1}`, `{"a":1}`},
		{`{"a":2}`, `[1]`, `[1]`},
		{`{"a":2}`, `--boundary`, `--boundary`},
		{`{"a":2}`, ``, ``},
	} {
		members, err := dialect.ReadMembers(c.members)
		if err != nil {
			t.Errorf("%s: %v", c.members, err)
		}
		call := &wire.Call{}
		for part := range strings.SplitAfterSeq(c.body, ",") { // as spliced bodies are
			call.Body = append(call.Body, []byte(part))
		}
		if err := members.Put(new(schema.Request), call); err != nil || string(bytes.Join(call.Body, nil)) != c.want {
			t.Errorf("%s in %s: %s %v", c.members, c.body, bytes.Join(call.Body, nil), err)
		}
	}
}

func TestMembersThatCannotBeMeantAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":`: "is no JSON", `[1]`: "want an object", `{"a":1,"a":2}`: "is no JSON", `{"stream":true}`: "must not have stream",
		`{"max_tokens":null}`: "must not have max_tokens", `{"a":"` + strings.Repeat("x", 16<<10) + `"}`: "longer than",
	} {
		if members, err := dialect.ReadMembers(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v %v", text, members, err)
		}
	}
}
