package engines

import (
	"io"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// MaxJSON is the longest answer in JSON that is read. Some versions of llama.cpp show the
// prompts of all slots.
const MaxJSON = 4 << 20

// parse returns the root of an answer in JSON. It is absent if the answer is not
// JSON.
func parse(body io.Reader) jsonscan.Value {
	text, err := io.ReadAll(io.LimitReader(body, MaxJSON))
	if err != nil {
		return jsonscan.Value{}
	}
	doc := jsonscan.Document{AllowDuplicateKeys: true, Deep: true}
	if doc.Parse(text) != nil {
		return jsonscan.Value{}
	}
	return doc.Root()
}

// readProps reads the properties of llama.cpp's server: the size of its cache, and whether
// its model sleeps. A router that starts a server for each model tells how many it runs.
func readProps(answer *Answer, into *Report) bool {
	props := parse(answer.Body)
	if props.Is("role", "router") {
		most, ok := props.Get("max_instances").Int()
		if ok && most > 0 && most < 1000 {
			into.Room = int(most)
		}
		return true
	}
	slots, ok := props.Get("total_slots").Float()
	if !ok {
		return false
	}
	if each, ok := props.Get("default_generation_settings").Get("n_ctx").Float(); ok && slots > 0 && each > 0 {
		into.Capacity = slots * each
	}
	switch props.Get("is_sleeping").Kind() {
	case jsonscan.True:
		into.isAwake(false, answer.Models)
	case jsonscan.False:
		into.isAwake(true, answer.Models)
	}
	into.start = string(props.TextOf("media_marker")) // it is random in every process
	return true
}

// readModels reads the models of a llama.cpp that starts a server for each of them.
func readModels(answer *Answer, into *Report) bool {
	for m := range parse(answer.Body).Get("data").All() {
		status := string(m.Get("status").TextOf("value"))
		if status == "" {
			continue // it has one model, which is always there
		}
		into.TellsModels = true
		name := string(m.TextOf("id"))
		switch {
		case !slices.Contains(answer.Models, name):
		case status == "loaded":
			into.Awake = append(into.Awake, name)
		case status == "loading":
			into.Loading = append(into.Loading, name)
		case status == "sleeping":
			into.Asleep = append(into.Asleep, name)
		case m.Get("status").IsTrue("failed"):
			into.Failed = append(into.Failed, name)
		}
	}
	return into.TellsModels
}

// readSlots reads the state of each slot of llama.cpp.
func readSlots(answer *Answer, into *Report) bool {
	slots := parse(answer.Body)
	if slots.Kind() != jsonscan.Array || slots.First().Get("id").Kind() != jsonscan.Number {
		return false
	}
	into.Waiting, into.Running = 0, 0
	for s := range slots.All() {
		if task, ok := s.Get("id_task").Float(); ok {
			into.progress = max(into.progress, task)
		}
		if !s.IsTrue("is_processing") {
			continue
		}
		next := s.Get("next_token")
		if next.Kind() == jsonscan.Array { // older versions have no list
			next = next.First()
		}
		if decoded, ok := next.Get("n_decoded").Float(); ok && decoded == 0 {
			into.Waiting++
		} else {
			into.Running++
		}
	}
	return true
}

// readLoaded reads which models Ollama has in memory.
func readLoaded(answer *Answer, into *Report) bool {
	loaded := parse(answer.Body).Get("models")
	if loaded.Kind() != jsonscan.Array {
		return false
	}
	into.TellsModels = true
	for m := range loaded.All() {
		tagged := string(m.TextOf("name"))
		size, isTold := m.Get("size").Int()
		for _, name := range answer.Models {
			if !isSameModel(name, tagged) {
				continue
			}
			into.Awake = append(into.Awake, name)
			if isTold && size > 0 {
				if into.Bytes == nil {
					into.Bytes = map[string]int64{}
				}
				into.Bytes[name] = size
			}
		}
	}
	return true
}

// readSleeping reads whether the model of a vLLM sleeps.
func readSleeping(answer *Answer, into *Report) bool {
	switch parse(answer.Body).Get("is_sleeping").Kind() {
	case jsonscan.True:
		into.isAwake(false, answer.Models)
	case jsonscan.False:
		into.isAwake(true, answer.Models)
	default:
		return false
	}
	return true
}

// readAdapters reads which LoRA adapters a vLLM has loaded: its list names them behind its
// model, each with the model as its parent and the path that it was loaded from.
func readAdapters(answer *Answer, into *Report) bool {
	models := parse(answer.Body).Get("data")
	if models.Kind() != jsonscan.Array {
		return false
	}
	into.TellsAdapters = true
	for m := range models.All() {
		name := string(m.TextOf("id"))
		path, isOurs := answer.Adapters[name]
		switch {
		case !isOurs || m.Get("parent").Kind() != jsonscan.String:
		case m.Is("root", path):
			into.Adapters = append(into.Adapters, name)
		default:
			into.Stale = append(into.Stale, name)
		}
	}
	return true
}

// readRunning reads the models with a running server of llama-swap.
func readRunning(answer *Answer, into *Report) bool {
	running := parse(answer.Body).Get("running")
	if running.Kind() != jsonscan.Array {
		return false
	}
	into.TellsModels = true
	for m := range running.All() {
		name := string(m.TextOf("model"))
		if !slices.Contains(answer.Models, name) {
			continue
		}
		switch string(m.TextOf("state")) {
		case "ready":
			into.Awake = append(into.Awake, name)
		case "starting":
			into.Loading = append(into.Loading, name)
		}
	}
	return true
}

// isSameModel reports whether a name means the model that Ollama names with its tag.
func isSameModel(name, tagged string) bool {
	return strings.EqualFold(name, tagged) || strings.EqualFold(name+":latest", tagged)
}
