// Package issuers connects the issuers of callers' tokens with the gateway.
package issuers

import (
	"context"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/callertokens"
)

// inForce are the issuers in force; a change of the settings replaces them.
type inForce struct {
	core *wing.Core

	mu       sync.Mutex
	settings callertokens.Settings
	issuers  *callertokens.Issuers // nil where there are none
	changed  waiting.Signal        // tells of other issuers
}

// New makes the wing.
func New(core *wing.Core) *wing.Wing {
	f := &inForce{core: core}
	return &wing.Wing{
		Open: func() error {
			f.set(core.Document)
			return nil
		},
		Set:    f.set,
		Run:    f.run,
		Doing:  "reading the keys of issuers of tokens",
		Health: f.health,
		Close: func() {
			if issuers := f.current(); issuers != nil {
				issuers.Close()
			}
		},
	}
}

// set puts the issuers of a configuration in force.
func (f *inForce) set(doc *config.Document) {
	if !f.core.Document.Security.Enabled {
		return
	}
	f.mu.Lock()
	if settings.Equal(f.settings, doc.Security.JWT) {
		f.mu.Unlock()
		return
	}
	f.settings = settings.Clone(doc.Security.JWT)
	before := f.issuers
	f.issuers = nil
	if len(f.settings) > 0 {
		f.issuers = callertokens.New(f.settings, f.core.Log, f.renew)
	}
	f.changed.Tell()
	f.mu.Unlock()
	f.renew()
	if before != nil {
		before.Close()
	}
}

// renew makes the gateway forget the tokens that it let in.
func (f *inForce) renew() {
	if issuers := f.current(); issuers != nil {
		f.core.Credentials.SetIssuers(issuers)
	} else {
		f.core.Credentials.SetIssuers(nil)
	}
}

func (f *inForce) current() *callertokens.Issuers {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.issuers
}

// run keeps the keys of the issuers in force fresh until ctx ends.
func (f *inForce) run(ctx context.Context) {
	for ctx.Err() == nil {
		f.mu.Lock()
		issuers, changed := f.issuers, f.changed.Changed()
		f.mu.Unlock()
		if issuers == nil {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		running, end := context.WithCancel(ctx)
		var work sync.WaitGroup
		work.Go(func() { logs.Contain(f.core.Log, "reading the keys of issuers", func() { issuers.Run(running) }) })
		select {
		case <-ctx.Done():
		case <-changed:
		}
		end()
		work.Wait()
	}
}

// health adds a component for the issuers, where there are any. While keys cannot be read, those
// that were read before hold.
func (f *inForce) health(to map[string]actuator.Component) {
	issuers := f.current()
	if issuers == nil {
		return
	}
	component := actuator.Component{}
	details := map[string]string{}
	for name, failure := range issuers.Failures() {
		details[name] = "the keys are known"
		if failure != nil {
			component.IsDegraded, details[name] = true, failure.Reason
		}
	}
	component.Details = details
	to["callerTokens"] = component
}
