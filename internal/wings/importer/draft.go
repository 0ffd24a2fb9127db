package importer

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reasons"
)

// draft is a configuration in the making.
type draft struct {
	*reading.Account
	source    Source
	in        Input
	variables []Variable
	// reserved holds the names of variables that the source refers to, and environment the
	// variables that it sets itself.
	reserved    map[string]bool
	environment map[string]string
	// springRoot is the configuration that settings of Spring refer to.
	springRoot reading.Setting

	listen, jsonBody                string
	logLevel, logAccess, calls      string
	origins                         []string
	maxAttempts                     int
	totalTimeout, firstTokenTimeout string
	services                        map[schema.ServiceType]*service
	processes                       []*process
	// isSecured says that callers need a key, although there may be none to write down;
	// isOpen that the source does not ask for the keys that it has.
	isSecured, isOpen bool
	tokens, keys      []credential
	tenants           []tenant
	prices            []prices.Model
	answerCache       string                    // section
	shares            map[reading.Setting]share // of LiteLLM's entries
}

// service holds the settings to write for a service type.
type service struct {
	policy    []string // lines
	aliases   members  // names and models
	fallbacks []fallbacks
	instances []instance
}

// fallbacks are the models that take over from another one.
type fallbacks struct {
	model  string
	others []string
}

// instance holds the settings to write for an instance; empty ones are left out. Its texts
// are as the configuration has them, with references.
type instance struct {
	name                   string
	models                 []string // that are discovered; name is discovered then, or a pattern
	baseURL, path, adapter string
	process                string // in place of an address
	upstreamModel, apiKey  string
	apiVersion, proxy      string
	body                   string // members of requests, as JSON
	headers                map[string]string
	weight                 float64 // 0 is left out; noTraffic is 0
	noTraffic, disabled    bool
	maxConcurrency, tier   int
	timeouts               members
	origin                 origin
}

// origin says where an instance comes from in the source.
type origin struct {
	provider string // of Bifrost, with its key by id and name
	key      []string
	model    string // its name there, without a provider before it
	// asked are the names that callers use there, and prefix tells its models from those of other
	// providers. families are the beginnings of their names, if no other provider has such.
	asked    []string
	prefix   string
	families []string
}

// discovered is the name of instances that serve all models that their backend lists.
const discovered = "*"

// credential is a management token or an API key, by its hash.
type credential struct {
	name, role, hash, tenant string
	terms                    terms
}

// tenant is a group of keys.
type tenant struct {
	name  string
	terms terms
}

// terms are the rights and limits of a key or a tenant.
type terms struct {
	models    []string
	instances []string // ids
	expires   string
	perMinute members            // requests-per-minute: 5
	budgets   map[string]members // month: [cost: 5]
}

func newDraft(source Source, in Input) *draft {
	return &draft{
		Account: reading.NewAccount(in.Files[0].Name), source: source, in: in, reserved: map[string]bool{},
		environment: map[string]string{}, services: map[schema.ServiceType]*service{},
	}
}

// parse reads a file that has one document.
func (d *draft) parse(file File) (root reading.Setting, err error) {
	documents, err := d.parseAll(file)
	if err != nil {
		return root, err
	}
	if len(documents) > 1 {
		return root, fmt.Errorf("%s has %d documents; a configuration of %s has one", file.Name, len(documents),
			d.source)
	}
	return documents[0], nil
}

// parseAll reads all documents of a file.
func (d *draft) parseAll(file File) ([]reading.Setting, error) {
	documents, err := d.Parse(file)
	for _, root := range documents {
		d.reserve(root)
	}
	return documents, err
}

// leftovers reports the settings of a tree that were not read.
func (d *draft) leftovers(root reading.Setting) {
	root.Leftovers(func(path string) (string, bool) { return reasons.For(string(d.source), path) })
}

// about returns a setting for rows that belong to no line.
func (d *draft) about(name string) reading.Setting { return d.Setting(name, nil) }

func (d *draft) service(serviceType schema.ServiceType) *service {
	s := d.services[serviceType]
	if s == nil {
		s = new(service)
		d.services[serviceType] = s
	}
	return s
}

// addPolicy adds a line to a service type, and reports whether it is valid there.
func (d *draft) addPolicy(n reading.Setting, serviceType schema.ServiceType, written string) bool {
	if fault := d.faultIn(serviceType, service{policy: []string{written}}); fault != "" {
		n.Unsupported("%s", fault)
		return false
	}
	s := d.service(serviceType)
	s.policy = append(s.policy, written)
	return true
}

// faultIn returns the first mistake of a service type, empty if there is none.
func (d *draft) faultIn(serviceType schema.ServiceType, s service) string {
	var b strings.Builder
	s.write(&b, serviceType)
	return faultOf(d.processesText() + "services:\n" + b.String())
}

