package processes_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// TestProcessesAreReadFromTheFileOnly sets the section in every other way.
func TestProcessesAreReadFromTheFileOnly(t *testing.T) {
	const file = `processes: {a: {command: [x, $PORT], group: gpu, env: {TOKEN: "${SECRET}"}}}`
	loaded, err := config.Load(config.Source{Content: []byte(file), Env: []string{"SECRET=s"}})
	if err != nil {
		t.Fatal(err)
	}
	a := loaded.Document.Processes["a"]
	if len(a.Command) != 2 || a.Command[1] != "$PORT" || a.Env["TOKEN"] != "s" || a.Restarts != 3 {
		t.Errorf("read %+v", a)
	}
	for name, source := range map[string]config.Source{
		"the environment":         {Env: []string{"PATCHBAY_PROCESSES={a: {command: [x, $PORT]}}"}},
		"a part by environment":   {Content: []byte(file), Env: []string{"SECRET=s", "PATCHBAY_PROCESSES_A=x"}},
		"the command line":        {Set: []string{"processes.a.command=[x, $PORT]"}},
		"a part by command line":  {Content: []byte(file), Env: []string{"SECRET=s"}, Set: []string{`processes["a"].directory=/`}},
		"all by the command line": {Set: []string{"patchbay.processes=null"}},
	} {
		if _, err := config.Load(source); err == nil || !strings.Contains(err.Error(), "is read from the configuration file only") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProcessesHaveRoomInTheirMemory(t *testing.T) {
	for limits, want := range map[string]string{
		"":                                  `processes["a"].memory: wants limits.process-memory`,
		"limits: {process-memory: 4GiB}\n":  `processes["a"].memory: is more than limits.process-memory, 4GiB`,
		"limits: {process-memory: 16GiB}\n": "",
	} {
		_, err := config.Load(config.Source{Content: []byte(limits + `processes: {a: {command: [x, $PORT], memory: 8GiB}}`)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", limits, err)
		}
	}
}
