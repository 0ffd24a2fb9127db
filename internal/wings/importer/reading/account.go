// Package reading reads the documents of another gateway's configuration and keeps account
// of the outcome of each of their settings: none is dropped without a word.
package reading

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Outcome is the fate of a setting of the source.
type Outcome string

// The outcomes. NotInForce is a setting that has no effect in the source either, because
// another one goes before it or it is switched off.
const (
	Taken       Outcome = "taken"
	Changed     Outcome = "changed"
	NotInForce  Outcome = "not in force"
	Unsupported Outcome = "not supported"
)

// Row describes the outcome of a setting of the source.
type Row struct {
	Outcome Outcome `json:"outcome"`
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Setting string  `json:"setting"`
	Text    string  `json:"text"` // its new form, or why it has none and a remedy
}

// Account holds the read documents, the settings that were looked at, and the rows about
// them.
type Account struct {
	main  string                // the file of rows that are about none
	files map[*yaml.Node]string // where each node was written
	used  map[*yaml.Node]bool
	rows  []Row
}

// NewAccount returns an empty account for a configuration that begins with a file.
func NewAccount(main string) *Account {
	return &Account{main: main, files: map[*yaml.Node]string{}, used: map[*yaml.Node]bool{}}
}

// FileOf returns the file that a node was written in.
func (a *Account) FileOf(n *yaml.Node) string { return a.files[n] }

// Derive notes that a node was made of another one.
func (a *Account) Derive(made, of *yaml.Node) { a.files[made] = a.files[of] }

// Add adds a row.
func (a *Account) Add(outcome Outcome, file string, line int, setting, text string) {
	a.rows = append(a.rows, Row{outcome, file, line, setting, text})
}

func (s Setting) row(outcome Outcome, format string, args ...any) {
	s.account.Add(outcome, cmp.Or(s.account.files[s.Node], s.account.main), s.Line(), s.Name,
		fmt.Sprintf(format, args...))
}

// Taken notes the new form of the setting.
func (s Setting) Taken(format string, args ...any) { s.row(Taken, format, args...) }

// Changed notes the new form of the setting, which does not mean quite the same.
func (s Setting) Changed(format string, args ...any) { s.row(Changed, format, args...) }

// NotInForce notes that the setting, with all that is below it, has no effect in the source.
func (s Setting) NotInForce(format string, args ...any) {
	s.Use()
	s.row(NotInForce, format, args...)
}

// Unsupported notes that the setting, with all that is below it, is not imported.
func (s Setting) Unsupported(format string, args ...any) {
	s.Use()
	s.row(Unsupported, format, args...)
}

// Partly notes that a part of the setting is not imported; the rest is read on.
func (s Setting) Partly(format string, args ...any) { s.row(Unsupported, format, args...) }

// Rows returns the rows in the order of files and lines, each once.
func (a *Account) Rows() []Row {
	rows := slices.Clone(a.rows)
	slices.SortStableFunc(rows, func(x, y Row) int {
		return cmp.Or(strings.Compare(x.File, y.File),
			cmp.Compare(x.Line, y.Line))
	})
	seen := map[Row]bool{}
	return slices.DeleteFunc(rows, func(row Row) bool {
		again := seen[row]
		seen[row] = true
		return again
	})
}
