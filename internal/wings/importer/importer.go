// Package importer makes a configuration out of one of another gateway. It drops
// nothing silently: every setting of the source is taken, changed, not in force there
// either, or named as not supported, with its line and the reason.
package importer

import (
	"fmt"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reasons"
)

// Source is a gateway with a configuration that can be read.
type Source string

// The sources.
const (
	JAiRouter Source = "jairouter"
	LiteLLM   Source = "litellm"
	OneAPI    Source = "one-api"
	NewAPI    Source = "new-api"
	Bifrost   Source = "bifrost"
	LlamaSwap Source = "llama-swap"
)

// Sources returns all sources.
func Sources() []Source {
	return []Source{JAiRouter, LiteLLM, OneAPI, NewAPI, Bifrost, LlamaSwap}
}

// Title returns the source as people call it.
func (s Source) Title() string {
	if title, has := map[Source]string{JAiRouter: "JAiRouter", LiteLLM: "LiteLLM", Bifrost: "Bifrost"}[s]; has {
		return title
	}
	return string(s)
}

// Row describes the outcome of a setting of the source.
type Row = reading.Row

// Outcome is the fate of a setting of the source.
type Outcome = reading.Outcome

// The outcomes.
const (
	Taken       = reading.Taken
	Changed     = reading.Changed
	NotInForce  = reading.NotInForce
	Unsupported = reading.Unsupported
)

// Variable is a text of the source, mostly a secret, that the configuration refers to.
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

// Complete reports whether nothing is missing that is in force in the source.
func (r *Result) Complete() bool {
	return !slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Outcome == Unsupported })
}

// Difference is something that does not behave as in the source, with the settings that it is
// about.
type Difference struct {
	Group    string   `json:"group"`
	Text     string   `json:"text"`
	Settings []string `json:"settings"`
}

// Differences returns what behaves differently now: where data goes and who is kept apart first.
func (r *Result) Differences() []Difference {
	var groups [reasons.Nothing][]Difference
	for _, row := range r.Rows {
		group := reasons.GroupOf(row.Setting)
		isChange := row.Outcome == Unsupported || row.Outcome == Changed && !reasons.IsOnlyWritten(row.Text)
		if group == reasons.Nothing || !isChange {
			continue
		}
		at := slices.IndexFunc(groups[group], func(d Difference) bool { return d.Text == row.Text })
		if at < 0 {
			groups[group] = append(groups[group], Difference{group.Title(), row.Text, []string{row.Setting}})
		} else {
			groups[group][at].Settings = append(groups[group][at].Settings, row.Setting)
		}
	}
	return slices.Concat(groups[:]...)
}

// File is a file of a source.
type File = reading.File

// Open reads a file that the source includes, by its name there.
type Open func(name string) ([]byte, error)

// Input is the configuration to read.
type Input struct {
	// Files are the configuration. Several of them are pages of an export of channels.
	Files []File
	Open  Open
	// Profiles of JAiRouter are read in place of the ones that its configuration names.
	Profiles []string
}

// Import reads a configuration of a source.
func Import(source Source, in Input) (*Result, error) {
	if len(in.Files) == 0 {
		return nil, fmt.Errorf("there is no file of %s", source)
	}
	d := newDraft(source, in)
	if len(in.Files) > 1 && source != OneAPI && source != NewAPI {
		return nil, fmt.Errorf("%s is read from one file, which names the others that belong to it", source)
	}
	var err error
	switch source {
	case JAiRouter:
		err = d.jairouter(in.Files[0])
	case LiteLLM:
		err = d.litellm(in.Files[0])
	case OneAPI, NewAPI:
		err = d.oneAPI(in.Files)
	case Bifrost:
		err = d.bifrost(in.Files[0])
	case LlamaSwap:
		err = d.llamaSwap(in.Files[0])
	default:
		err = fmt.Errorf("unknown source %q", source)
	}
	if err != nil {
		return nil, err
	}
	result := d.result()
	if err := check(result.YAML); err != nil {
		return nil, fmt.Errorf("the result would have mistakes:\n%w\n%s", err, result.YAML)
	}
	return result, nil
}

// check returns the faults of a configuration, or a part of one, while all variables that
// it refers to are unset.
func check(yaml string) error {
	_, err := config.Load(config.Source{File: "result", Content: []byte(yaml), KnownAdapter: kinds.Check})
	return err
}
