package main

import (
	"path/filepath"
	"regexp"
	"strings"
)

const chartPrefix = "deploy/helm/patchbay/"

var semantic = regexp.MustCompile(`^\d+\.\d+\.\d+(-|\+|$)`)

// chartVersion is the version in the way of Helm: a semantic one. A commit without a tag
// comes before every release.
func (r *release) chartVersion() string {
	version := r.plainVersion()
	if semantic.MatchString(version) {
		return version
	}
	return "0.0.0-g" + regexp.MustCompile(`[^0-9A-Za-z.-]+`).ReplaceAllString(version, "-")
}

// writeChart packages the Helm chart, as helm package does.
func (r *release) writeChart(documents []file) error {
	var files []file
	for _, f := range documents {
		if name, isOfChart := strings.CutPrefix(f.name, chartPrefix); isOfChart {
			files = append(files, file{name, f.content, f.mode})
		}
	}
	sortFiles(files)
	return r.writeTarGz(filepath.Join(r.out, "patchbay-"+r.chartVersion()+".tgz"), "patchbay/", files)
}
