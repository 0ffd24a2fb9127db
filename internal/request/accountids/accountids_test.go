package accountids_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// TestAnAnswerGivesTheIDsOfItsItems: those of items, files and containers, but none that the
// model, or a tool that it calls, only says.
func TestAnAnswerGivesTheIDsOfItsItems(t *testing.T) {
	var doc jsonscan.Document
	if err := doc.Parse([]byte(`{"type":"response.completed","response":{"id":"resp_1","tools":[{"vector_store_ids":["vs_1"]}],"output":[
		{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"{\"file_id\":\"file-9\"}","annotations":[{"type":"container_file_citation","container_id":"cntr_1","file_id":"cfile_1"}]}]},
		{"type":"function_call","id":"fc_1","arguments":"{\"file_id\":\"file-8\"}"},
		{"type":"code_interpreter_call","id":"ci_1","container_id":"cntr_2"}]}}`)); err != nil {
		t.Fatal(err)
	}
	var given []string
	accountids.NoteResponse(func(ids []string) { given = append(given, ids...) }, doc.Root().Get("response"))
	slices.Sort(given)
	if want := []string{"cfile_1", "ci_1", "cntr_1", "cntr_2", "fc_1", "msg_1"}; !slices.Equal(given, want) {
		t.Errorf("a response gives %v, want %v", given, want)
	}
	given = nil
	accountids.NoteMessage(func(ids []string) { given = append(given, ids...) }, []byte(`{"id":"msg_1","container":{"id":"container_1","expires_at":"x"},"content":[
		{"type":"tool_use","id":"t","input":{"file_id":"file_9"}},
		{"type":"bash_code_execution_tool_result","content":{"content":[{"type":"bash_code_execution_output","file_id":"file_1"}]}}]}`))
	slices.Sort(given)
	if want := []string{"container_1", "file_1"}; !slices.Equal(given, want) {
		t.Errorf("a message gives %v, want %v", given, want)
	}
}

// A request that names nothing is only searched, and takes no memory.
func TestARequestThatNamesNothingTakesNoMemory(t *testing.T) {
	var req schema.Request
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat(`a text \u003cwith\u003e \u4e2d `, 1000) + `"}]}`)
	if err := req.ParseChat(body); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if accountids.Chat.Named(&req) != nil {
			t.Error("it names something")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkARequestThatNamesNothing(b *testing.B) {
	var req schema.Request
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("a text of words ", 6000) + `"}]}`)
	if err := req.ParseChat(body); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		accountids.Chat.Named(&req)
	}
}
