package processes

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/see/say"
)

// Each way in which a process ends is one sentence, which the console can translate.
func TestEndingsAreSentences(t *testing.T) {
	for line, want := range map[string]say.Code{
		"exited 3":        "process.exited",
		"died 9 killed":   "process.signal",
		"fault no memory": "process.unstarted",
		"fault the program llama-server was not found in PATH": "process.unstarted",
	} {
		_, end := parseNews(line)
		if said := say.Of(end.String()); len(said) != 1 || said[0].Code != want {
			t.Errorf("%s: %q is %+v", line, end, said)
		}
	}
	if said := say.Of((ending{isLost: true}).String()); said[0].Code != "process.supervisor" || (ending{isLost: true}).String() != "its supervisor was ended" {
		t.Errorf("%q is %+v", (ending{isLost: true}), said)
	}
}
