// Package console holds the web console as Vite has built it. The built files
// are committed, so that building the gateway needs no Node; README.md in this
// folder says how they are made.
package console

import (
	"embed"
	"io/fs"
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
