package config_test

import (
	"strconv"
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

// The library reports the begin of the value around a mistake; the line and the column are those of
// the mistake itself, and an indentation is compared with those above.
func TestMistakesOfYAMLAreShownWhereTheyAre(t *testing.T) {
	const head = "services:\n  chat:\n    instances:\n"
	for _, c := range []struct{ name, content, place, line, hint string }{
		{"an item one space short", head + "      - {name: a, base-url: x}\n     - {name: b}\n      - {name: c}\n", "5:6", "     - {name: b}", "indented by 5 spaces, those above by 4 and 6"},
		{"a key one space short", head + "      - name: a\n        base-url: x\n       weight: 2\n        tier: 1\n", "6:8", "       weight: 2", "indented by 7 spaces, those above by 6 and 8"},
		{"a key one space long", "server:\n  data-dir: x\n   listen: y\n", "3:10", "   listen: y", ""},
		{"a key beside its list", head + "      - name: a\n        weight: 2\n      tier: 2\n      - name: b\n", "6:7", "      tier: 2", "indented by 6 spaces"},
		{"a quote that is not closed", "server: { listen: \"127.0.0.1:8080 }\nlog:\n  level: info\n", "1:19", `server: { listen: "127.0.0.1:8080 }`, ""},
		{"a quote in a list of lines", head + "      - {name: a, base-url: x,\n         path: 'y, weight: 2}\n      - {name: b}\n", "5:16", "         path: 'y, weight: 2}", ""},
		{"a bracket that is not closed", head + "      - {name: a, base-url: x\n      - {name: b}\n", "4:9", "      - {name: a, base-url: ****", ""},
		{"a bracket behind others of several lines", "log: {\n  level: info\n}\nserver: {\n  listen: x\n}\nservices: {chat: {}\n", "7:11", "services: {chat: {}", ""},
		{"two keys in a line", "log:\n  level: a: b\n", "2:11", "  level: a: b", ""},
		{"letters of several bytes", "log: {level: 信息, \"级别: x}\n", "1:18", `log: {level: 信息, "级别: x}`, ""},
		{"a secret", "security:\n  keys:\n    - {id: a, api-key: sk-secret\n", "3:7", "    - {id: a, api-key: ****", ""},
	} {
		_, err := config.Load(config.Source{File: "p.yaml", Content: []byte(c.content)})
		if err == nil {
			t.Errorf("%s: got no error", c.name)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		caret := strings.Repeat(" ", 4+atoi(t, strings.Split(c.place, ":")[1])-1) + "^"
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "p.yaml:"+c.place+"  not valid YAML: ") || !strings.Contains(lines[0], c.hint) ||
			lines[1] != "    "+c.line || lines[2] != caret {
			t.Errorf("%s: got\n%v\nwant it at %s with %q", c.name, err, c.place, c.hint)
		}
	}
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A file of many lines is not read once for each of them.
func TestAMistakeInALongFileIsFoundSoon(t *testing.T) {
	content := "services:\n  chat:\n    instances:\n" + strings.Repeat("      - {name: a, base-url: x}\n", 2_000) + "     - {name: b}\n"
	_, err := config.Load(config.Source{File: "p.yaml", Content: []byte(content)})
	if err == nil || !strings.HasPrefix(err.Error(), "p.yaml:2004:6  ") {
		t.Errorf("got %.200v", err)
	}
}

func TestMistakesBelowAnUnknownServiceTypeAreShown(t *testing.T) {
	for _, services := range []string{"  chatt:\n", "  nothing-like-it:\n", "  chat: {}\n  chatt:\n"} {
		content := "services:\n" + services + "    load-balanser: random\n    instances:\n      - {name: a, base-url: 'http://a.invalid', weight: much}\n" +
			"      - {name: b, base-url: 'http://b.invalid', timeouts: {total: soon}}\n"
		_, err := config.Load(config.Source{File: "p.yaml", Content: []byte(content)})
		for _, want := range []string{"unknown service type", "load-balanser", "instances[0].weight", "instances[1].timeouts.total"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %s in it", services, err, want)
			}
		}
	}
	_, err := config.Load(config.Source{File: "p.yaml", Content: []byte("services:\n  chatt:\n    instances:\n      - {name: a, base-url: 'http://a.invalid', weight: -1}\n")})
	if err == nil || !strings.Contains(err.Error(), "weight") {
		t.Errorf("got %v, want the range of weight, which only the whole configuration is checked for", err)
	}
}
