package importer_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer"
)

// process is a process of a configuration as the file has it.
type process struct {
	Command, Stop, Ready string
	Env                  map[string]string
	Group                any
	StopAfter            string `yaml:"stop-after"`
}

func processesOf(t *testing.T, result *importer.Result) map[string]process {
	t.Helper()
	var written struct{ Processes map[string]process }
	if err := yaml.Unmarshal([]byte(result.YAML), &written); err != nil {
		t.Fatal(err)
	}
	return written.Processes
}

// TestTheExampleOfLlamaSwapIsRead reads the file that has all settings of llama-swap. Each of
// them is taken, changed, or has a reason of its own.
func TestTheExampleOfLlamaSwapIsRead(t *testing.T) {
	content, err := os.ReadFile("testdata/llama-swap/config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := importer.File{Name: "config.example.yaml", Content: content}
	if source, err := importer.Detect(file); err != nil || source != importer.LlamaSwap {
		t.Errorf("it is of %s: %v", source, err)
	}
	result, err := importer.Import(importer.LlamaSwap, importer.Input{Files: []importer.File{file}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range result.Rows {
		if strings.Contains(row.Text, "there is no such setting here") {
			t.Errorf("%s:%d: nobody knows %s", row.File, row.Line, row.Setting)
		}
	}
	loaded, err := config.Load(config.Source{Content: []byte(result.YAML), Env: []string{"HOME=/home/x"}})
	if err != nil {
		t.Fatal(err)
	}
	document := loaded.Document
	all := processesOf(t, result)
	large, docker := all["gpt-oss-120b"], all["docker-llama"]
	if got := large.Command; got != "/path/to/llama-server/llama-server-ec9e0301 --port $PORT\n--model path/to/gpt-oss-120B.gguf\n--ctx-size 16384\n--temperature 0.7" {
		t.Errorf("the command is %q", got)
	}
	if large.Ready != "http://127.0.0.1:8999/custom-endpoint" || large.StopAfter != "60s" || large.Env["CUDA_VISIBLE_DEVICES"] != "0,1,2" {
		t.Errorf("%+v", large)
	}
	if docker.Stop != "docker stop docker-llama" || docker.Group != nil {
		t.Errorf("%+v", docker)
	}
	bodies := map[string]string{}
	for _, i := range document.Services[schema.Chat].Instances {
		bodies[i.Name] = i.Body
	}
	if _, known := bodies["gpt-4o-mini"]; !known || !strings.Contains(bodies["gpt-oss-120b:high"], `{"reasoning_effort":"high"},"temperature":0.7,"top_k":null`) {
		t.Errorf("%v", bodies)
	}
	aliases := document.Services[schema.Chat].Aliases
	for name, model := range map[string]string{"llm-plan": "gpt-oss-120b", "z-ai/glm-4.7": "openrouter/z-ai/glm-4.7"} {
		if aliases[name] != model {
			t.Errorf("%s is %s", name, aliases[name])
		}
	}
}

// TestWhatALlamaSwapModelServes goes by what a model is said to do, by its command and its name.
func TestWhatALlamaSwapModelServes(t *testing.T) {
	for model, want := range map[string]string{
		"m: {cmd: 'llama-server --port ${PORT}'}":                                             "chat:\n llamacpp",
		"m: {cmd: '/bin/llama-server-ec9e --port ${PORT} --reranking'}":                       "rerank:\n llamacpp",
		"m: {cmd: 'docker run -p ${PORT}:80 ghcr.io/ggml-org/llama.cpp:server --embeddings'}": "embedding:\n llamacpp",
		"nomic-embed: {cmd: 'server --port ${PORT}'}":                                         "embedding:",
		"m: {cmd: 'whisper-server --port ${PORT} --inference-path /t'}":                       "stt:\n whispercpp\n path: \"/t\"",
		"m: {cmd: '/app/sd-server --port ${PORT}'}":                                           "imgGen:\n imgEdit:",
		"m: {cmd: 'vllm serve /models/m --port ${PORT}'}":                                     "chat:\n vllm",
		"m: {cmd: 'x ${PORT}', capabilities: {in: [audio], out: [text]}}":                     "stt:",
		"m: {cmd: 'x ${PORT}', capabilities: {in: [text, audio], out: [text, audio]}}":        "chat:",
		"m: {cmd: 'x ${PORT}', capabilities: {reranker: true}}":                               "rerank:",
	} {
		result := importedText(t, importer.LlamaSwap, "models: {"+model+"}")
		for part := range strings.SplitSeq(want, "\n ") {
			if !strings.Contains(result.YAML, part) {
				t.Errorf("%s: no %s in:\n%s", model, part, result.YAML)
			}
		}
		if strings.Contains(result.YAML, "llamacpp") != strings.Contains(want, "llamacpp") {
			t.Errorf("%s:\n%s", model, result.YAML)
		}
	}
}

// TestFiltersOfLlamaSwapBecomeMembers has parameters for a model, for one of its names, and for
// its own name alone, which its aliases do not get.
func TestFiltersOfLlamaSwapBecomeMembers(t *testing.T) {
	result := importedText(t, importer.LlamaSwap, `
macros: {temp: 0.7}
models:
  m:
    cmd: x ${PORT}
    aliases: [n]
    filters:
      strip_params: "top_p, model, seed"
      setParams: {temperature: "${temp}", note: "t=${temp}", max_tokens: 9}
      setParamsByID:
        "${MODEL_ID}": {seed: 1}
        "${MODEL_ID}:low": {temperature: 0}
`)
	loaded, err := config.Load(config.Source{Content: []byte(result.YAML)})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range loaded.Document.Services[schema.Chat].Instances {
		want := map[string]string{
			"m":     `{"note":"t=0.7","seed":1,"temperature":0.7,"top_p":null}`,
			"m:low": `{"note":"t=0.7","seed":null,"temperature":0,"top_p":null}`,
			"n":     `{"note":"t=0.7","seed":null,"temperature":0.7,"top_p":null}`,
		}[i.Name]
		if i.Body != want || i.Process != "m" || i.Name != "m" && i.UpstreamModel != "m" {
			t.Errorf("%s: %+v", i.Name, i)
		}
	}
	if strings.Count(result.YAML, "- name:") != 3 || !strings.Contains(rowOf(result, importer.Unsupported, "models.m.filters"), "max_tokens: must not have max_tokens") {
		t.Errorf("%+v\n%s", result.Rows, result.YAML)
	}
}

// TestGroupsOfLlamaSwapBecomeGroups has models that swap, one that stays for ever and two that run
// together, by groups and by the older place of them.
func TestGroupsOfLlamaSwapBecomeGroups(t *testing.T) {
	const models = "models: {a: {cmd: 'x ${PORT}'}, b: {cmd: 'x ${PORT}'}, c: {cmd: 'x ${PORT}'}, d: {cmd: 'x ${PORT}'}, e: {cmd: 'x ${PORT}'}}\n"
	const groups = "groups: {ever: {persistent: true, swap: false, exclusive: false, members: [e]}, pair: {swap: false, members: [c, d]}}"
	for _, file := range []string{models + groups, models + "routing: {router: {use: group, settings: {" + groups + ", matrix: {sets: {x: a}}}}}"} {
		result := importedText(t, importer.LlamaSwap, file)
		var got []any
		for _, name := range strings.Split("abcde", "") {
			got = append(got, processesOf(t, result)[name].Group)
		}
		if all := fmt.Sprint(got); all != "[[swap-1 swap-2] [swap-1 swap-2] swap-1 swap-2 <nil>]" {
			t.Errorf("the groups are %s:\n%s", all, result.YAML)
		}
		if rowOf(result, importer.Taken, "groups.pair") == "" && rowOf(result, importer.Taken, "routing.router.settings.groups.pair") == "" {
			t.Errorf("%+v", result.Rows)
		}
	}
	loads := importedText(t, importer.LlamaSwap, models+groups+"\nhooks: {on_startup: {preload: [e, a, c, nobody, d]}}")
	if got := strings.Count(loads.YAML, "preload: true"); got != 3 || !strings.Contains(rowOf(loads, importer.NotInForce, "hooks.on_startup.preload"), "a leaves for c") {
		t.Errorf("%d processes are preloaded:\n%s", got, loads.YAML)
	}
	sets := importedText(t, importer.LlamaSwap, models+"matrix: {sets: {x: 'a & b', y: 'b & c', z: 'a & c', odd: '?'}}")
	if row := rowOf(sets, importer.Unsupported, "matrix.sets"); !strings.Contains(row, "one process runs at a time") || strings.Count(sets.YAML, "group: swap\n") != 5 {
		t.Errorf("%q\n%s", row, sets.YAML)
	}
	sets = importedText(t, importer.LlamaSwap, models+"matrix: {sets: {x: 'a & b', y: 'b & c', z: 'a & c'}}")
	if row := rowOf(sets, importer.Unsupported, "matrix.sets"); !strings.HasPrefix(row, "a, c do not run all together") {
		t.Errorf("%q", row)
	}
}
