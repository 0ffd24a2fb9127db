// Package loras lists the LoRA adapters that engines load beside their models: each is a model
// of its own for callers. Package residency decides which engine has which, as it does for
// models.
package loras

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
)

const (
	maxAdapters = 1000
	maxRoom     = 1000
	maxPath     = 4096
)

// Settings are the adapters by the names that callers ask for. They come from the configuration
// file only: nobody who may edit instances can have an engine read files.
type Settings struct {
	// Room is how many adapters an engine has at a time; 0 means the number that it tells.
	Room     int                `json:"room" minimum:"0" maximum:"1000"`
	Adapters map[string]Adapter `json:"adapters" doc:"The adapters, by the names that callers ask for."`
}

// Docs describes the members that a tag has no room for.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"room": "How many of the adapters an engine has at a time, such as its --max-cpu-loras; 0 for what the " +
			"engine tells.",
	}
}

// Adapter describes one adapter.
type Adapter struct {
	// Base is the model that it adapts.
	Base string `json:"base" required:"true" doc:"The model that it adapts: the name of instances."`
	// Path is where the engines find it.
	Path string `json:"path" required:"true"`
	// BaseURLs are the addresses of the instances that may load it; empty means all of the base.
	BaseURLs []string `json:"baseUrls"`
	Pinned   bool     `json:"pinned" doc:"Whether it never leaves an engine for another adapter."`
}

// Docs describes the members that a tag has no room for.
func (Adapter) Docs() map[string]string {
	return map[string]string{
		"path":     "Where the engine finds it: a folder of the engine's host, or a repository that it downloads.",
		"baseUrls": "The base-urls of the instances that may load it; empty for all instances of the base.",
	}
}

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if s.Room < 0 || s.Room > maxRoom {
		report("room", say.New("field.between", "least", "0", "most", maxRoom, "found", s.Room))
	}
	if len(s.Adapters) > maxAdapters {
		report("adapters", say.New("field.entries", "most", maxAdapters))
	}
	for _, name := range names(s) {
		at := "adapters[" + strconv.Quote(name) + "]"
		if fault := naming.Fault(name); fault.Is() {
			report(at, fault)
		}
		s.Adapters[name].check(say.Under(at+".", report))
	}
}

func (a Adapter) check(report say.Report) {
	if a.Base == "" {
		report("base", say.New("field.required"))
	}
	switch {
	case a.Path == "":
		report("path", say.New("field.required"))
	case len(a.Path) > maxPath:
		report("path", say.New("field.bytes", "most", maxPath))
	case strings.ContainsFunc(a.Path, unicode.IsControl):
		report("path", say.New("field.control"))
	}
	for n, address := range a.BaseURLs {
		if fault := backend.BaseURLFault(address); fault.Is() {
			report("baseUrls["+strconv.Itoa(n)+"]", fault)
		}
	}
}

func names(s Settings) []string { return slices.Sorted(maps.Keys(s.Adapters)) }

// List returns the adapters, by their names.
func List(s Settings) []backend.LoRA {
	all := make([]backend.LoRA, 0, len(s.Adapters))
	for _, name := range names(s) {
		a := s.Adapters[name]
		all = append(all, backend.LoRA{
			Name: name, Base: a.Base, Path: a.Path, BaseURLs: a.BaseURLs, IsPinned: a.Pinned, Room: s.Room,
		})
	}
	return all
}
