// Package docs holds the documentation that the program itself uses: what each setting
// means, and the pages that it serves.
package docs

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed configuration.md
var configuration string

//go:embed served
var served embed.FS

// Served returns the pages of the documentation that the program serves, compressed by gzip:
// en/start.html.gz and zh/start.html.gz are one in two languages, index the contents, and
// missing what is shown where there is no page. Beside these folders are the files that the
// pages load. They are made from the Markdown files of this directory (make docs-served).
func Served() (fs.FS, error) { return fs.Sub(served, "served") }

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
