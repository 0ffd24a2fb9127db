package resume

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Settings say how to treat streams that break off after content was sent.
type Settings struct {
	Resume Mode `json:"resume,omitzero"`
	// ResumeFallbacks lets fallback models go on with a stream, too.
	ResumeFallbacks bool `json:"resumeFallbacks,omitzero"`
}

// Docs describes the members that a tag has no room for.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"resume": "What becomes of a stream that breaks off after content was sent: off ends it with an " +
			"error, continue lets another instance of the model go on with it.",
		"resumeFallbacks": "Whether fallback models may go on with a stream that another model began.",
	}
}

// Check reports every setting that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if !s.Resume.Valid() {
		report("resume", say.New("field.off_continue"))
	}
}

// Mode is whether streams go on.
type Mode = schema.Choice[mode]

type mode struct{}

func (mode) Names() []string { return []string{"off", "continue"} }

// The modes. The zero value is the default.
const (
	Off Mode = iota
	Continue
)

// Header is the header by which a request sets its own mode.
const Header = "X-Router-Resume"
