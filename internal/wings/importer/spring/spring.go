// Package spring reads configurations of Spring: files that include others, profiles, and
// settings that refer to each other. Of several places that say the same setting the last
// one counts: an included file goes before the file that includes it, a later include
// before an earlier one, and the files of profiles before all of them. Mappings are merged,
// lists are not.
package spring

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// activeProfiles leads to the setting that names profiles.
var activeProfiles = []string{"spring", "profiles", "active"}

// Input is a configuration: a file, a function that reads included files by their names
// there, and profiles in place of the named ones.
type Input struct {
	Main     reading.File
	Open     func(name string) ([]byte, error)
	Profiles []string
}

// reader reads the files of one configuration.
type reader struct {
	account  *reading.Account
	open     func(name string) ([]byte, error)
	profiles []string
	read     map[string]bool
	layers   []*yaml.Node // the one that counts is the last
}

func newReader(account *reading.Account, in Input, profiles []string) *reader {
	return &reader{account: account, open: in.Open, profiles: profiles, read: map[string]bool{}}
}

// Read returns the configuration that a file and the files that belong to it make up.
// Settings that are not in force get a row.
func Read(account *reading.Account, in Input) (*yaml.Node, error) {
	profiles := in.Profiles
	if len(profiles) == 0 { // the files name them; their rows come later
		first := newReader(reading.NewAccount(in.Main.Name), in, nil)
		if err := first.file(in.Main); err != nil {
			return nil, err
		}
		for _, item := range reading.ItemsOrOne(reading.At(first.merged(), activeProfiles...)) {
			for name := range strings.SplitSeq(first.account.Text(item), ",") {
				if name = strings.TrimSpace(name); name != "" {
					profiles = append(profiles, name)
				}
			}
		}
	}
	r := newReader(account, in, profiles)
	if err := r.file(in.Main); err != nil {
		return nil, err
	}
	active, setting := reading.At(r.merged(), activeProfiles...), strings.Join(activeProfiles, ".")
	if len(in.Profiles) > 0 {
		if active != nil {
			account.NotInForce(active, setting, "--profile goes before it")
		}
		active, setting = nil, "--profile"
	}
	if err := r.profileFiles(in.Main, active, setting); err != nil {
		return nil, err
	}
	return merge(account, r.layers), nil
}

// merged returns the layers as one tree, without a word about overridden settings.
func (r *reader) merged() *yaml.Node { return merge(reading.NewAccount(""), r.layers) }

func merge(account *reading.Account, layers []*yaml.Node) *yaml.Node {
	root := layers[0]
	for _, layer := range layers[1:] {
		root = overlay(account, root, layer, "")
	}
	return root
}

// file reads a file: each of its documents, and after it the files that the document
// includes.
func (r *reader) file(file reading.File) error {
	r.read[file.Name] = true
	documents, err := r.account.Parse(file)
	if err != nil {
		return err
	}
	for _, document := range documents {
		document = nested(r.account, document, "")
		if !r.isActive(document) {
			continue
		}
		r.layers = append(r.layers, document)
		if err := r.includes(document); err != nil {
			return err
		}
	}
	if len(r.layers) == 0 {
		return fmt.Errorf("%s has only documents of profiles that are not active; say which with --profile", file.Name)
	}
	return nil
}

// isActive reports whether a document counts with the profiles that are active.
func (r *reader) isActive(document *yaml.Node) bool {
	condition := reading.At(document, "spring", "config", "activate", "on-profile")
	if condition == nil {
		if condition = reading.At(document, "spring", "profiles"); condition != nil &&
			condition.Kind == yaml.MappingNode {
			condition = nil
		}
	}
	if condition == nil {
		return true
	}
	var wanted []string
	for _, item := range reading.ItemsOrOne(condition) {
		for name := range strings.SplitSeq(r.account.Text(item), ",") {
			wanted = append(wanted, strings.TrimSpace(name))
		}
	}
	for _, name := range wanted {
		if negated, isNegated := strings.CutPrefix(name, "!"); isNegated && !slices.Contains(r.profiles, negated) ||
			slices.Contains(r.profiles, name) {
			return true
		}
	}
	r.account.NotInForce(document, "spring.config.activate.on-profile",
		"a document for the profile %s, which is not active; --profile takes it", strings.Join(wanted, ", "))
	return false
}

