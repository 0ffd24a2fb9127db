package backend

import (
	"cmp"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Timeouts bound the phases of a call. Zero means the next wider setting: an
// instance takes it from its service, a service from the limits.
type Timeouts struct {
	// Connect bounds name resolution, connecting and TLS.
	Connect schema.Duration `json:"connect"`
	// FirstByte bounds the wait for the head of the answer, FirstToken the wait
	// for the first event of a stream.
	FirstByte  schema.Duration `json:"firstByte"`
	FirstToken schema.Duration `json:"firstToken"`
	// Idle bounds the silence within an answer, Total the whole of it.
	Idle  schema.Duration `json:"idle"`
	Total schema.Duration `json:"total"`
}

// Or fills the fields that t leaves open from a wider setting.
func (t Timeouts) Or(wider Timeouts) Timeouts {
	return Timeouts{
		Connect:    cmp.Or(t.Connect, wider.Connect),
		FirstByte:  cmp.Or(t.FirstByte, wider.FirstByte),
		FirstToken: cmp.Or(t.FirstToken, wider.FirstToken),
		Idle:       cmp.Or(t.Idle, wider.Idle),
		Total:      cmp.Or(t.Total, wider.Total),
	}
}
