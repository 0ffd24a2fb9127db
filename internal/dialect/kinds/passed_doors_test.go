package kinds

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// passedRequest returns a valid request of a door that passes to backends which have
// it too, nil for other doors.
func passedRequest(t testing.TB, door schema.Door, stream bool) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	file := &schema.File{Filename: "a.bin", ContentType: "application/octet-stream", Size: 4, Open: func() io.Reader { return strings.NewReader("file") }}
	head := `{"model":"` + callersName + `"`
	var err error
	switch door {
	case schema.DoorCompletions:
		if stream {
			head += `,"stream":true`
		}
		err = req.ParseCompletion([]byte(head + `,"prompt":"p","logprobs":1}`))
	case schema.DoorModerations:
		err = req.ParseModeration([]byte(head + `,"input":"a"}`))
	case schema.DoorTranslations:
		err = req.ParseTranslation(&schema.Form{Parts: []schema.Part{{Name: "model", Value: callersName}, {Name: "file", File: file}}})
	default:
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// forEveryPassedDoor runs a test for every door that a kind has itself.
func forEveryPassedDoor(t *testing.T, test func(t *testing.T, kind *dialect.Kind, door schema.Door)) {
	t.Helper()
	for _, kind := range table {
		for door := range kind.Native {
			if passedRequest(t, door, false) != nil {
				t.Run(kind.Name+"/"+door.String(), func(t *testing.T) { test(t, kind, door) })
			}
		}
	}
}

func passedTarget(t *testing.T, kind *dialect.Kind, door schema.Door, endpoint dialect.Endpoint) *dialect.Target {
	t.Helper()
	target, err := kind.Target(door.Service(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	own, adapter := target.ForDoor(door, nil)
	if own.Adapter != adapter.Adapter {
		t.Fatalf("%s has no target of its own", door)
	}
	return own
}

func TestCallsOfPassedDoorsAreCompleteAndCanBeUsedAgain(t *testing.T) {
	forEveryPassedDoor(t, func(t *testing.T, kind *dialect.Kind, door schema.Door) {
		target := passedTarget(t, kind, door, dialect.Endpoint{BaseURL: "http://backend.test:8000", APIKey: "planted-key", Model: backendsName})
		boundary := regexp.MustCompile(`patchbay-\w+`)
		var call wire.Call
		var first string
		for i := range 3 {
			if err := target.Unified().Call(passedRequest(t, door, false), target, &call); err != nil {
				t.Fatal(err)
			}
			if err := target.Authorize(t.Context(), &call); err != nil {
				t.Fatal(err)
			}
			sent := boundary.ReplaceAllString(fmt.Sprint(call.Method, call.Path, call.Header, bodyOf(t, &call)), "B")
			if i == 0 {
				first = sent
			}
			if sent != first {
				t.Errorf("used again, the call is %s, was %s", sent, first)
			}
		}
		key := kind.Key("planted-key")
		plain := strings.ReplaceAll(strings.ReplaceAll(first, "%2F", "/"), "%3A", ":")
		if headerOf(&call, key.Name) != key.Value || !strings.Contains(plain, backendsName) || strings.Contains(first, callersName) {
			t.Errorf("call %s", first)
		}
	})
}

func TestNoAnswerMakesThePassedDoorsPanic(t *testing.T) {
	forEveryPassedDoor(t, func(t *testing.T, kind *dialect.Kind, door schema.Door) {
		target := passedTarget(t, kind, door, dialect.Endpoint{BaseURL: "http://backend.test:8000"})
		answers := append(garbage(t, kind, door.Service()),
			`{"choices":[{"text":null}]}`, `{"choices":[{"text":1,"logprobs":[]}]}`, `{"results":[null]}`, `{"results":{}}`,
			`{"response":null,"done":true}`, `{"response":"a","done":true,"eval_count":1,"logprobs":[{"token":1},{"token":"a","logprob":-1,"top_logprobs":{}}]}`,
			`{"response":"a","done":false}`+"\n"+`{"response":"b","done":true,"logprobs":{}}`)
		for _, body := range answers {
			for _, contentType := range []string{"application/json", "text/plain", ""} {
				checkReply(t, target.Unified(), passedRequest(t, door, false), dialect.Answer{ContentType: contentType, Body: []byte(body)})
			}
			if target.Unified().Streams() {
				checkStream(t, target.Unified().Events(passedRequest(t, door, true), strings.NewReader(body)), body)
			}
		}
	})
}