// includes reads the files that a document includes.
func (r *reader) includes(document *yaml.Node) error {
	const setting = "spring.config.import"
	for _, item := range reading.ItemsOrOne(reading.At(document, "spring", "config", "import")) {
		for location := range strings.SplitSeq(r.account.Text(item), ",") {
			location, isOptional := strings.CutPrefix(strings.TrimSpace(location), "optional:")
			name, isFile := location, false
			for _, prefix := range []string{"classpath:", "file:"} {
				if rest, found := strings.CutPrefix(location, prefix); found {
					name, isFile = rest, true
				}
			}
			if kind, _, has := strings.Cut(location, ":"); has && !isFile {
				r.account.Unsupported(item, setting, "%s cannot be read: only files are included, not %s", location,
					kind)
				continue
			}
			if strings.HasPrefix(location, "classpath:") {
				name = strings.TrimPrefix(name, "/")
			}
			if err := r.include(item, setting, name, isOptional); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) include(from *yaml.Node, setting, name string, isOptional bool) error {
	if name == "" || r.read[name] {
		return nil
	}
	content, err := r.open(name)
	switch {
	case err == nil:
		return r.file(reading.File{Name: name, Content: content})
	case errors.Is(err, fs.ErrNotExist) && isOptional:
		r.account.NotInForce(from, setting, "%s is optional, and not there", name)
	default:
		r.account.Unsupported(from, setting, "%s cannot be read: %v", name, err)
	}
	return nil
}

// profileFiles reads the files of the active profiles, which are in the folder of the main
// one.
func (r *reader) profileFiles(main reading.File, active *yaml.Node, setting string) error {
	base := path.Base(strings.ReplaceAll(main.Name, `\`, "/"))
	ending := path.Ext(base)
	for _, profile := range r.profiles {
		name := strings.TrimSuffix(base, ending) + "-" + profile + ending
		content, err := r.open(name)
		switch {
		case err == nil:
			r.account.Use(active)
			r.account.Taken(active, setting, "%s goes before the other files", name)
			if err := r.file(reading.File{Name: name, Content: content}); err != nil {
				return err
			}
		case errors.Is(err, fs.ErrNotExist):
			r.account.Use(active)
			r.account.Changed(active, setting, "the profile %s has no file: there is no %s", profile, name)
		default:
			r.account.Unsupported(active, setting, "%s cannot be read: %v", name, err)
		}
	}
	return nil
}

// ownKeys reports whether the user chooses the keys of a mapping: a dot in one is part of
// it.
func ownKeys(name string) bool {
	return slices.Contains([]string{"headers", "level", "tags", "customtags"}, schema.Fold(name))
}

// nested returns a document with settings under full names, such as server.port, moved into
// their sections.
func nested(account *reading.Account, n *yaml.Node, path string) *yaml.Node {
	if n = reading.Resolved(n); n == nil || n.Kind != yaml.MappingNode ||
		ownKeys(path[strings.LastIndexByte(path, '.')+1:]) {
		return n
	}
	result := &yaml.Node{Kind: yaml.MappingNode, Tag: n.Tag, Line: n.Line, Column: n.Column}
	account.Derive(result, n)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		parts := strings.Split(key.Value, ".")
		value := nested(account, n.Content[i+1], strings.TrimPrefix(path+"."+key.Value, "."))
		for _, part := range slices.Backward(parts) {
			name := *key
			name.Value = part
			outer := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: key.Line, Column: key.Column,
				Content: []*yaml.Node{&name, value}}
			account.Derive(outer, n)
			value = outer
		}
		result = overlay(account, result, value, path)
	}
	return result
}

// overlay returns the members of both trees; where they differ, high counts. Overridden
// settings of low get a row.
func overlay(account *reading.Account, low, high *yaml.Node, path string) *yaml.Node {
	low, high = reading.Resolved(low), reading.Resolved(high)
	switch {
	case low == nil || reading.IsEmpty(low):
		return high
	case high == nil || reading.IsEmpty(high) && low.Kind == yaml.MappingNode:
		return low
	case low.Kind != yaml.MappingNode || high.Kind != yaml.MappingNode:
		if !sameTree(low, high) {
			account.NotInForce(low, path, "%s:%d goes before it", account.FileOf(high), high.Line)
		}
		return high
	}
	result := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: high.Line, Column: high.Column}
	account.Derive(result, high)
	byName := func(n *yaml.Node, name string) *yaml.Node {
		for _, e := range reading.Entries(n) {
			if schema.Fold(e.Key) == schema.Fold(name) {
				return e.Value
			}
		}
		return nil
	}
	for i := 0; i+1 < len(low.Content); i += 2 {
		key := low.Content[i]
		value := reading.Resolved(low.Content[i+1])
		if over := byName(high, key.Value); over != nil {
			value = overlay(account, value, over, strings.TrimPrefix(path+"."+key.Value, "."))
		}
		result.Content = append(result.Content, key, value)
	}
	for i := 0; i+1 < len(high.Content); i += 2 {
		if byName(low, high.Content[i].Value) == nil {
			result.Content = append(result.Content, high.Content[i], reading.Resolved(high.Content[i+1]))
		}
	}
	return result
}

// sameTree reports whether two nodes say the same.
func sameTree(a, b *yaml.Node) bool {
	a, b = reading.Resolved(a), reading.Resolved(b)
	return a.Kind == b.Kind && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, sameTree)
}
