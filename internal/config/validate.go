package config

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/redis"
)

// Validate checks every rule of the document and returns the broken rules, without
// positions. Adapters are checked by the function, or not at all where it is nil.
func (d *Document) Validate(known AdapterCheck) Problems {
	var problems Problems
	for f, value := range d.sections() {
		switch f.name {
		case "format":
			if d.Format < 1 || d.Format > CurrentFormat {
				problems.add(origin{}, "format", fmt.Sprintf("this release reads format %d, found %d; a newer format "+
					"needs a newer release", CurrentFormat, d.Format))
			}
		case "services":
			problems = append(problems, d.ValidateServices(known)...)
		default:
			value.Interface().(section).Check(problems.under(f.name))
		}
	}
	d.CheckTogether(d.Limits.Bounds, d.Store.Config != "", problems.under(""))
	d.Security.CheckTogether(d.Security.Enabled, d.Server.PublicURL, problems.under(""))
	return problems
}

// section is implemented by every section except format and services.
type section interface {
	// Check reports every setting that has a value it may not have.
	Check(report say.Report)
}

// ValidateServices is Validate for the services alone, which are all that
// changes while the gateway runs.
func (d *Document) ValidateServices(known AdapterCheck) Problems {
	var problems Problems
	for _, serviceType := range schema.ServiceTypes() {
		if service, configured := d.Services[serviceType]; configured {
			report := problems.under("services." + Kebab(serviceType.String()))
			service.Check(serviceType, known, d.LoRAs(), report)
			d.checkProcessesOf(service, report)
		}
	}
	return problems
}

// checkProcessesOf reports instances that name a process which the file does not have.
func (d *Document) checkProcessesOf(service Service, report say.Report) {
	for i, instance := range service.Instances {
		if names := d.ProcessNames(); instance.Process != "" && !slices.Contains(names, instance.Process) {
			fault := say.New("field.process")
			if len(names) > 0 {
				fault = suggest("field.process_near", "field.process_known", instance.Process, names)
			}
			report(indexed("instances", i)+".process", fault)
		}
	}
}

// under returns a callback for the settings below a path.
func (p *Problems) under(base string) say.Report {
	return func(path string, fault say.Sentence) {
		*p = append(*p, Problem{Path: join(base, Kebab(path)), Said: fault})
	}
}

// Check reports every setting of the section that has a value it may not have.
func (s Server) Check(report say.Report) {
	s.checkAddresses(report)
	if s.DataDir == "" {
		report("dataDir", say.New("field.empty"))
	} else if strings.ContainsRune(s.DataDir, 0) {
		report("dataDir", say.New("field.zero_byte"))
	}
	for i, prefix := range s.TrustedProxies {
		if !prefix.IsValid() {
			report(indexed("trustedProxies", i), say.New("field.no_range"))
		}
	}
	s.TLS.Check(func(path string, fault say.Sentence) { report(strings.TrimSuffix("tls."+path, "."), fault) })
	if s.PublicURL != "" && !isOrigin(strings.TrimSuffix(s.PublicURL, "/")) {
		report("publicUrl", say.New("field.public_url"))
	}
	if s.UnknownModel != http.StatusServiceUnavailable && s.UnknownModel != http.StatusNotFound {
		report("unknownModel", say.New("value.or", "known", "503", "last", "404"))
	}
	for i, origin := range s.CORSOrigins {
		if origin != AnyOrigin && !isOrigin(origin) {
			report(indexed("corsOrigins", i), say.New("field.origin"))
		}
	}
}

// checkAddresses reports addresses that cannot be listened on.
func (s Server) checkAddresses(report say.Report) {
	if len(s.Listen) == 0 {
		report("listen", say.New("field.empty"))
	}
	seen := make(map[string]string)
	for _, list := range []struct {
		name      string
		addresses listen.Addresses
	}{{"listen", s.Listen}, {"managementListen", s.ManagementListen}, {"ollamaListen", s.OllamaListen}} {
		for i, address := range list.addresses {
			at := indexed(list.name, i)
			if len(list.addresses) == 1 {
				at = list.name // as it is mostly written
			}
			if message := listen.Fault(address); message != "" {
				report(at, say.Plain(message))
			} else if other, twice := seen[address]; twice && !strings.HasSuffix(address, ":0") {
				report(at, say.New("field.same_address", "other", Kebab(other)))
			}
			seen[address] = at
		}
	}
}

// isOrigin reports whether a text is an origin as browsers send it, in any case.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && !strings.Contains(u.Host, AnyOrigin) &&
		strings.EqualFold(u.Scheme+"://"+u.Host, text)
}

// Check reports every setting of the section that has a value it may not have.
func (m Monitoring) Check(report say.Report) {
	m.Settings.Check(report)
	m.Records.Check(report)
}

// Check reports every setting of the section that has a value it may not have.
func (s Security) Check(report say.Report) {
	s.Settings.Check(report)
	s.Access.Check(report)
}

// Check reports every setting of the section that has a value it may not have.
func (l Limits) Check(report say.Report) {
	l.Bounds.Check(report)
	l.Limits.Check(report)
}

// Check reports every setting of the section that has a value it may not have. Its
// messages never repeat an address, which may hold a password; the same is true of all
// stores.
func (s Store) Check(report say.Report) {
	if err := sqlstore.Check(s.URL); err != nil {
		report("url", say.From(err))
	}
	if s.KeepVersions < 0 {
		report("keepVersions", say.New("field.keep_versions"))
	}
	if s.Config == "" {
		return
	}
	if err := sqlstore.CheckServer(s.Config); err != nil {
		report("config", say.From(err))
	}
}

// Check reports every setting of the section that has a value it may not have.
func (r Redis) Check(report say.Report) {
	if err := redis.Check(r.URL); err != nil {
		report("url", say.From(err))
	}
	const longest = 128
	if r.KeyPrefix == "" || len(r.KeyPrefix) > longest || strings.ContainsAny(r.KeyPrefix, "{}") ||
		!isPrintable(r.KeyPrefix) {
		report("keyPrefix", say.New("field.prefix"))
	}
}

func isPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) })
}
