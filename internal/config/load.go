package config

import (
	"path/filepath"
	"reflect"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config/references"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/policy"
)

// Source has all inputs of a configuration. The command line wins over the environment,
// the environment over the file, the file over defaults.
type Source struct {
	// File is the name of the file in messages; relative ${file:...} references
	// begin in its directory.
	File string
	// Content is the content of the file; nil means that there is none.
	Content []byte
	// Env is the environment in the form of os.Environ. It overrides settings, and ${VAR}
	// refers to it.
	Env []string
	// Set are the key=value arguments of --set, in their order.
	Set []string
	// KnownAdapter says why an adapter cannot serve a service type; nil means
	// that adapters are not checked.
	KnownAdapter AdapterCheck
}

// AdapterCheck returns an error if an adapter cannot serve a service type.
type AdapterCheck = policy.AdapterCheck

// Loaded is a configuration without mistakes.
type Loaded struct {
	Document *Document
	// Origins says where each given value came from, by the path of the setting:
	// "patchbay.yaml:3:7", "environment PATCHBAY_LOG_LEVEL" or "--set log.level".
	Origins map[string]string
	// Warnings are worth a line in the log.
	Warnings []string
}

// Load makes a configuration of its sources. The error, if any, is of type
// Problems and holds every mistake.
func Load(src Source) (*Loaded, error) {
	var problems Problems
	variables := parseEnviron(src.Env)
	resolver := references.Resolver{Variables: variables, Directory: filepath.Dir(src.File)}
	root := readFile(src, resolver, &problems)
	over := overrides{root: root, problems: &problems}
	if src.Content != nil && len(root.entries) == 0 && len(problems) == 0 {
		over.warnings = append(over.warnings, root.origin.file+
			" says nothing: everything has its default, and there are no instances")
	}
	over.fromEnvironment(variables)
	over.fromCommandLine(src.Set)

	document := Default()
	decoder := newDecoder(&problems)
	decoder.decode(root, "", reflect.ValueOf(document).Elem())
	document.Quota.Normalize()
	for _, service := range document.Services {
		for i := range service.Instances {
			service.Instances[i].CompleteProcess()
		}
	}
	document.Resolve = decoder.limitReferences(resolver, document).Resolve
	for _, problem := range document.withSecrets().Validate(src.KnownAdapter) {
		decoder.locate(problem)
	}
	if len(problems) > 0 {
		problems.sort()
		return nil, problems
	}
	document.Written = decoder.fingerprint("services")
	if managed := decoder.fingerprint(managedPaths()...); managed != decoder.fingerprint() {
		document.Written += ":" + managed
	}
	document.References = map[string]string{}
	for path, from := range decoder.written {
		if from.reference != "" {
			document.References[path] = from.reference
		}
	}
	document.NamesRedis = decoder.written["redis.url"] != nil
	return &Loaded{Document: document, Origins: decoder.origins(), Warnings: over.warnings}, nil
}

// readFile returns the tree of the file, an empty one where there is nothing to read.
func readFile(src Source, resolver references.Resolver, problems *Problems) *node {
	file := src.File
	if file == "" {
		file = "configuration"
	}
	yaml := reader{file: file, substitute: resolver.Expand, problems: problems}
	root := yaml.readYAML(src.Content)
	if root == nil || root.kind == absent {
		return &node{kind: mapping, origin: origin{file: file}}
	}
	unwrap(root, problems)
	expandDotted(root, problems)
	return root
}

// withSecrets returns a copy of the document with the texts of its secrets in place of
// the references, because these texts are checked as well. References that lead nowhere
// were reported when they were read.
func (d *Document) withSecrets() *Document {
	resolved := d.Clone()
	for _, service := range resolved.Services {
		for i, instance := range service.Instances {
			if plain, err := instance.Resolved(d.Resolve); err == nil {
				service.Instances[i] = plain
			}
		}
	}
	managed, _ := resolved.Managed().MapSecrets(func(_ string, s backend.Secret) (backend.Secret, error) {
		if plain, err := s.Resolve(d.Resolve); err == nil {
			s = backend.Literal(plain)
		}
		return s, nil
	})
	resolved.TakeManaged(managed)
	return resolved
}

// unwrap moves the entries of a top-level patchbay: section to the top level. A
// section that is both inside and outside becomes a duplicate key.
func unwrap(root *node, problems *Problems) {
	var lifted []entry
	var first *entry
	for _, e := range root.entries {
		if schema.Fold(e.key) != "patchbay" {
			lifted = append(lifted, e)
			continue
		}
		if first != nil {
			problems.say(e.origin, "patchbay", duplicateKey(e, *first))
		}
		first = &e
		if kind := e.value.kind; kind != mapping && kind != absent {
			problems.say(e.value.origin, "patchbay", wantFound(mapping.said(), kind.said()))
		}
		lifted = append(lifted, e.value.entries...)
	}
	root.entries = lifted
}

// expandDotted moves settings that are written with their full name, as in
// quota.enabled: true, into their sections.
func expandDotted(root *node, problems *Problems) {
	var nested, dotted []entry
	for _, e := range root.entries {
		if strings.Contains(e.key, ".") {
			dotted = append(dotted, e)
		} else {
			nested = append(nested, e)
		}
	}
	root.entries = nested
	for _, e := range dotted {
		to, err := findPlace(e.key)
		if err != nil {
			problems.add(e.origin, joinWritten("", e.key), err.Error())
			continue
		}
		if first := root.find(to.steps); first != nil && first.kind != absent {
			problems.say(e.origin, to.path(), duplicateKey(e, entry{key: e.key, origin: first.origin}))
			continue
		}
		if err := put(root, to.steps, e.value); err != nil {
			problems.add(e.origin, to.path(), err.Error())
		}
	}
}

// locate adds a broken rule to the problems, with the place where the value was written.
// A value that could not be decoded was reported before and is left out.
func (d *decoder) locate(problem Problem) {
	for path := problem.Path; ; path = parent(path) {
		if d.failed[path] {
			return
		}
		if path == "" {
			break
		}
	}
	if from, given := d.written[problem.Path]; given && (from.fromOutside || isSecretName(problem.Path)) {
		problem.Said = mask(problem.Said, from.text)
	}
	for path := problem.Path; ; path = parent(path) {
		if from, given := d.written[path]; given {
			d.problems.say(from.origin, problem.Path, problem.Said)
			return
		}
		if path == "" {
			break
		}
	}
	*d.problems = append(*d.problems, problem)
}

func (d *decoder) origins() map[string]string {
	origins := make(map[string]string)
	for path, from := range d.written {
		if from.kind == scalar {
			origins[path] = from.origin.String()
		}
	}
	return origins
}
