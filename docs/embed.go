// Package docs holds the documentation that the program itself uses: what each setting
// and each code of an error means.
package docs

import (
	_ "embed"
	"strings"
)

//go:embed configuration.md
var configuration string

//go:embed errors.md
var errors string

// Errors returns the page of the codes of errors, in Markdown.
func Errors() string { return errors }

// Setting returns what the reference says of a setting: the heading of its table, such
// as "## server", and its name there. The text is empty if there is no such row.
func Setting(heading, key string) string {
	_, below, _ := strings.Cut(configuration, "\n"+heading+"\n")
	prefix := "| `" + key + "` |"
	for line := range strings.Lines(below) {
		if strings.HasPrefix(line, "#") {
			return ""
		}
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		return strings.TrimSpace(cells[len(cells)-1])
	}
	return ""
}
