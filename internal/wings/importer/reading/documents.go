package reading

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// File is a file of a source.
type File struct {
	Name    string
	Content []byte
}

// Parse reads the documents of a file, with the lines of everything, and puts merged mappings of
// YAML into their places.
func (a *Account) Parse(file File) ([]Setting, error) {
	roots, err := documents(file)
	if err != nil {
		return nil, err
	}
	var all []Setting
	for _, root := range roots {
		all = append(all, a.Own(root, file.Name))
	}
	return all, nil
}

// Own returns the document of a file that a tree is.
func (a *Account) Own(root *yaml.Node, file string) Setting {
	a.settle(a.Setting("", root), file)
	return a.Setting("", root)
}

// documents reads documents of YAML, or values of JSON that follow each other.
func documents(file File) ([]*yaml.Node, error) {
	text := bytes.TrimPrefix(file.Content, []byte("\xef\xbb\xbf"))
	parts := [][]byte{text}
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		parts = jsonValues(text)
	}
	var all []*yaml.Node
	for _, part := range parts {
		decoder := yaml.NewDecoder(bytes.NewReader(part))
		for {
			var document yaml.Node
			err := decoder.Decode(&document)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %s", file.Name, strings.TrimPrefix(err.Error(), "yaml: "))
			}
			if root := document.Content[0]; !(Setting{Node: root}).IsEmpty() {
				all = append(all, root)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s says nothing", file.Name)
	}
	return all, nil
}

// jsonValues returns the values of a text of JSON as YAML that has them on the same lines.
// A text that is no JSON is returned whole, for YAML to report its faults.
func jsonValues(text []byte) [][]byte {
	decoder := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
	var values [][]byte
	for {
		value, err := decoder.ReadValue()
		switch {
		case errors.Is(err, io.EOF):
			return values
		case err != nil:
			return [][]byte{spacesForTabs(text)}
		}
		start := int(decoder.InputOffset()) - len(value)
		lines := bytes.Repeat([]byte("\n"), bytes.Count(text[:start], []byte("\n")))
		values = append(values, append(lines, spacesForTabs(value)...))
	}
}

// spacesForTabs replaces the tabs at the beginning of lines, which YAML does not take for
// indentation.
func spacesForTabs(text []byte) []byte {
	lines := bytes.Split(text, []byte("\n"))
	for i, line := range lines {
		rest := bytes.TrimLeft(line, "\t ")
		lines[i] = append(bytes.Repeat([]byte(" "), len(line)-len(rest)), rest...)
	}
	return bytes.Join(lines, []byte("\n"))
}

// mergeKey is the key of mappings that YAML merges into the mapping around it.
const mergeKey = "<<"

// settle notes the file of every node, drops all but the last of equal keys in a mapping,
// and puts the members of merged mappings into their places.
func (a *Account) settle(s Setting, file string) {
	n := s.Node
	if n == nil || a.files[n] != "" {
		return
	}
	a.files[n] = file
	for _, item := range s.Items() {
		a.settle(item, file)
	}
	last := map[string]*yaml.Node{}
	for i, all := 0, members(n); i+1 < len(all); i += 2 {
		last[all[i].Value] = all[i+1]
	}
	var own, merged []*yaml.Node
	for i, all := 0, members(n); i+1 < len(all); i += 2 {
		key, value := all[i], all[i+1]
		below := s.below(key.Value, value)
		a.settle(below, file)
		switch {
		case key.Value == mergeKey:
			for _, one := range below.ItemsOrOne() {
				merged = append(merged, members(one.Node)...)
			}
		case last[key.Value] != value:
			a.Add(NotInForce, file, key.Line, below.Name,
				fmt.Sprintf("is said again on line %d, which counts", last[key.Value].Line))
		default:
			own = append(own, key, value)
		}
	}
	for i := 0; i+1 < len(merged); i += 2 {
		if key := merged[i]; last[key.Value] == nil {
			last[key.Value] = merged[i+1]
			own = append(own, key, merged[i+1])
		}
	}
	if n.Kind == yaml.MappingNode {
		n.Content = own
	}
}
