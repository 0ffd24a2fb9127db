package config_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
)

func TestTabsInIndentationsAreNamed(t *testing.T) {
	for content, place := range map[string]string{
		"server:\n\tlisten: x\n":                                  "patchbay.yaml:2:1  ",
		"server:\n  \tlisten: x\n":                                "patchbay.yaml:2:3  ",
		"\tserver: {}\n":                                          "patchbay.yaml:1:1  ",
		"server:\n  listen: x\n\tdata-dir: y\n":                   "patchbay.yaml:3:1  ",
		"services:\n  chat:\n    instances:\n\t- {name: a}\n":     "patchbay.yaml:4:1  ",
		"server:\n    listen: x\n\n\n\tdata-dir: y\n":             "patchbay.yaml:5:1  ",
		"log:\n  level: |\n\tinfo\n":                              "patchbay.yaml:3:1  ",
		"server: {\n\tlisten: '127.0.0.1:0'}\nlog:\n\tlevel: x\n": "patchbay.yaml:4:1  ", // within braces a tab is no indentation
	} {
		_, err := config.Load(config.Source{File: "patchbay.yaml", Content: []byte(content)})
		if want := place + "not valid YAML: tabs cannot indent; use spaces"; err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
	for _, content := range []string{"log:\n  level: @info\n", "\tlog: @x\nlog: %x\n"} {
		_, err := config.Load(config.Source{File: "patchbay.yaml", Content: []byte(content)})
		if err == nil || strings.Contains(err.Error(), "use spaces") != strings.HasPrefix(content, "\t") {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := config.Load(config.Source{File: "patchbay.yaml", Content: []byte("log:\n  level:\tinfo\n")}); err != nil {
		t.Errorf("a tab after a key: %v", err)
	}
}
