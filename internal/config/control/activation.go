package control

import (
	"slices"
	"time"
)

// maxActivations is how many activations are kept.
const maxActivations = 200

// activated returns the activations after a proposal has replaced another version.
func (p *proposal) activated(before int, now time.Time) []Activation {
	made := p.next.activations
	if p.next.version == before || p.keepsHead {
		return made
	}
	author := p.author
	if p.added != nil {
		author = p.added.Author
	}
	made = append(slices.Clone(made), Activation{Version: p.next.version, At: now.UTC(), By: author})
	return made[max(0, len(made)-maxActivations):]
}

// Activations returns when versions came into force on this gateway, the latest last.
// The list must not be changed.
func (c *Control) Activations() []Activation { return c.state.Load().activations }
