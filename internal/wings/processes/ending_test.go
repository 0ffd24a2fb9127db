package processes

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Each way in which a process ends is one sentence, which the console can translate.
func TestEndingsAreSentences(t *testing.T) {
	for line, want := range map[string]say.Code{
		"exited 3":      "process.exited",
		"died 9 killed": "process.signal",
		`fault {"code":"process.no_program","values":{"program":"llama-server"}}`: "process.unstarted",
	} {
		_, end := parseNews(line)
		if said := end.Said(); said.Code != want {
			t.Errorf("%s: %+v", line, said)
		}
	}
	if said := (ending{isLost: true}).Said(); said.Code != "process.supervisor" || said.String() != "its supervisor was ended" {
		t.Errorf("%+v", said)
	}
}
