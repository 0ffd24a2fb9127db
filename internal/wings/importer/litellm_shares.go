package importer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// share is how LiteLLM picks an entry among those of its model_name.
type share struct {
	strategy string
	metric   string // the parameter that simple-shuffle reads as weight; empty if it reads none
	weight   float64
	tier     int
}

// shuffle is LiteLLM's strategy unless another one is set.
const shuffle = "simple-shuffle"

// litellmShares decides how the entries of each model_name share its requests. simple-shuffle reads
// the first of weight, rpm and tpm that an entry has, and picks an entry without it only if no other
// is healthy. Entries of a lower order go first, those without one last.
func (d *draft) litellmShares(entries []reading.Setting, strategy string) {
	type place struct {
		order    float64
		isSpared bool
	}
	d.shares = map[reading.Setting]share{}
	number := func(n reading.Setting, name string) float64 {
		value, _ := n.Number("litellm_params", name)
		return max(value, 0)
	}
	groups := map[string][]reading.Setting{}
	for _, n := range entries {
		name := n.Text("model_name")
		groups[name] = append(groups[name], n)
	}
	for _, group := range groups {
		places := map[reading.Setting]place{}
		var distinct []place
		for _, n := range group {
			order := cmp.Or(number(n, "order"), math.Inf(1))
			peers := slices.DeleteFunc(slices.Clone(group), func(other reading.Setting) bool {
				return cmp.Or(number(other, "order"), math.Inf(1)) != order
			})
			one, largest := share{strategy: strategy}, 0.0
			for _, metric := range []string{"weight", "rpm", "tpm"} {
				for _, peer := range peers {
					largest = max(largest, number(peer, metric))
				}
				if largest > 0 && strategy == shuffle {
					one.metric, one.weight = metric, number(n, metric)*min(1, maxWeight/largest)
					break
				}
			}
			d.shares[n] = one
			places[n] = place{order, one.metric != "" && one.weight == 0}
			distinct = append(distinct, places[n])
		}
		slices.SortFunc(distinct, func(a, b place) int {
			spared := map[bool]int{true: 1}
			return cmp.Or(cmp.Compare(a.order, b.order), spared[a.isSpared]-spared[b.isSpared])
		})
		distinct = slices.Compact(distinct)
		for n, at := range places {
			one := d.shares[n]
			one.tier = min(slices.Index(distinct, at), maxTier)
			d.shares[n] = one
		}
	}
}

// litellmShare gives an instance its part of the traffic, and explains the parameters that it is
// made of.
func (d *draft) litellmShare(e *litellmEntry, i *instance) {
	one := d.shares[e.Setting]
	i.weight, i.tier = one.weight, one.tier
	for _, name := range []string{"weight", "rpm", "tpm"} {
		n := e.params.At(name)
		switch _, given := n.Number(); {
		case !given || name == "weight" && one.metric == name:
		case one.metric == name:
			n.Changed("its weight among the instances of the model, as %s reads it; it is no limit",
				shuffle)
		case one.metric != "":
			n.NotInForce("%s reads %s, which an entry of this model has", shuffle, one.metric)
		case one.strategy == shuffle || one.strategy == "least-busy" || name == "weight":
			n.NotInForce("%s does not read it", one.strategy)
		case name == "tpm":
			n.Unsupported("tokens a minute are limits of keys and tenants here")
		}
	}
}

// litellmLimits writes the requests a minute that strategies other than simple-shuffle and least-busy
// allow each entry. Instances of a service type have one limit in common, of whole requests a second.
func (d *draft) litellmLimits(entries []reading.Setting, strategy string) {
	if strategy == shuffle || strategy == "least-busy" {
		return
	}
	limits := map[float64]bool{}
	for _, n := range entries {
		value, _ := n.Number("litellm_params", "rpm")
		limits[value] = true
	}
	for _, n := range entries {
		at := n.At("litellm_params", "rpm")
		rpm, given := at.Number()
		switch isWhole := rpm > 0 && rpm == float64(int64(rpm)) && int64(rpm)%60 == 0; {
		case !given || rpm <= 0:
		case len(limits) > 1:
			at.Unsupported("rate-limit.scope: instance gives all instances of a service type the same " +
				"limit, and other models have another one or none")
		case !isWhole:
			at.Unsupported("rate-limit.refill-rate is in whole requests a second")
		default:
			written := fmt.Sprintf("rate-limit: { algorithm: sliding-window, scope: instance, capacity: %d, "+
				"refill-rate: %d }", int64(rpm), int64(rpm)/60)
			at.Changed("%s", written)
			for _, serviceType := range schema.ServiceTypes() {
				if s := d.services[serviceType]; s != nil && !slices.Contains(s.policy, written) {
					d.addPolicy(at, serviceType, written)
				}
			}
		}
	}
}
