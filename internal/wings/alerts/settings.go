// Package alerts says which alerts go to which webhooks, and writes an alert in the form that
// the receiver of a webhook understands.
package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Settings say where alerts are sent. Without webhooks nothing is watched.
type Settings struct {
	// Webhooks receive alerts; their names are free.
	Webhooks map[string]Webhook `json:"webhooks"`
	// Quiet is how long the same alert is not sent again.
	Quiet schema.Duration `json:"quiet"`
	// RunCost is the cost of an agent's run from which on there is an alert; 0 means never.
	RunCost prices.Amount `json:"runCost"`
}

// Docs says more about some members than a tag has room for.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"webhooks": "Where alerts are sent, by names of your choice. Without one nothing is watched.",
		"quiet":    "How long the same alert is not sent again, whatever happens meanwhile.",
		"runCost": "The cost of an agent's run from which on there is an alert of the kind run, in prices.currency; " +
			"0 for none.",
	}
}

// Webhook is an address that receives alerts.
type Webhook struct {
	// URL is the whole address, which is a secret: whoever has it can post there.
	URL backend.Secret `json:"url"`
	// Format is the form of the alerts.
	Format Format `json:"format"`
	// Kinds are the kinds of alerts that it gets, empty for all.
	Kinds []Kind `json:"kinds"`
}

// Docs says more about some members than a tag has room for.
func (Webhook) Docs() map[string]string {
	return map[string]string{
		"url": "The whole address, a secret like a key: it is masked in every reply. In the file it may be a " +
			"reference such as ${NAME}.",
		"format": "What the receiver understands: slack, teams (a workflow's webhook), or plain json.",
		"kinds":  "The kinds of alerts that it gets; all if it is left out or empty.",
	}
}

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings { return Settings{Quiet: schema.Duration(15 * time.Minute)} }

const (
	// maxWebhooks bounds the webhooks, each of which has a queue and a goroutine.
	maxWebhooks  = 16
	longestName  = 64
	leastQuiet   = time.Minute
	longestQuiet = 7 * 24 * time.Hour
)

// Check reports every field that has a value it may not have. Its messages never repeat an
// address.
func (s Settings) Check(report say.Report) {
	if quiet := s.Quiet.Std(); quiet < leastQuiet || quiet > longestQuiet {
		report("quiet", say.New("field.between", "least", leastQuiet, "most", longestQuiet, "found", quiet))
	}
	if len(s.Webhooks) > maxWebhooks {
		report("webhooks", say.New("field.webhooks", "most", maxWebhooks, "found", len(s.Webhooks)))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Webhooks)) {
		at := fmt.Sprintf("webhooks[%q]", name)
		if name == "" || len(name) > longestName || strings.ContainsFunc(name, isNotInName) {
			report(at, say.New("field.webhook_name", "most", longestName))
		}
		hook := s.Webhooks[name]
		if fault := hook.fault(); fault.Is() {
			report(at+".url", fault)
		}
		for i, kind := range hook.Kinds {
			if slices.Contains(hook.Kinds[:i], kind) {
				report(fmt.Sprintf("%s.kinds[%d]", at, i), say.New("field.twice", "name", kind.String()))
			}
		}
	}
}

func isNotInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// fault returns the fault of the address, which is held to the rules of the addresses of
// instances. A reference is checked when it is resolved.
func (w Webhook) fault() say.Sentence {
	if w.URL.IsReference() {
		return say.Sentence{}
	}
	return AddressFault(w.URL.Reveal())
}

// AddressFault returns the fault of an address of a webhook, which may have a query.
func AddressFault(address string) say.Sentence {
	base, _, _ := strings.Cut(address, "?")
	return backend.BaseURLFault(base)
}

// Gets reports whether the webhook gets alerts of a kind.
func (w Webhook) Gets(kind Kind) bool { return len(w.Kinds) == 0 || slices.Contains(w.Kinds, kind) }

// Kind is a kind of alerts.
type Kind = schema.Choice[kind]

type kind struct{}

func (kind) Names() []string {
	return []string{"budget", "breaker", "model", "run", "loop", "sign-in"}
}

// The kinds of alerts. Package watch has a row for each.
const (
	Budget Kind = iota
	Breaker
	Model
	Run
	Loop
	SignIn
)

// Format is the form in which a webhook gets alerts.
type Format = schema.Choice[format]

type format struct{}

func (format) Names() []string { return []string{"json", "slack", "teams"} }

// The formats.
const (
	Plain Format = iota
	Slack
	Teams
)