// faultOf returns the first mistake of a part of a configuration, without its place, empty if there is none.
func faultOf(yaml string) string {
	err := check(yaml)
	var problems config.Problems
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &problems) || len(problems) == 0:
		return err.Error()
	}
	path := problems[0].Path
	return path[strings.LastIndexByte(path, '.')+1:] + ": " + problems[0].Said.String()
}

// maxWeight is the greatest that an instance can have.
const maxWeight = 1e6

// addInstance adds an instance, and reports whether it could be added. Name and address
// tell instances apart here: a second key for the same address needs another spelling of
// it.
func (d *draft) addInstance(n reading.Setting, serviceType schema.ServiceType, i instance) bool {
	if fault := d.faultIn(serviceType, service{instances: []instance{i}}); fault != "" {
		n.Partly("%s", fault)
		return false
	}
	s := d.service(serviceType)
	subject := "instance " + i.name
	if len(i.models) > 0 {
		subject = "instances of the models that are listed"
		if i.models[0] != backend.Discover {
			subject = "instances of the models that are listed and match " + list(i.models)
		}
	}
	if !s.has(i.name, i.baseURL) {
		s.instances = append(s.instances, i)
		n.Taken("%s %s at %s", serviceType, subject, cmp.Or(i.baseURL, "the process "+i.process))
		return true
	}
	at := slices.IndexFunc(s.instances, i.isAgain)
	if at >= 0 && d.source == JAiRouter {
		n.NotInForce("is the %s once more, which the check of JAiRouter refuses", subject)
		return false
	}
	if at >= 0 {
		known := &s.instances[at]
		known.origin.asked = append(slices.Clone(known.origin.asked), i.origin.asked...)
		known.weight = min(cmp.Or(known.weight, 1)+cmp.Or(i.weight, 1), maxWeight)
		n.Changed("is the %s once more: its weight was added to that of the first", subject)
		return true
	}
	for _, spelling := range spellings(i.baseURL) {
		if !s.has(i.name, spelling) {
			i.baseURL = spelling
			s.instances = append(s.instances, i)
			n.Changed("%s %s at %s: the address is spelled differently, because name and address tell "+
				"instances apart", serviceType, subject, spelling)
			return true
		}
	}
	n.Partly("there is no further spelling of this address that would tell the %s apart; give the "+
		"backend another name", subject)
	return false
}

// isAgain reports whether two instances are the same but for their weights, origins and spellings of
// the address.
func (i instance) isAgain(other instance) bool {
	if !samePlace(i.baseURL, other.baseURL) {
		return false
	}
	i.weight, i.origin, i.baseURL = other.weight, other.origin, other.baseURL
	return reflect.DeepEqual(i, other)
}

// samePlace reports whether two addresses are spellings of one.
func samePlace(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(withDefaults(a), "/"), strings.TrimSuffix(withDefaults(b), "/"))
}

// has reports whether there is an instance of a name at an address, also where the
// variables of addresses are not set.
func (s *service) has(name, baseURL string) bool {
	return s != nil && slices.ContainsFunc(s.instances, func(other instance) bool {
		return other.name == name && (other.baseURL == baseURL || withDefaults(other.baseURL) == withDefaults(baseURL))
	})
}

// serves reports whether there is an instance of a model.
func (s *service) serves(model string) bool {
	return s != nil && slices.ContainsFunc(s.instances, func(i instance) bool { return i.name == escaped(model) })
}

// servicesOf returns the service types that have a model: as an instance or, where there
// is none, as one that their backend may list.
func (d *draft) servicesOf(model string) []schema.ServiceType {
	var found []schema.ServiceType
	for _, serviceType := range schema.ServiceTypes() {
		if d.services[serviceType].serves(model) {
			found = append(found, serviceType)
		}
	}
	guess := discover.GuessService(model)
	if s := d.services[guess]; len(found) == 0 && s != nil &&
		slices.ContainsFunc(s.instances, func(i instance) bool { return i.finds(escaped(model)) }) {
		return []schema.ServiceType{guess}
	}
	return found
}

// spellings returns other ways to write an address that lead to the same place.
func spellings(baseURL string) []string {
	list := []string{baseURL + "/"}
	start := strings.Index(baseURL, "://") + len("://")
	end := len(baseURL)
	if slash := strings.IndexByte(baseURL[start:], '/'); slash >= 0 {
		end = start + slash
	}
	if strings.Contains(baseURL, "${") {
		return list // nobody knows the letters of its host
	}
	for at := start; at < end; at++ {
		if c := baseURL[at]; c >= 'a' && c <= 'z' {
			list = append(list, baseURL[:at]+strings.ToUpper(string(c))+baseURL[at+1:])
		}
	}
	return list
}
