package routing

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// MaxFound is how many models an instance may find. Lists of hosted providers are longer; patterns in
// models choose from them.
const MaxFound = 200

// Source is an instance that discovers its models: there is one instance for each of
// the models that its backend lists.
type Source struct {
	Settings backend.Settings
	Service  *Service

	policy backend.Policy
}

// Key names the source among those of all service types.
func (s *Source) Key() string { return s.Service.Type.String() + "/" + s.Settings.ID() }

// Adapter returns the kind of the backend.
func (s *Source) Adapter() string {
	if s.Settings.Adapter != "" {
		return s.Settings.Adapter
	}
	return s.policy.Adapter
}

// At returns an instance with the settings of the source that calls this path. It has no
// part in routing.
func (s *Source) At(baseURL, path string) (*backend.Instance, error) {
	settings := s.Settings.Found("discovery")
	settings.BaseURL, settings.Path = baseURL, path
	policy := s.policy
	policy.Changes = nil
	return backend.New(settings, s.Service.Type, policy, nil, time.Now())
}

// Sources returns the instances that discover their models.
func (t *Table) Sources() []*Source { return t.sources }

// Found returns the models that were found, which all tables share.
func (t *Table) Found() *Found { return t.found }

// instancesOf returns the instances of the models that a source has found. A model that has
// an instance of its own at the same address is left out, and so are aliases and the LoRA adapters
// that the backend loads: the written configuration goes before found models. A model that its backend
// calls by a file has the short name of the file.
func (t *Table) instancesOf(source *Source, loras []backend.LoRA) []backend.Settings {
	var list []backend.Settings
	policy := &source.Service.Policy
	models := t.found.Of(source.Key()).Models
	short := models
	if kinds.GuideTo(source.Adapter()).ListsFiles {
		short = naming.OfFiles(models)
	}
	for n, model := range models {
		settings := source.Settings.Found(model)
		_, isAlias := policy.Aliases[settings.Name]
		isWritten := slices.ContainsFunc(policy.Instances, func(s backend.Settings) bool {
			return s.ID() == settings.ID()
		})
		if !source.Settings.Models.Include(model) && !source.Settings.Models.Include(short[n]) || isAlias ||
			isWritten {
			continue
		}
		named := source.Settings.Found(short[n])
		if short[n] != model && policy.Aliases[named.Name] == "" &&
			!slices.Contains(backend.ModelsOf(policy.Instances).Names(), named.Name) {
			settings.Name, settings.UpstreamModel = named.Name, model
		}
		if len(list) == MaxFound {
			break
		}
		list = append(list, settings)
	}
	adapters := map[string]bool{}
	for _, settings := range slices.Concat(policy.Instances, list) {
		for _, one := range source.Service.adapted(settings, loras) {
			adapters[one.ID()] = true
		}
	}
	return slices.DeleteFunc(list, func(s backend.Settings) bool {
		return adapters[s.ID()] || source.Service.byID[s.ID()] != nil
	})
}

// adapted returns the instances that LoRA adapters make of one. The written configuration goes
// before them, as it does before found models.
func (s *Service) adapted(settings backend.Settings, loras []backend.LoRA) []backend.Settings {
	if kind, err := kinds.Lookup(cmp.Or(settings.Adapter, s.Policy.Adapter)); err != nil || kind.Adapters.Load == nil {
		return nil
	}
	return slices.DeleteFunc(settings.Adapted(loras), func(one backend.Settings) bool {
		_, isAlias := s.Policy.Aliases[one.Name]
		return isAlias || s.isWritten(one.ID()) || s.byID[one.ID()] != nil
	})
}

// nameFound notes further names of a model that a source has found. A backend with a latestTag
// lists the model with it and takes both names; the model is served under the shorter one. So is a
// model with a file as its name.
func (s *Service) nameFound(source *Source, settings backend.Settings) {
	pool, guide := s.byModel[settings.Name], kinds.GuideTo(source.Adapter())
	if guide.LatestTag != "" && !strings.Contains(pool.Model[strings.LastIndexByte(pool.Model, '/')+1:], ":") {
		pool.latestTag = guide.LatestTag
	}
	if len(guide.Undated) > 0 {
		pool.undated = guide.Undated
	}
	if file := source.Settings.Found(settings.UpstreamModel).Name; guide.ListsFiles && settings.UpstreamModel != "" &&
		file != settings.Name {
		pool.files = append(pool.files, file)
		s.unlisted[file] = pool
	}
}

// day matches the day of release at the end of a model's name.
var day = regexp.MustCompile(`-20[0-9]{6}$`)

