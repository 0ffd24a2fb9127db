package config

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

// syntaxProblem reports an error of the YAML library. The library gives the line in
// words, for some errors one too low, and no column.
func (r *reader) syntaxProblem(err error, content []byte) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	at := origin{file: r.file, line: 1, column: 1}
	if parts := regexp.MustCompile(`^line (\d+): (.*)$`).FindStringSubmatch(message); parts != nil {
		at.line, _ = strconv.Atoi(parts[1])
		message = parts[2]
		if countsFromZero(message) {
			at.line++
		}
	} else if parts := regexp.MustCompile(`^unknown anchor '(.*)' referenced$`).FindStringSubmatch(
		message); parts != nil {
		before, _, _ := bytes.Cut(content, []byte("*"+parts[1]))
		at.line = bytes.Count(before, []byte("\n")) + 1
		at.column = len(before) - bytes.LastIndexByte(before, '\n')
	}
	if line, column := indentingTab(content, at.line, message); line > 0 {
		at.line, at.column, message = line, column, "tabs cannot indent; use spaces"
	}
	r.problems.add(at, "", "not valid YAML: "+message)
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
