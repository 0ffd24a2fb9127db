package backend

import (
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
)

// LoRA is a LoRA adapter that engines load beside their model. Its name is a model of its own.
type LoRA struct {
	Name string
	// Base is the name of the model that it adapts. Instances of that model can load it.
	Base string
	// Path is where the engines find it.
	Path string
	// BaseURLs are the addresses of the engines that may load it; empty means all.
	BaseURLs []string
	// IsPinned means that it never leaves for another one.
	IsPinned bool
	// Room is how many adapters an engine has at a time; 0 means the number that it tells.
	Room int
}

// Adapted returns the instances that the adapters make of one of a model: each adapter is a
// model with the address and the settings of the instance. An engine that is a process of the
// gateway gets its adapters from its own command, and a model is no adapter of itself.
func (s Settings) Adapted(all []LoRA) []Settings {
	var adapted []Settings
	for n := range all {
		lora := &all[n]
		isThere := len(lora.BaseURLs) == 0 || slices.ContainsFunc(lora.BaseURLs, func(url string) bool {
			return strings.TrimRight(url, "/") == strings.TrimRight(s.BaseURL, "/")
		})
		if lora.Base != s.Name || lora.Name == s.Name || s.Process != "" || !isThere {
			continue
		}
		one := s.Found(lora.Name)
		one.Name, one.UpstreamModel, one.LoRA = lora.Name, "", lora
		one.Pinned, one.Residency = lora.IsPinned, Residency{}
		adapted = append(adapted, one)
	}
	return adapted
}

// lever is how the engine of the instance loads its model, or its LoRA adapter.
func (i *Instance) lever() engines.Lever {
	if i.Settings.LoRA != nil {
		return i.Kind.Adapters
	}
	return i.Kind.Lever
}
