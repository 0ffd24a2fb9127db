// Package lint finds settings that are allowed and seldom meant: credentials that refer
// to nothing, addresses that lead nowhere, and settings that have no effect.
package lint

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Warnings returns a line for each finding, with the place where it was written.
func Warnings(loaded *config.Loaded) []string {
	var warnings []string
	warn := func(path, message string) {
		if origin := loaded.Origins[path]; origin != "" {
			path = origin + "  " + path
		}
		warnings = append(warnings, path+": "+message)
	}
	for _, serviceType := range schema.ServiceTypes() {
		for i, instance := range loaded.Document.Services[serviceType].Instances {
			checkInstance(instance, loaded.Document.Resolve, func(setting, message string) {
				warn(fmt.Sprintf("services.%s.instances[%d].%s", config.Kebab(serviceType.String()), i, setting),
					message)
			})
		}
		checkResidency(loaded.Document.Services[serviceType], func(setting, message string) {
			warn("services."+config.Kebab(serviceType.String())+"."+setting, message)
		})
	}
	checkLoRAs(loaded.Document, warn)
	loaded.Document.Lint(limitsOfRuns(loaded.Document), dearestAnswer(loaded.Document), warn)
	loaded.Document.Security.Lint(loaded.Document.Server.PublicURL, forwarding(loaded.Document), warn)
	for i, token := range loaded.Document.Security.Tokens {
		if token.TokenSHA256 == access.NobodysHash {
			warn(fmt.Sprintf("security.tokens[%d].token-sha256", i), "refers to nothing, so nobody has this token")
		}
	}
	for i, key := range loaded.Document.Security.Keys {
		if key.KeySHA256 == access.NobodysHash {
			warn(fmt.Sprintf("security.keys[%d].key-sha256", i), "refers to nothing, so nobody has this key")
		}
	}
	return warnings
}

// limitsOfRuns returns the limits of one run that keys and tenants have, by their places.
func limitsOfRuns(doc *config.Document) map[string]budget.RunLimits {
	all := map[string]budget.RunLimits{"security.defaults.runs": doc.Security.Defaults.Runs}
	for i := range doc.Security.Tenants {
		all[fmt.Sprintf("security.tenants[%d].runs", i)] = doc.Security.Tenants[i].Runs
	}
	for i := range doc.Security.Keys {
		all[fmt.Sprintf("security.keys[%d].runs", i)] = doc.Security.Keys[i].Runs
	}
	return all
}

// dearestAnswer returns the highest price of a million tokens of answer.
func dearestAnswer(doc *config.Document) (output prices.Amount) {
	for _, model := range doc.Prices.Models {
		output = max(output, model.Output)
	}
	return output
}

// forwarding returns the places of the instances that get the caller's own credential.
func forwarding(doc *config.Document) (places []string) {
	for _, serviceType := range schema.ServiceTypes() {
		for i := range doc.Services[serviceType].Instances {
			if doc.Services[serviceType].Instances[i].ForwardAuthorization {
				places = append(places, fmt.Sprintf("services.%s.instances[%d]", config.Kebab(serviceType.String()), i))
			}
		}
	}
	return places
}

func checkInstance(instance backend.Settings, resolve backend.Resolver, warn func(setting, message string)) {
	if reference, isEmpty := emptyReference(instance.APIKey, resolve); isEmpty {
		warn("api-key", reference+" resolves to nothing, so calls are sent without a key; set it, or leave the "+
			"setting out")
	}
	for _, name := range slices.Sorted(maps.Keys(instance.Headers)) {
		if reference, isEmpty := emptyReference(instance.Headers[name], resolve); isEmpty {
			warn("headers["+strconv.Quote(name)+"]", reference+
				" resolves to nothing, so the header is sent without a value; set it, or leave the header out")
		}
	}
	if root, endpoint := kinds.CutEndpoint(instance.BaseURL); endpoint != "" && instance.Path == "" {
		warn("base-url", "ends in the endpoint "+endpoint+", and calls add their own path to it; write "+root)
	}
	for setting, address := range map[string]string{"base-url": instance.BaseURL, "proxy": instance.Proxy} {
		if leadsNowhere(address) {
			warn(setting, "names that end in .invalid lead nowhere; set the variable, or write the address")
		}
	}
}

// emptyReference reports whether a secret is a reference to nothing, and returns it as it
// was written. A scheme of authentication without a credential is nothing, too. The
// returned text holds no secret, because every reference in it is empty.
func emptyReference(secret backend.Secret, resolve backend.Resolver) (reference string, isEmpty bool) {
	if !secret.IsReference() || resolve == nil {
		return "", false
	}
	text, err := resolve(secret.Reveal())
	text = strings.TrimSpace(text)
	return secret.Reveal(), err == nil && (text == "" || strings.EqualFold(text, "Bearer") ||
		strings.EqualFold(text, "Basic"))
}

// leadsNowhere reports whether the host of an address has the ending that is reserved for
// names which never exist.
func leadsNowhere(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && strings.HasSuffix(strings.ToLower(parsed.Hostname()), ".invalid")
}
