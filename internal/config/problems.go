package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Problem is one mistake in the configuration.
type Problem struct {
	// File is the file, or in words where else the value came from ("environment
	// PATCHBAY_LOG_LEVEL", "--set log.level"). Empty means unknown.
	File string
	// Line and Column count from 1; they are 0 where File is no file.
	Line, Column int
	// Path is the full name of the setting, in kebab-case.
	Path string
	Said say.Sentence
	// Excerpt shows the line with the place marked, each on a line of its own that begins with a line
	// feed; it is empty if the place needs none.
	Excerpt string
}

// String prints the problem on one line.
func (p Problem) String() string {
	var out strings.Builder
	if p.File != "" {
		out.WriteString(origin{p.File, p.Line, p.Column}.String() + "  ")
	}
	if p.Path != "" {
		out.WriteString(p.Path + ": ")
	}
	out.WriteString(p.Said.String())
	return out.String()
}

// Sentence returns the problem as a sentence about the setting.
func (p Problem) Sentence() say.Sentence {
	switch {
	case p.File != "":
		return say.Plain(p.String())
	case p.Path == "":
		return p.Said
	}
	return p.Said.About(p.Path)
}

// InService returns the path of the setting inside a service type, in camelCase.
// It reports false where the problem is not one of that service type.
func (p Problem) InService(serviceType schema.ServiceType) (path string, ok bool) {
	path, ok = strings.CutPrefix(p.Path, "services."+Kebab(serviceType.String())+".")
	return camel(path), ok
}

// Problems are all the mistakes of a configuration, in the order of the file; mistakes
// from other origins come last.
type Problems []Problem

// Error prints one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String() + problem.Excerpt
	}
	return strings.Join(lines, "\n")
}

// add adds a problem that only a file, a variable or an argument can have. It is told on a
// terminal, and its text has no code.
func (p *Problems) add(at origin, path, message string) { p.say(at, path, say.Plain(message)) }

func (p *Problems) say(at origin, path string, said say.Sentence) {
	const longest = 400
	*p = append(*p, Problem{File: at.file, Line: at.line, Column: at.column, Path: path, Said: said.Cut(longest)})
}

func (p Problems) sort() {
	slices.SortStableFunc(p, func(a, b Problem) int {
		aInFile, bInFile := a.Line > 0, b.Line > 0
		if aInFile != bInFile {
			if aInFile {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// origin is where a value was written.
type origin struct {
	file         string
	line, column int
}

func (o origin) String() string {
	if o.line == 0 {
		return o.file
	}
	return fmt.Sprintf("%s:%d:%d", o.file, o.line, o.column)
}

// mask hides, in a sentence about a value that must stay secret, every quoted part of the
// value. Sentences quote values and never print them bare.
func mask(said say.Sentence, secret string) say.Sentence {
	if secret == "" {
		return said
	}
	return said.Map(func(text string) string { return maskText(text, secret) })
}

func maskText(message, secret string) string {
	var out strings.Builder
	for {
		start := strings.IndexByte(message, '"')
		if start < 0 {
			break
		}
		quoted, err := strconv.QuotedPrefix(message[start:])
		if err != nil {
			break
		}
		out.WriteString(message[:start])
		message = message[start+len(quoted):]
		if content, err := strconv.Unquote(quoted); err != nil || content == "" || strings.Contains(secret, content) {
			quoted = `"****"`
		}
		out.WriteString(quoted)
	}
	return out.String() + message
}

// isSecretName reports whether a setting of this name may hold a secret.
func isSecretName(path string) bool {
	if strings.Contains(path, ".headers[") {
		return true
	}
	name := strings.ToLower(path[strings.LastIndexByte(path, '.')+1:])
	for _, word := range []string{"key", "token", "secret", "password", "sha256", "url"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
