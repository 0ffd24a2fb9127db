// Package console holds the web console as Vite has built it. The built files
// are committed, so that building the gateway needs no Node; README.md in this
// folder says how they are made.
package console

import (
	"embed"
	"io/fs"
	"strings"
)

// dist is the output of the build, with the page at dist/index.html.
//
//go:embed all:dist
var dist embed.FS

// Files returns the files of the console with their paths as a browser asks
// for them: index.html, theme.js, assets/vendor.js.
func Files() (fs.FS, error) {
	return fs.Sub(dist, "dist")
}

// said has the sentences of the core in Chinese, by their codes.
//
//go:embed src/i18n/said.zh.ts
var said string

// Chinese returns the sentence of a code in Chinese, with the names of its values between braces, from
// the given files of wings or the core's. It returns an empty text if there is none.
func Chinese(code string, wings ...string) string {
	_, rest, _ := strings.Cut(strings.Join(wings, "")+said, "\n  '"+code+"': '")
	text, _, found := strings.Cut(rest, "',\n")
	if !found {
		return ""
	}
	return strings.ReplaceAll(text, `\'`, "'")
}
