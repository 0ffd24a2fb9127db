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
	layers   []*yaml.Node // the last one counts
}

func newReader(account *reading.Account, in Input, profiles []string) *reader {
	return &reader{account: account, open: in.Open, profiles: profiles, read: map[string]bool{}}
}

// Read returns the configuration that a file and the files that belong to it make up.
// Settings that are not in force get a row.
func Read(account *reading.Account, in Input) (reading.Setting, error) {
	profiles, none := in.Profiles, reading.Setting{}
	if len(profiles) == 0 { // the files name them; their rows come later
		first := newReader(reading.NewAccount(in.Main.Name), in, nil)
		if err := first.file(in.Main); err != nil {
			return none, err
		}
		profiles = names(first.merged().At("spring", "profiles", "active"))
	}
	r := newReader(account, in, profiles)
	if err := r.file(in.Main); err != nil {
		return none, err
	}
	active := account.Setting("", r.merged().Node).At("spring", "profiles", "active")
	if len(in.Profiles) > 0 {
		if active.Exists() {
			active.NotInForce("--profile goes before it")
		}
		active = account.Setting("--profile", nil)
	}
	if err := r.profileFiles(in.Main, active); err != nil {
		return none, err
	}
	return merge(account, r.layers), nil
}

// names returns the names in a list of texts or in one text, which commas separate.
func names(s reading.Setting) (all []string) {
	for _, item := range s.ItemsOrOne() {
		for name := range strings.SplitSeq(item.Text(), ",") {
			if name = strings.TrimSpace(name); name != "" {
				all = append(all, name)
			}
		}
	}
	return all
}

// merged returns the layers as one tree, without rows about overridden settings.
func (r *reader) merged() reading.Setting { return merge(reading.NewAccount(""), r.layers) }

func merge(account *reading.Account, layers []*yaml.Node) reading.Setting {
	root := layers[0]
	for _, layer := range layers[1:] {
		root = overlay(account, root, layer, "")
	}
	return account.Setting("", root)
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
		document = r.account.Setting("", nested(r.account, document.Node, ""))
		if !r.isActive(document) {
			continue
		}
		r.layers = append(r.layers, document.Node)
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
func (r *reader) isActive(document reading.Setting) bool {
	condition := document.At("spring", "config", "activate", "on-profile")
	if !condition.Exists() {
		condition = document.At("spring", "profiles")
	}
	if !condition.Exists() || condition.Node.Kind == yaml.MappingNode {
		return true
	}
	wanted := names(condition)
	for _, name := range wanted {
		if negated, isNegated := strings.CutPrefix(name, "!"); isNegated && !slices.Contains(r.profiles, negated) ||
			slices.Contains(r.profiles, name) {
			return true
		}
	}
	document.As("spring.config.activate.on-profile").NotInForce(
		"a document for the profile %s, which is not active; --profile takes it", strings.Join(wanted, ", "))
	return false
}

// includes reads the files that a document includes.
func (r *reader) includes(document reading.Setting) error {
	setting := document.At("spring", "config", "import")
	for _, item := range setting.ItemsOrOne() {
		item = item.As(setting.Name)
		for _, location := range names(item) {
			location, isOptional := strings.CutPrefix(location, "optional:")
			name, isFile := strings.CutPrefix(location, "file:")
			if rest, isResource := strings.CutPrefix(location, "classpath:"); isResource {
				name, isFile = strings.TrimPrefix(rest, "/"), true
			}
			if kind, _, has := strings.Cut(location, ":"); has && !isFile {
				item.Unsupported("%s cannot be read: only files are included, not %s", location, kind)
				continue
			}
			if err := r.include(item, name, isOptional); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) include(from reading.Setting, name string, isOptional bool) error {
	if name == "" || r.read[name] {
		return nil
	}
	content, err := r.open(name)
	switch {
	case err == nil:
		return r.file(reading.File{Name: name, Content: content})
	case errors.Is(err, fs.ErrNotExist) && isOptional:
		from.NotInForce("%s is optional, and not there", name)
	default:
		from.Unsupported("%s cannot be read: %v", name, err)
	}
	return nil
}

// profileFiles reads the files of the active profiles, which are in the folder of the main
// one.
func (r *reader) profileFiles(main reading.File, active reading.Setting) error {
	base := path.Base(strings.ReplaceAll(main.Name, `\`, "/"))
	ending := path.Ext(base)
	for _, profile := range r.profiles {
		name := strings.TrimSuffix(base, ending) + "-" + profile + ending
		content, err := r.open(name)
		switch active.Use(); {
		case err == nil:
			active.Taken("%s goes before the other files", name)
			if err := r.file(reading.File{Name: name, Content: content}); err != nil {
				return err
			}
		case errors.Is(err, fs.ErrNotExist):
			active.Changed("the profile %s has no file: there is no %s", profile, name)
		default:
			active.Unsupported("%s cannot be read: %v", name, err)
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
	below, above := account.Setting(path, low), account.Setting(path, high)
	low, high = below.Node, above.Node
	switch {
	case below.IsEmpty():
		return high
	case high == nil || above.IsEmpty() && low.Kind == yaml.MappingNode:
		return low
	case low.Kind != yaml.MappingNode || high.Kind != yaml.MappingNode:
		if !sameTree(low, high) {
			below.NotInForce("%s:%d goes before it", account.FileOf(high), high.Line)
		}
		return high
	}
	result := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: high.Line, Column: high.Column}
	account.Derive(result, high)
	for i := 0; i+1 < len(low.Content); i += 2 {
		key := low.Content[i]
		value := reading.Resolved(low.Content[i+1])
		if over := above.At(key.Value); over.Exists() {
			value = overlay(account, value, over.Node, over.Name)
		}
		result.Content = append(result.Content, key, value)
	}
	for i := 0; i+1 < len(high.Content); i += 2 {
		if !below.At(high.Content[i].Value).Exists() {
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
