// Package importer makes a configuration out of one of another gateway. It drops
// nothing silently: every setting of the source is taken, changed, or named as not
// supported, with its line and the reason.
package importer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Source is a gateway whose configuration can be read.
type Source string

// The sources.
const (
	JAiRouter Source = "jairouter"
	LiteLLM   Source = "litellm"
	OneAPI    Source = "one-api"
	NewAPI    Source = "new-api"
	Bifrost   Source = "bifrost"
)

// Sources returns all sources.
func Sources() []Source { return []Source{JAiRouter, LiteLLM, OneAPI, NewAPI, Bifrost} }

// Outcome is what became of a setting.
type Outcome string

// The outcomes.
const (
	Taken       Outcome = "taken"
	Changed     Outcome = "changed"
	Unsupported Outcome = "not supported"
)

// Row says what became of a setting of the source.
type Row struct {
	Outcome Outcome `json:"outcome"`
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Setting string  `json:"setting"`
	Text    string  `json:"text"` // what it became, or why not and what to do
}

// Variable is a secret of the source, to which the configuration refers.
type Variable struct {
	Name  string
	Value string // empty where the source itself had only a name
	From  string // the setting that it comes from
}

// Result is a configuration that was made.
type Result struct {
	YAML      string
	Rows      []Row
	Variables []Variable
}

// Complete tells whether everything was taken or changed.
func (r *Result) Complete() bool {
	return !slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Outcome == Unsupported })
}

// Open reads a file that the source includes, by its name there.
type Open func(name string) ([]byte, error)

// Import reads a configuration of a source.
func Import(source Source, file string, content []byte, open Open) (*Result, error) {
	d := newDraft(source, file, open)
	if isSQLite(content) {
		if source != OneAPI && source != NewAPI {
			return nil, fmt.Errorf("%s is a SQLite database, which %s does not have as its configuration", file, source)
		}
		channels, err := readDatabase(file)
		if err != nil {
			return nil, err
		}
		d.channels(channels)
		return d.result()
	}
	root, err := parse(file, content)
	if err != nil {
		return nil, err
	}
	d.reserve(root)
	switch source {
	case JAiRouter:
		err = d.jairouter(root)
	case LiteLLM:
		err = d.litellm(root)
	case OneAPI, NewAPI:
		err = d.oneAPI(root)
	case Bifrost:
		err = d.bifrost(root)
	default:
		return nil, fmt.Errorf("unknown source %q", source)
	}
	if err != nil {
		return nil, err
	}
	d.leftovers(root, file)
	return d.result()
}

// Detect finds out which source a file is of.
func Detect(file string, content []byte) (Source, error) {
	if isSQLite(content) {
		return "", errors.New("one-api and new-api have the same tables with other meanings; say which with --from")
	}
	root, err := parse(file, content)
	if err != nil {
		return "", err
	}
	switch {
	case at(root, "model_list") != nil || at(root, "litellm_settings") != nil:
		return LiteLLM, nil
	case at(root, "model", "services") != nil || at(root, "jairouter") != nil || at(root, "spring") != nil:
		return JAiRouter, nil
	case at(root, "providers") != nil:
		return Bifrost, nil
	case len(channelsOf(root)) > 0:
		return "", errors.New("one-api and new-api number their channels differently; say which with --from")
	}
	return "", errors.New("this is the configuration of none of the known gateways; say which with --from")
}

func isSQLite(content []byte) bool { return bytes.HasPrefix(content, []byte("SQLite format 3\x00")) }

// parse reads YAML or JSON, with the lines of everything.
func parse(file string, content []byte) (*yaml.Node, error) {
	text := bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		text = spacesForTabs(text) // which YAML does not take for indentation
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(document.Content) == 0 {
		return nil, fmt.Errorf("%s says nothing", file)
	}
	return document.Content[0], nil
}

// spacesForTabs replaces the tabs at the beginning of lines.
func spacesForTabs(text []byte) []byte {
	lines := bytes.Split(text, []byte("\n"))
	for i, line := range lines {
		rest := bytes.TrimLeft(line, "\t ")
		lines[i] = append(bytes.Repeat([]byte(" "), len(line)-len(rest)), rest...)
	}
	return bytes.Join(lines, []byte("\n"))
}
