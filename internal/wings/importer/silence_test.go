package importer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/wings/importer"
)

// stranger is a member that no source has.
const stranger = "zzz-unknown"

// TestNoMemberIsDroppedSilently adds a member that nobody knows to each mapping of the
// files in turn. It must have a row, be below something that has one which says that it
// is not taken, or be in the result.
func TestNoMemberIsDroppedSilently(t *testing.T) {
	for file, source := range all() {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			addStrangers(t, file, source)
		})
	}
}

func addStrangers(t *testing.T, file string, source importer.Source) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(content), "\t", "  ")), &document); err != nil {
		t.Fatal(err)
	}
	places := 0
	visitMappings(&document, "", func(path string, mapping *yaml.Node) {
		if strings.HasSuffix(path, "type_counts") {
			return // of the envelope of a reply
		}
		places++
		key, value := new(yaml.Node), new(yaml.Node)
		key.SetString(stranger)
		value.SetString("1")
		before := mapping.Content
		mapping.Content = append(append([]*yaml.Node(nil), before...), key, value)
		defer func() { mapping.Content = before }()
		changed, err := yaml.Marshal(&document)
		if err != nil {
			t.Fatal(err)
		}
		in := input(t, file, same)
		in.Files[0].Content = changed
		result, err := importer.Import(source, in)
		if err != nil {
			t.Errorf("%s: %s: %v", file, path, err)
			return
		}
		if !tells(result, strings.TrimPrefix(path+"."+stranger, ".")) {
			t.Errorf("%s: %s.%s is dropped without a word", file, path, stranger)
		}
	})
	if places < 3 {
		t.Errorf("%s has %d mappings", file, places)
	}
}

// tells reports whether a result says what became of a setting.
func tells(r *importer.Result, path string) bool {
	if strings.Contains(strings.ToLower(r.YAML), stranger) {
		return true
	}
	for _, row := range r.Rows {
		// Channels are numbered in the export as a whole.
		setting := strings.NewReplacer("channels[", "data.items[").Replace(row.Setting)
		if strings.Contains(row.Setting, stranger) || strings.Contains(row.Text, stranger) {
			return true
		}
		isRefused := row.Outcome == importer.Unsupported || row.Outcome == importer.NotInForce
		for _, name := range []string{row.Setting, setting, strings.Replace(setting, "data.items[", "data[", 1)} {
			if isRefused && (strings.HasPrefix(path, name+".") || strings.HasPrefix(path, name+"[")) {
				return true
			}
		}
	}
	return false
}

// visitMappings calls a function for each mapping, with its path.
func visitMappings(n *yaml.Node, path string, visit func(path string, mapping *yaml.Node)) {
	switch n.Kind {
	case yaml.DocumentNode:
		visitMappings(n.Content[0], path, visit)
	case yaml.MappingNode:
		visit(path, n)
		for i := 0; i+1 < len(n.Content); i += 2 {
			visitMappings(n.Content[i+1], strings.TrimPrefix(path+"."+n.Content[i].Value, "."), visit)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			visitMappings(item, fmt.Sprintf("%s[%d]", path, i), visit)
		}
	}
}
