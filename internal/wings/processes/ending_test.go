package processes

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Each way in which a process ends is one sentence, which the console can translate.
func TestEndingsAreSentences(t *testing.T) {
	for want, end := range map[say.Code]ending{
		"process.exited":     {Code: 3},
		"process.signal":     {Code: 9, Signal: "killed"},
		"process.no_program": {Fault: say.New("process.no_program", "program", "llama-server")},
	} {
		if said := end.Said(); said.Code != want {
			t.Errorf("%+v: got %+v, want %s", end, said, want)
		}
	}
	if said := (ending{IsLost: true}).Said(); said.Code != "process.supervisor" || said.String() != "its supervisor was ended" {
		t.Errorf("%+v", said)
	}
}
