package processes

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestSettingsThatCannotBeMeantAreReported(t *testing.T) {
	good := func(edit func(*Process)) Process {
		p := DefaultProcess()
		p.Command = []string{"llama-server", "--port", "$PORT"}
		edit(&p)
		return p
	}
	for name, c := range map[string]struct {
		process Process
		want    string
	}{
		"good":                        {good(func(*Process) {}), ""},
		"good with a group":           {good(func(p *Process) { p.Group = Groups{"gpu"} }), ""},
		"good with a port of its own": {good(func(p *Process) { p.Command, p.Ready = []string{"x"}, "http://127.0.0.1:81/health" }), ""},
		"no command":                  {good(func(p *Process) { p.Command = nil }), `["p"].command: is required`},
		"good as one text":            {good(func(p *Process) { p.Command = []string{"llama-server --port $PORT"} }), ""},
		"good in several groups":      {good(func(p *Process) { p.Group = Groups{"gpu0", "gpu1"} }), ""},
		"an open quotation":           {good(func(p *Process) { p.Command = []string{"llama-server --port $PORT 'a"} }), `command: has a quotation mark ' that is not closed`},
		"a text of comments":          {good(func(p *Process) { p.Command = []string{"# nothing"} }), "command: has no program"},
		"a stop without a program":    {good(func(p *Process) { p.Stop = []string{" "} }), "stop: has no program"},
		"a group without a name":      {good(func(p *Process) { p.Group = Groups{""} }), "group: want a name"},
		"an empty program":            {good(func(p *Process) { p.Command[0] = " " }), "has no program"},
		"a zero byte":                 {good(func(p *Process) { p.Command[1] = "a\x00b" }), "zero byte"},
		"neither port nor ready":      {good(func(p *Process) { p.Command = []string{"x"} }), "ready: is required"},
		"both group and memory":       {good(func(p *Process) { p.Group, p.Memory = Groups{"gpu"}, schema.GiB }), "memory: must be left out beside group"},
		"good by its port":            {good(func(p *Process) { p.Ready = "tcp://127.0.0.1:$PORT" }), ""},
		"a port with a path":          {good(func(p *Process) { p.Ready = "tcp://127.0.0.1:$PORT/health" }), "ready: want an address"},
		"a ready that is no URL":      {good(func(p *Process) { p.Ready = "/health" }), "ready: want a URL"},
		"a password":                  {good(func(p *Process) { p.Ready = "http://u:secret@h/" }), "must not contain a user name"},
		"no time to start":            {good(func(p *Process) { p.StartTimeout = 0 }), "startTimeout: must be longer"},
		"too many restarts":           {good(func(p *Process) { p.Restarts = 101 }), "restarts: must be between"},
		"a variable without a name":   {good(func(p *Process) { p.Env = map[string]string{"A=B": "secret"} }), "is no name of an environment variable"},
		"a group with a space":        {good(func(p *Process) { p.Group = Groups{"my gpu"} }), "group: want a name"},
	} {
		var got []string
		Settings{"p": c.process}.Check(func(path string, fault say.Sentence) { got = append(got, path+": "+fault.String()) })
		if all := strings.Join(got, "\n"); c.want == "" && all != "" || !strings.Contains(all, c.want) || strings.Contains(all, "secret") {
			t.Errorf("%s: %q", name, all)
		}
	}
	for _, name := range []string{"", "..", "a/b", "a b", strings.Repeat("x", 65)} {
		reported := false
		Settings{name: good(func(*Process) {})}.Check(func(string, say.Sentence) { reported = true })
		if !reported {
			t.Errorf("the name %q is taken", name)
		}
	}
}

func TestTheReadyURLIsJudged(t *testing.T) {
	for ready, want := range map[string]bool{
		"": true, "http://127.0.0.1:8081/health": true, "http://localhost:1/": true, "http://[::1]:$PORT/": true,
		"http://192.0.2.1:8081/health": false, "http://gpu.example/health": false,
	} {
		if got := (Process{Ready: ready}).IsLocal(); got != want {
			t.Errorf("%q: %v", ready, got)
		}
	}
}

func TestAProcessThatIsPreloadedHasItsPlace(t *testing.T) {
	settings := Settings{}
	for name, groups := range map[string]Groups{"a": {"gpu0"}, "b": {"gpu1", "gpu0"}, "c": {"gpu2"}, "d": nil} {
		settings[name] = Process{Command: []string{"sh"}, Group: groups, Preload: true}
	}
	settings["e"] = Process{Command: []string{"sh"}, Group: Groups{"gpu0"}}
	var got []string
	Lint(settings, func(path, message string) { got = append(got, path+" "+message) })
	if len(got) != 1 || !strings.HasPrefix(got[0], `processes["b"].preload has no room beside a`) {
		t.Errorf("%q", got)
	}
}