// nameUndated lets callers leave out the day at the end of a found model's name. The newest
// model has the name.
func (s *Service) nameUndated() {
	for _, pool := range s.Pools { // the order of their names is that of their days
		at := day.FindStringIndex(pool.Model)
		if at == nil || len(pool.undated) == 0 {
			continue
		}
		for _, ending := range pool.undated {
			s.unlisted[pool.Model[:at[0]]+ending] = pool
		}
	}
}

// findTagged returns the pool of a found model, given its name without its day, that of its file,
// or its name with the tag of names that have none.
func (s *Service) findTagged(name string) *Pool {
	at := strings.LastIndexByte(name, ':')
	if s.byModel[name] != nil {
		return nil
	}
	if pool := s.unlisted[name]; pool != nil || at < 0 {
		return pool
	}
	if pool := s.byModel[name[:at]]; pool != nil && pool.Model == name[:at] && pool.latestTag == name[at:] {
		return pool
	}
	return nil
}

// ModelName returns the listed name of a model, given a name that may not be
// listed.
func (t *Table) ModelName(name string) string {
	for _, s := range t.configured {
		if pool := s.findTagged(name); pool != nil {
			return pool.Model
		}
	}
	return name
}

// Found holds the models that the sources have found. It outlives tables.
type Found struct {
	mu    sync.Mutex
	lists map[string]List
}

// List holds the models that one source has found.
type List struct {
	// Models are the names, sorted, whether or not the patterns of the source include
	// them. They stay while the backend cannot be asked.
	Models []string
	// Others are models that the backend has for other service types.
	Others []string
	// Read is the time of the last question to the backend, and Error why it did not
	// tell its models, empty if it did.
	Read  time.Time
	Error []say.Sentence
}

// Of returns the models that a source has found.
func (f *Found) Of(key string) List {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists[key]
}

// Set stores the models that a source has found, with the backend's models for other
// service types, and reports whether they differ from the stored ones or are the first
// ones, even if there are none. Names that no model can have are left out.
func (f *Found) Set(key string, models, others []string, now time.Time) bool {
	models = slices.DeleteFunc(slices.Clone(models), func(name string) bool {
		return naming.Fault(name).Is() || strings.Contains(name, "*")
	})
	slices.Sort(models)
	models = slices.Compact(models)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists == nil {
		f.lists = make(map[string]List)
	}
	before := f.lists[key]
	if models == nil {
		models = []string{} // nil is a list that was never read
	}
	f.lists[key] = List{Models: models, Others: others, Read: now}
	return before.Models == nil || !slices.Equal(before.Models, models) || !slices.Equal(before.Others, others)
}

// Failed notes that a backend did not tell its models. It returns the previous reason.
func (f *Found) Failed(key string, why []say.Sentence, now time.Time) (before []say.Sentence) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists == nil {
		f.lists = make(map[string]List)
	}
	list := f.lists[key]
	before = list.Error
	list.Read, list.Error = now, why
	f.lists[key] = list
	return before
}

// Keep forgets the models of sources that are no longer there.
func (f *Found) Keep(keys map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.lists {
		if !keys[key] {
			delete(f.lists, key)
		}
	}
}

// Discovers reports whether instances of the service type find their models.
func (s *Service) Discovers() bool {
	return s != nil && slices.ContainsFunc(s.Policy.Instances, func(settings backend.Settings) bool {
		return settings.Models.Given()
	})
}

// MayFind reports whether an instance of a service type may yet find a model: its backend has
// not told its models yet, or failed to when it was asked last.
func (t *Table) MayFind(service schema.ServiceType, model string) bool {
	return slices.ContainsFunc(t.sources, func(source *Source) bool {
		if source.Service.Type != service || !source.Settings.Enabled || !source.includes(model) {
			return false
		}
		list := t.found.Of(source.Key())
		return list.Read.IsZero() || list.Error != nil
	})
}

// includes reports whether the source may serve a name: as it is, as an alias, or rewritten
// by a pattern.
func (s *Source) includes(name string) bool {
	aliases := s.Service.Policy.Aliases
	model := aliases.ModelOf(name)
	if s.Settings.Finds(model) {
		return true
	}
	rewritten := s.Service.rewrites.Apply(model)
	return rewritten != "" && s.Settings.Finds(aliases.ModelOf(rewritten))
}

func (s *Service) isWritten(id string) bool {
	return slices.ContainsFunc(s.Policy.Instances, func(settings backend.Settings) bool { return settings.ID() == id })
}
