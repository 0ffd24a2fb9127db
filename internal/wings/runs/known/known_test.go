package known_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/known"
)

const (
	chat     = `{"model":"m","messages":[{"role":"user","content":"x"}]`
	messages = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]`
	response = `{"model":"m","input":"x"`
)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func request(t testing.TB, door schema.Door, body string) *schema.Request {
	t.Helper()
	req := &schema.Request{Door: door}
	if err := req.Body.Parse([]byte(body)); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return req
}

// TestRunsOfRealPrograms has what agents sent: Claude Code 2.1.326, Codex 0.169.0, OpenCode
// 1.18.33 and Qwen Code 0.15.10, and the older forms of the first two.
func TestRunsOfRealPrograms(t *testing.T) {
	const session, user = "4a353e4e-ee1c-4fca-8362-57ff91210c3a",
		`"metadata":{"user_id":"{\"device_id\":\"d37\",\"account_uuid\":\"\",\"session_id\":\"4a353e4e-ee1c-4fca-8362-57ff91210c3a\"}"}}`
	const root, child = "01a1ef6c-a439-7c53-aced-860fe7683359", "01a1ef6c-a4e8-70a2-9362-ba69f5bdce59"
	const open, openChild = "ses_e10949fa2ffesENq3P5MsQ9bTQ", "ses_e10945586ffe6ewzTeN7IwyWFM"
	codex := response + `,"prompt_cache_key":"` + root + `"}`
	for name, c := range map[string]struct {
		door   schema.Door
		body   string
		header http.Header
		want   known.Run
	}{
		"Claude Code": {schema.DoorMessages, messages + "," + user, header("x-claude-code-session-id", session),
			known.Run{ID: session, Sign: known.Session}},
		"Claude Code, a sub-agent": {schema.DoorMessages, messages + "," + user,
			header("x-claude-code-session-id", session, "x-claude-code-agent-id", "acd3"),
			known.Run{ID: session, Sign: known.Session, Agent: "acd3"}},
		"Claude Code, its child": {schema.DoorMessages, messages + "," + user,
			header("x-claude-code-session-id", session, "x-claude-code-agent-id", "a95d", "x-claude-code-parent-agent-id", "acd3"),
			known.Run{ID: session, Sign: known.Session, Agent: "a95d"}},
		"Claude Code without headers": {schema.DoorMessages, messages + "," + user, nil,
			known.Run{ID: session, Sign: known.Metadata}},
		"Claude Code counts tokens": {schema.DoorCountTokens, messages + "," + user, nil,
			known.Run{ID: session, Sign: known.Metadata}},
		"Claude Code before": {schema.DoorMessages, messages + `,"metadata":{"user_id":"user_9f_account__session_` + session + `"}}`, nil,
			known.Run{ID: session, Sign: known.Metadata}},
		"Codex": {schema.DoorResponses, codex, header("session-id", root, "thread-id", root),
			known.Run{ID: root, Sign: known.Session}},
		"Codex, a sub-agent": {schema.DoorResponses, codex,
			header("session-id", root, "thread-id", child, "x-codex-parent-thread-id", root),
			known.Run{ID: root, Sign: known.Session, Agent: child}},
		"Codex, a sub-agent with a session of its own": {schema.DoorResponses, codex,
			header("session-id", child, "thread-id", child, "x-codex-parent-thread-id", root),
			known.Run{ID: root, Sign: known.Parent, Agent: child}},
		"Codex before": {schema.DoorResponses, codex, header("session_id", root), known.Run{ID: root, Sign: known.Session}},
		"OpenCode": {schema.DoorChat, chat + "}", header("x-session-affinity", open, "x-session-id", open),
			known.Run{ID: open, Sign: known.Session}},
		"OpenCode, a sub-agent": {schema.DoorChat, chat + "}",
			header("x-parent-session-id", open, "x-session-affinity", openChild, "x-session-id", openChild),
			known.Run{ID: open, Sign: known.Parent, Agent: openChild}},
		"OpenCode's provider": {schema.DoorChat, chat + "}", header("x-opencode-session", open),
			known.Run{ID: open, Sign: known.Session}},
		"Qwen Code": {schema.DoorChat, chat + "}", header("user-agent", "QwenCode/0.15.10 (linux; x64)"), known.Run{}},
		"a name before all": {schema.DoorMessages, messages + "," + user,
			header("x-router-run", "task 7", "x-claude-code-session-id", session, "x-claude-code-agent-id", "acd3"),
			known.Run{ID: "task 7", Sign: known.Named, Agent: "acd3"}},
		"a name at a door without messages": {schema.DoorEmbeddings, `{"model":"m","input":"x"}`, header("x-router-run", "r"),
			known.Run{ID: "r", Sign: known.Named}},
		"an empty name":     {schema.DoorChat, chat + "}", header("x-router-run", " "), known.Run{}},
		"nothing":           {schema.DoorChat, chat + `,"user":"u","metadata":{"user_id":"u"},"prompt_cache_key":"k"}`, nil, known.Run{}},
		"another user id":   {schema.DoorMessages, messages + `,"metadata":{"user_id":"bob"}}`, nil, known.Run{}},
		"a broken user id":  {schema.DoorMessages, messages + `,"metadata":{"user_id":"{\"session_id\":"}}`, nil, known.Run{}},
		"a user id of many": {schema.DoorMessages, messages + `,"metadata":{"user_id":"{\"session_id\":[\"x\"]}"}}`, nil, known.Run{}},
		"a form":            {schema.DoorTranscriptions, "", nil, known.Run{}},
	} {
		req := &schema.Request{Door: c.door}
		if c.body != "" {
			req = request(t, c.door, c.body)
		}
		if got := known.NewBook([32]byte{}).Of("key", c.header, req, nil); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestSettingsChooseMoreSigns tries the signs that count only where they are listed.
func TestSettingsChooseMoreSigns(t *testing.T) {
	const body = chat + `,"prompt_cache_key":"k","metadata":{"user_id":"bob"}}`
	all := []known.By{known.ByBeginning, known.ByUserID, known.ByCacheKey}
	book := known.NewBook([32]byte{1})
	for by, want := range map[known.By]string{known.ByCacheKey: "k", known.ByUserID: "bob"} {
		if got := book.Of("", nil, request(t, schema.DoorChat, body), []known.By{by}); got.ID != want || got.Sign.String() != by.String() {
			t.Errorf("%s: %+v", by, got)
		}
	}
	if got := book.Of("", nil, request(t, schema.DoorChat, body), all); got.ID != "k" {
		t.Errorf("of all signs %+v counts", got)
	}
	if got := book.Of("", nil, request(t, schema.DoorMessages, messages+`,"metadata":{"user_id":"bob"}}`), all); got.ID != "bob" {
		t.Errorf("the user of a message: %+v", got)
	}
	begun := book.Of("", nil, request(t, schema.DoorChat, chat+"}"), all)
	longer := book.Of("", nil, request(t, schema.DoorChat, strings.TrimSuffix(chat, "]")+`,{"role":"assistant","content":"y"},{"role":"user","content":"z"}]}`), all)
	if begun.Sign != known.Beginning || begun != longer {
		t.Errorf("a conversation begins as %+v and goes on as %+v", begun, longer)
	}
	if other := known.NewBook([32]byte{2}).Of("", nil, request(t, schema.DoorChat, chat+"}"), all); other == begun {
		t.Error("the id of a beginning does not depend on the secret")
	}
	if got := book.Of("", nil, request(t, schema.DoorCompletions, `{"model":"m","prompt":"x"}`), all); got.ID != "" {
		t.Errorf("a completion: %+v", got)
	}
}

// TestAChildOfAChildReachesTheRoot has three generations, each of which names only its parent.
func TestAChildOfAChildReachesTheRoot(t *testing.T) {
	for name, headers := range map[string]func(self, parent string) http.Header{
		"OpenCode": func(self, parent string) http.Header {
			return header("x-session-id", self, "x-parent-session-id", parent)
		},
		"Codex": func(self, parent string) http.Header {
			return header("thread-id", self, "session-id", self, "x-codex-parent-thread-id", parent)
		},
		"Claude Code": func(self, parent string) http.Header {
			return header("x-claude-code-agent-id", self, "x-claude-code-parent-agent-id", parent)
		},
	} {
		book, req := known.NewBook([32]byte{}), request(t, schema.DoorChat, chat+"}")
		for _, generation := range [][2]string{{"root", ""}, {"child", "root"}, {"grandchild", "child"}, {"last", "grandchild"}, {"child", "root"}} {
			if got := book.Of("key", headers(generation[0], generation[1]), req, nil); got.ID != "root" {
				t.Errorf("%s: %s of %s belongs to %+v", name, generation[0], generation[1], got)
			}
		}
		if got := book.Of("another key", headers("last", "grandchild"), req, nil); got.ID != "grandchild" {
			t.Errorf("%s: an agent of another key belongs to %+v", name, got)
		}
	}
}

// TestResponsesBelongToTheRunOfTheOneBefore continues responses.
func TestResponsesBelongToTheRunOfTheOneBefore(t *testing.T) {
	book := known.NewBook([32]byte{})
	req := request(t, schema.DoorResponses, response+`,"previous_response_id":"resp_1"}`)
	if got := book.Of("key", nil, req, nil); got != (known.Run{ID: "resp_1", Sign: known.Response}) {
		t.Errorf("after a response of no run: %+v", got)
	}
	req.Run = "task"
	if got := book.Of("key", nil, req, nil); got != (known.Run{ID: "task", Sign: known.Response}) {
		t.Errorf("after a response of a run: %+v", got)
	}
	if got := book.Of("key", header("session-id", "s"), req, nil); got.ID != "s" {
		t.Errorf("in another session: %+v", got)
	}
}

// TestIDsAreBounded sends ids that nobody can show.
func TestIDsAreBounded(t *testing.T) {
	req := request(t, schema.DoorChat, chat+"}")
	seen := map[string]string{}
	for _, id := range []string{strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("y", 4000), "a\x01b", "a\xffb", "任务-1", "a b"} {
		got := known.NewBook([32]byte{}).Of("", http.Header{known.Header: {id}}, req, nil).ID
		isAsItCame := got == id
		if want := id == "任务-1" || id == "a b" || id == strings.Repeat("x", 200); isAsItCame != want || len(got) > 200 || got == "" {
			t.Errorf("%.20q is %q", id, got)
		}
		if before, twice := seen[got]; twice {
			t.Errorf("%.20q and %.20q are both %q", before, id, got)
		}
		seen[got] = id
	}
}

// TestABookForgetsTheOldest fills a book more than once.
func TestABookForgetsTheOldest(t *testing.T) {
	book, req := known.NewBook([32]byte{}), request(t, schema.DoorChat, chat+"}")
	child := func(self, parent string) string {
		return book.Of("key", http.Header{"X-Session-Id": {self}, "X-Parent-Session-Id": {parent}}, req, nil).ID
	}
	child("used", "root")
	child("unused", "root")
	for n := range 100_000 {
		child(fmt.Sprint("child", n), "root")
		if n%10_000 == 0 && child("of the used one", "used") != "root" {
			t.Fatalf("after %d others a sub-agent with children is forgotten", n)
		}
	}
	if child("last", "unused") == "root" {
		t.Error("a sub-agent is remembered forever")
	}
}

// FuzzOf sends anything as the user id and as headers.
func FuzzOf(f *testing.F) {
	f.Add("user_1_account_2_session_3", "a", "b", "c")
	f.Add(`{"session_id":"s"}`, "", "parent", "parent")
	book := known.NewBook([32]byte{})
	f.Fuzz(func(t *testing.T, user, self, parent, session string) {
		body := fmt.Sprintf(`{"model":"m","messages":[],"metadata":{"user_id":%q}}`, user)
		req := &schema.Request{Door: schema.DoorMessages}
		if req.Body.Parse([]byte(body)) != nil {
			return // Go quotes otherwise than JSON
		}
		run := book.Of("key", header("thread-id", self, "x-codex-parent-thread-id", parent, "session-id", session), req,
			[]known.By{known.ByUserID, known.ByBeginning})
		if len(run.ID) > 200 || len(run.Agent) > 200 || (run.ID == "") != (run.Sign == known.None) || run.Agent == run.ID && run.ID != "" {
			t.Errorf("%+v", run)
		}
	})
}
