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

// Parse reads the documents of a file, with the lines of everything, and puts merged
// mappings of YAML into their places.
func (a *Account) Parse(file File) ([]*yaml.Node, error) {
	documents, err := Documents(file)
	if err != nil {
		return nil, err
	}
	for _, root := range documents {
		a.Own(root, file.Name)
	}
	return documents, nil
}

// Own notes that a tree is of a file.
func (a *Account) Own(root *yaml.Node, file string) { a.settle(root, "", file) }

// Documents reads documents of YAML, or values of JSON that follow each other.
func Documents(file File) ([]*yaml.Node, error) {
	text := bytes.TrimPrefix(file.Content, []byte("\xef\xbb\xbf"))
	parts := [][]byte{text}
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		parts = jsonValues(text)
	}
	var documents []*yaml.Node
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
			if root := document.Content[0]; !IsEmpty(root) {
				documents = append(documents, root)
			}
		}
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("%s says nothing", file.Name)
	}
	return documents, nil
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
func (a *Account) settle(n *yaml.Node, path, file string) {
	n = Resolved(n)
	if n == nil || a.files[n] != "" {
		return
	}
	a.files[n] = file
	for i, item := range Items(n) {
		a.settle(item, fmt.Sprintf("%s[%d]", path, i), file)
	}
	if n.Kind != yaml.MappingNode {
		return
	}
	last := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		last[n.Content[i].Value] = n.Content[i+1]
	}
	var own, merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		here := strings.TrimPrefix(path+"."+key.Value, ".")
		a.settle(value, here, file)
		switch {
		case key.Value == mergeKey:
			merged = append(merged, mergedMembers(value)...)
		case last[key.Value] != value:
			a.Add(NotInForce, file, key.Line, here,
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
	n.Content = own
}

// mergedMembers returns the members of a mapping, or of each mapping of a list.
func mergedMembers(n *yaml.Node) []*yaml.Node {
	n = Resolved(n)
	if n == nil || n.Kind == yaml.MappingNode {
		if n == nil {
			return nil
		}
		return n.Content
	}
	var members []*yaml.Node
	for _, item := range Items(n) {
		if item != nil && item.Kind == yaml.MappingNode {
			members = append(members, item.Content...)
		}
	}
	return members
}
