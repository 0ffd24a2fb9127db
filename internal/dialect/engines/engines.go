// Package engines reads the reports of inference engines about themselves while they
// work: how many requests wait and run, how large the cache of prompts is, which models
// are in memory, and whether the process is still the same. It reads answers and has no
// sockets; a health checker asks the questions.
package engines

import "io"

// Question is a question to an engine.
type Question struct {
	// Path is where it is asked, with GET.
	Path string
	// Read reads the answer into an empty report, and reports whether the engine told
	// anything. Impossible values are passed on as they are: see Report.
	Read func(answer *Answer, into *Report) bool
	// Idle means that the question may come with every health check. It must not keep a
	// model in memory that the engine would put to sleep.
	Idle bool
	// Busy means that the question comes every few seconds while the engine has requests
	// of the gateway: the answer is old after that.
	Busy bool
	// IsOfMemory means that the answer says which models are in memory. It is asked for
	// after an order, too.
	IsOfMemory bool
	// IsOfAdapters means that the answer says which LoRA adapters are in memory, and nothing
	// about models. It is asked only where the gateway has adapters.
	IsOfAdapters bool
}

// Answer is how an engine answered a question.
type Answer struct {
	Body io.Reader
	// ProcessStart is the header Process-Start-Time-Unix of the answer.
	ProcessStart string
	// Models are the names of the models that the gateway asks this engine for. Numbers of
	// other models are left out.
	Models []string
	// Adapters has the paths of the LoRA adapters that the gateway loads there, by their names.
	Adapters map[string]string
}

// Report is the answer of an engine. A number below zero, or NaN, was not told or
// cannot be believed. All others are as the engine wrote them, however large.
type Report struct {
	// Waiting is the number of requests before the end of their prefill, as far as the
	// engine distinguishes them, and Running the number of all others.
	Waiting, Running float64
	// Used is the share of the cache that is in use, from 0 to 1.
	Used float64
	// Capacity is how many tokens the cache of prompts holds; 0 means that it is off.
	Capacity float64

	// TellsModels means that the engine has listed its models: of Answer.Models the ones in
	// Awake are in memory, Asleep can be woken up, Loading are being loaded, and all others
	// are not in memory. The last attempt to load the models in Failed did not work. Bytes is
	// how much memory a model takes.
	TellsModels                    bool
	Awake, Asleep, Loading, Failed []string
	Bytes                          map[string]int64
	// Room is how many models are in memory at a time, 0 if that was not told.
	Room int

	// TellsAdapters means that the engine has listed its LoRA adapters: of Answer.Adapters the
	// ones in Adapters are in memory. The ones in Stale have another path there.
	TellsAdapters   bool
	Adapters, Stale []string
	// AdapterRoom is how many adapters a batch of the engine may have, 0 if that was not told.
	AdapterRoom int

	// start names the process, if it is not empty, and progress grows as long as it lives.
	start    string
	progress float64
}

// NewReport returns a report that says nothing.
func NewReport() Report {
	return Report{Waiting: -1, Running: -1, Used: -1, Capacity: -1, progress: -1}
}

// Add adds the answer to another question.
func (r *Report) Add(other *Report) {
	r.Waiting = sum(r.Waiting, other.Waiting)
	replace(&r.Running, other.Running)
	replace(&r.Used, other.Used)
	replace(&r.Capacity, other.Capacity)
	r.TellsModels = r.TellsModels || other.TellsModels
	r.Awake, r.Asleep = append(r.Awake, other.Awake...), append(r.Asleep, other.Asleep...)
	r.Loading, r.Failed = append(r.Loading, other.Loading...), append(r.Failed, other.Failed...)
	if other.Bytes != nil {
		r.Bytes = other.Bytes
	}
	r.Room = max(r.Room, other.Room)
	r.TellsAdapters = r.TellsAdapters || other.TellsAdapters
	r.Adapters, r.Stale = append(r.Adapters, other.Adapters...), append(r.Stale, other.Stale...)
	r.AdapterRoom = max(r.AdapterRoom, other.AdapterRoom)
}

// sum adds two numbers. Either may be -1, which means that it was not told.
func sum(a, b float64) float64 {
	switch {
	case a == -1:
		return b
	case b == -1:
		return a
	}
	return a + b
}

func replace(number *float64, by float64) {
	if by != -1 {
		*number = by
	}
}

// isAwake records whether all models of the gateway are in memory, for an engine that
// runs one model under all of its names.
func (r *Report) isAwake(awake bool, models []string) {
	r.TellsModels = true
	if awake {
		r.Awake = models
	} else {
		r.Asleep = models
	}
}

// The questions to engines of each kind.
var (
	// VLLM are the questions to vLLM.
	VLLM = []Question{
		{Path: "/metrics", Read: readMetrics, Idle: true, Busy: true},
		{Path: "/is_sleeping", Read: readSleeping, Idle: true, Busy: true, IsOfMemory: true},
		{Path: "/v1/models", Read: readAdapters, Idle: true, Busy: true, IsOfAdapters: true},
	}
	// Unknown are the questions to an engine of an unknown kind, which may have metrics,
	// such as SGLang or TGI behind OpenAI's API. As it may put its model to sleep, it is
	// not asked while it is idle.
	Unknown = []Question{{Path: "/metrics", Read: readMetrics, Busy: true}}
	// LlamaCpp are the questions to llama.cpp. Its server puts its model to sleep when
	// nobody has asked for anything but health, props and models for a while.
	LlamaCpp = []Question{
		{Path: "/props", Read: readProps, Idle: true, IsOfMemory: true},
		{Path: "/models", Read: readModels, Idle: true, IsOfMemory: true},
		{Path: "/metrics", Read: readMetrics, Busy: true},
		{Path: "/slots", Read: readSlots, Busy: true},
	}
	// LlamaSwap are the questions to llama-swap.
	LlamaSwap = []Question{{Path: "/running", Read: readRunning, Idle: true, Busy: true, IsOfMemory: true}}
	// Ollama are the questions to Ollama.
	Ollama = []Question{{Path: "/api/ps", Read: readLoaded, Idle: true, Busy: true, IsOfMemory: true}}
)
