package lint

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
)

// checkLoRAs warns of LoRA adapters that no engine would load. The services may be those of a
// version, and so that is no mistake.
func checkLoRAs(doc *config.Document, warn func(setting, message string)) {
	for _, lora := range doc.LoRAs() {
		at := fmt.Sprintf("loras.adapters[%q]", lora.Name)
		hasBase, isFound, isLoaded, sleeps := false, false, false, false
		for _, service := range doc.Services {
			for _, instance := range service.Instances {
				isFound = isFound || instance.Finds(lora.Base)
				if instance.Name != lora.Base {
					continue
				}
				hasBase = true
				kind, err := kinds.Lookup(cmp.Or(instance.Adapter, service.Adapter))
				if err == nil && kind.Adapters.Load != nil && len(instance.Adapted([]backend.LoRA{lora})) > 0 {
					isLoaded, sleeps = true, sleeps || service.Residency.Enabled
				}
			}
		}
		switch {
		case isFound:
		case !hasBase:
			warn(at+".base", "no instance serves this model, so that nobody can ask for the adapter")
		case !isLoaded:
			warn(at+".base", "no engine loads it: that takes an instance of the base with the adapter vllm that is no "+
				"process, at one of base-urls if there are any")
		case sleeps:
			warn(at+".base", "the engines of this model stay awake for their LoRA adapters, in spite of "+
				"residency.enabled")
		}
	}
}

// checkResidency warns of settings that would unload models or keep them in memory, where
// nothing acts on these settings.
func checkResidency(service config.Service, warn func(setting, message string)) {
	how := service.Residency
	hosts, hasLever, hasProcess := map[string]bool{}, false, false
	for _, instance := range service.Instances {
		hosts[strings.TrimRight(instance.BaseURL, "/")] = true
		hasLever = hasLever || leverOf(service, instance).Load != nil
		hasProcess = hasProcess || instance.Process != ""
	}
	if !how.Enabled {
		given := map[string]bool{
			"sleep-after": how.SleepAfter != 0, "room": how.Room != 0,
			"wake-timeout": how.WakeTimeout != 0 && !hasProcess, "hold-notice": how.HoldNotice != 0 && !hasProcess,
		}
		for _, setting := range []string{"wake-timeout", "hold-notice", "sleep-after", "room"} {
			if given[setting] {
				warn("residency."+setting, "has no effect: set residency.enabled to true, or leave it out")
			}
		}
	} else if len(service.Instances) > 0 && !hasLever && !hasProcess {
		warn("residency.enabled", "has no effect: no instance has an adapter that loads models and gives them up "+
			"(ollama, vllm, llamacpp, llamaswap), nor a process")
	}
	for n, instance := range service.Instances {
		if instance.Process != "" {
			continue // the gateway keeps its model in any case
		}
		warnOfInstance := func(setting, message string) { warn(fmt.Sprintf("instances[%d].%s", n, setting), message) }
		checkKeeping(how.Enabled, instance, leverOf(service, instance), warnOfInstance)
		if lever := leverOf(service, instance); instance.Pinned && how.Enabled && how.Room == 0 && lever.Load != nil &&
			!lever.IsWhole && !lever.TellsRoom && len(hosts) == 1 {
			warnOfInstance("pinned", "the engine may throw out the model by itself, as there is no other host for "+
				"the others: set residency.room to how many models fit")
		}
	}
}

// checkKeeping warns of settings of an instance where the gateway does not manage the
// model's memory.
func checkKeeping(isOn bool, instance backend.Settings, lever engines.Lever, warn func(setting, message string)) {
	message := ""
	switch {
	case !isOn:
		message = "has no effect: set residency.enabled of the service type to true, or leave it out"
	case lever.Load == nil:
		message = "has no effect: the adapter neither loads models nor gives them up"
	default:
		return
	}
	if instance.Pinned {
		warn("pinned", message)
	}
	if instance.Residency.Group != "" {
		warn("residency.group", message)
	}
}

// leverOf returns the means of an instance's engine to load and unload its model.
func leverOf(service config.Service, instance backend.Settings) engines.Lever {
	kind, err := kinds.Lookup(cmp.Or(instance.Adapter, service.Adapter))
	if err != nil {
		return engines.Lever{}
	}
	return kind.Lever
}
