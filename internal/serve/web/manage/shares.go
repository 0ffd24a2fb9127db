package manage

import "github.com/patchbay-ai/patchbay/internal/hosts/backend"

// shareChange is the share of an instance in the requests of its model, before and
// after a change.
type shareChange struct {
	InstanceID string  `json:"instanceId"`
	Before     float64 `json:"before" minimum:"0" maximum:"1"`
	After      float64 `json:"after" minimum:"0" maximum:"1"`
}

// shareChanges returns the shares of the instances of a model, in the order of the
// configuration after the change.
func shareChanges(before, after []backend.Settings, model string) []shareChange {
	old, now := weightShares(before, model), weightShares(after, model)
	var list []shareChange
	for i := range after {
		if after[i].Name == model {
			id := after[i].ID()
			list = append(list, shareChange{id, old[id], now[id]})
		}
	}
	return list
}

// weightShares returns the shares of the instances of a model by weight while all are well:
// among the enabled instances of the lowest tier.
func weightShares(instances []backend.Settings, model string) map[string]float64 {
	var total float64
	tier := -1
	for i := range instances {
		s := &instances[i]
		if s.Name != model || !s.Enabled || s.Weight <= 0 {
			continue
		}
		if tier < 0 || s.Tier < tier {
			tier, total = s.Tier, 0
		}
		if s.Tier == tier {
			total += s.Weight
		}
	}
	shares := map[string]float64{}
	for i := range instances {
		if s := &instances[i]; s.Name == model && s.Enabled && s.Tier == tier && total > 0 {
			shares[s.ID()] = s.Weight / total
		}
	}
	return shares
}
