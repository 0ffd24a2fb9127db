package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/go-json-experiment/json"
)

func printVersion(w io.Writer, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(w, versionLine())
		return err
	}
	data, err := json.Marshal(struct {
		Version  string `json:"version"`
		Commit   string `json:"commit"`
		Date     string `json:"date"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
	}{version, commit, date, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

func versionLine() string {
	line := "patchbay " + version
	if commit != "" {
		line += " (" + commit + ")"
	}
	return line + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
