package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// syntaxProblem reports an error of the YAML library. The library gives a line in words, which may be
// that of a value around the mistake, and no column.
func (r *reader) syntaxProblem(err error, content []byte) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	at := origin{file: r.file, line: 1, column: 1}
	if parts := regexp.MustCompile(`^line (\d+): (.*)$`).FindStringSubmatch(message); parts != nil {
		at.line, _ = strconv.Atoi(parts[1])
		message = parts[2]
		if countsFromZero(message) {
			at.line++
		}
	}
	text, excerpt := "", ""
	if parts := regexp.MustCompile(`^unknown anchor '(.*)' referenced$`).FindStringSubmatch(message); parts != nil {
		before, _, _ := bytes.Cut(content, []byte("*"+parts[1]))
		at.line = bytes.Count(before, []byte("\n")) + 1
		at.column = len(before) - bytes.LastIndexByte(before, '\n')
	} else if line, column := indentingTab(content, at.line, message); line > 0 {
		at.line, at.column, message = line, column, "tabs cannot indent; use spaces"
	} else if line, text, at.column = mistake(content, message); line > 0 {
		if at.line = line; strings.TrimLeft(text, " ") == text[at.column-1:] {
			message += indentationHint(bytes.Split(content, []byte("\n"))[:line-1], text)
		}
		excerpt = "\n    " + secretText.ReplaceAllString(text, "$1****") +
			"\n    " + strings.Repeat(" ", at.column-1) + "^"
	}
	r.problems.add(at, "", "not valid YAML: "+message)
	(*r.problems)[len(*r.problems)-1].Excerpt = excerpt
}

// secretText matches what follows the name of a setting that may hold a secret.
var secretText = regexp.MustCompile(
	`((?i)(?:key|token|secret|password|sha256|url|authorization)[\w-]*["']?\s*[:=]\s*)\S.*`)

// mistake returns the line and the column at which content stops being YAML, and the text of the line.
// The library reports the begin of the value around a mistake.
func mistake(content []byte, message string) (line int, text string, column int) {
	lines := bytes.SplitAfter(hideColons(content), []byte("\n"))
	good := goodLines(lines)
	if good == len(lines) {
		return 0, "", 1
	}
	if strings.HasPrefix(message, "found unexpected end of stream") { // a quote that is not closed
		for n := good; n < len(lines); n++ {
			text := restoreColons(strings.TrimRight(string(lines[n]), "\r\n"))
			if at := openQuote(text); at >= 0 {
				return n + 1, text, utf8.RuneCountInString(text[:at]) + 1
			}
		}
	}
	const longest = 400
	before, last := bytes.Join(lines[:good], nil), bytes.TrimRight(lines[good], "\r\n")
	end := min(len(last), longest)
	for end > 0 && !isYAML(append(bytes.Clone(before), last[:end]...)) {
		end--
	}
	return good + 1, restoreColons(string(last)), utf8.RuneCount(last[:end]) + 1
}

// goodLines returns the count of lines from the first that are YAML. A list or mapping within brackets
// may take up to 64 lines.
func goodLines(lines [][]byte) int {
	const most = 64
	good := 0
	for isLater := true; isLater; {
		bad := len(lines)
		for good+1 < bad {
			if middle := (good + bad) / 2; isYAML(bytes.Join(lines[:middle], nil)) {
				good = middle
			} else {
				bad = middle
			}
		}
		isLater = false
		for n := good + 1; n < min(good+most, len(lines)) && !isLater; n++ {
			if isYAML(bytes.Join(lines[:n], nil)) {
				good, isLater = n, true
			}
		}
	}
	return good
}

// isYAML reports whether content is zero or more documents.
func isYAML(content []byte) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// openQuote returns the index of a quote that the line does not close, or -1.
func openQuote(line string) int {
	start := -1
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case start < 0 && (c == '"' || c == '\'') && (i == 0 || strings.IndexByte(" [{,:", line[i-1]) >= 0):
			start = i
		case start < 0:
		case c == '\\' && line[start] == '"':
			i++
		case c == line[start]:
			start = -1
		}
	}
	return start
}

// indentationHint compares the indentation of a line with those of the open mappings and lists above
// it. It is empty if none is near.
func indentationHint(above [][]byte, line string) string {
	isItem := func(text string) bool { return strings.HasPrefix(text, "- ") || text == "-" }
	var open []int
	for _, text := range above {
		rest := strings.TrimRight(string(text), " \r")
		content := strings.TrimLeft(rest, " ")
		if content == "" || content[0] == '#' {
			continue
		}
		indent := len(rest) - len(content)
		for len(open) > 0 && open[len(open)-1] >= indent {
			open = open[:len(open)-1]
		}
		for open = append(open, indent); isItem(content); open = append(open, indent) {
			after := strings.TrimLeft(content[1:], " ")
			indent += len(content) - len(after)
			content = cmp.Or(after, "?")
		}
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	var near []string
	for n, level := range open {
		isLast := n == len(open)-1
		if level >= indent && (n == 0 || open[n-1] <= indent) && level != indent ||
			level < indent && (isLast || open[n+1] >= indent) ||
			level == indent && !isLast {
			near = append(near, strconv.Itoa(level))
		}
	}
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("; this line is indented by %d spaces, those above by %s", indent, strings.Join(near, " and "))
}

// indentingTab finds the tab in an indentation that a message is about; line 0 means that
// the message has another cause. The library may stop at a value above the tab, and it
// calls some tabs "any character".
func indentingTab(content []byte, from int, message string) (line, column int) {
	namesTab := strings.HasPrefix(message, "found a tab character")
	if !namesTab && message != "found character that cannot start any token" {
		return 0, 0
	}
	number := 0
	for text := range bytes.Lines(content) {
		number++
		indentation := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
		if tab := bytes.IndexByte(indentation, '\t'); tab >= 0 && (number == from || namesTab && number > from) {
			return number, tab + 1
		}
	}
	return 0, 0
}

// countsFromZero reports whether a message comes from the library's parser rather than
// its scanner: the parser numbers lines from 0.
func countsFromZero(message string) bool {
	switch message {
	case "did not find expected <document start>", "did not find expected node content",
		"did not find expected '-' indicator", "did not find expected key",
		"did not find expected ',' or ']'", "did not find expected ',' or '}'",
		"found undefined tag handle", "found duplicate %YAML directive",
		"found incompatible YAML document", "found duplicate %TAG directive":
		return true
	}
	return false
}

// colonPlaceholder replaces a colon that the YAML library would misread. It is a
// character of a private use area, which texts do not contain.
const colonPlaceholder = "\uf8f0"

// hideColons hides the colons at the beginning of IPv6 addresses such as
// ::1/128. In [brackets] YAML lets a word begin with colons, but the library
// takes them for the end of a key. Columns stay as they are.
func hideColons(content []byte) []byte {
	if bytes.Contains(content, []byte(colonPlaceholder)) {
		return content
	}
	address := regexp.MustCompile(`([\[,\s])::([0-9a-fA-F/])`)
	return address.ReplaceAll(content, []byte("${1}"+colonPlaceholder+colonPlaceholder+"${2}"))
}

func restoreColons(text string) string { return strings.ReplaceAll(text, colonPlaceholder, ":") }
