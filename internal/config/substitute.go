package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// maxReferencedFile bounds what ${file:...} reads: it is meant for secrets.
const maxReferencedFile = 1 << 20

// substitution is the result of replacing the references in a text.
type substitution struct {
	text string
	// fault says why the text could not be completed.
	fault string
	// fromOutside is set where a variable or a file contributed.
	fromOutside bool
	// hasReference is set where a reference was replaced, be it by its default.
	hasReference bool
	// whole is set where the text was one reference and nothing else.
	whole bool
}

// substituter replaces ${VAR}, ${VAR:default}, ${VAR:-default} and ${file:/path}
// in texts. A doubled dollar sign stands for one.
type substituter struct {
	variables map[string]string
	// directory is where relative paths of files begin.
	directory string
}

// expand replaces every reference in text. References may stand in the default
// of another one.
func (s substituter) expand(text string) substitution {
	var result substitution
	var out strings.Builder
	rest := text
	for {
		at := strings.IndexByte(rest, '$')
		if at < 0 {
			break
		}
		out.WriteString(rest[:at])
		rest = rest[at:]
		switch {
		case strings.HasPrefix(rest, "$$"):
			out.WriteByte('$')
			rest = rest[2:]
		case strings.HasPrefix(rest, "${"):
			end := referenceEnd(rest)
			if end < 0 {
				result.fault = "has a ${ without its }"
				return result
			}
			result.hasReference = true
			value := s.resolve(rest[2 : end-1])
			if value.fault != "" {
				return value
			}
			out.WriteString(value.text)
			result.fromOutside = result.fromOutside || value.fromOutside
			result.whole = end == len(text)
			rest = rest[end:]
		default:
			out.WriteByte('$')
			rest = rest[1:]
		}
	}
	out.WriteString(rest)
	result.text = out.String()
	return result
}

// resolveSecret is expand for a secret that was kept as a reference.
func (s substituter) resolveSecret(reference string) (string, error) {
	result := s.expand(reference)
	if result.fault != "" {
		return "", errors.New(result.fault)
	}
	return result.text, nil
}

// referenceEnd returns the index behind the brace that closes the reference at
// the start of text, or -1.
func referenceEnd(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "${"):
			depth++
			i++
		case text[i] == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// resolve returns the value of what stands between the braces.
func (s substituter) resolve(reference string) substitution {
	if path, isFile := strings.CutPrefix(reference, "file:"); isFile {
		return s.readFile(path)
	}
	name, fallback, hasFallback := strings.Cut(reference, ":")
	if !isVariableName(name) {
		return substitution{fault: fmt.Sprintf("%q is not a variable name", name)}
	}
	fallback, replacesEmpty := strings.CutPrefix(fallback, "-")
	value, isSet := s.variables[name]
	if isSet && !utf8.ValidString(value) {
		return substitution{fault: "variable " + name + " is not UTF-8 text"}
	}
	if isSet && (value != "" || !replacesEmpty) {
		return substitution{text: value, fromOutside: true}
	}
	if !hasFallback {
		return substitution{fault: "variable " + name + " is not set and has no default"}
	}
	return s.expand(fallback)
}

func isVariableName(name string) bool {
	for i, r := range name {
		isLetter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !isLetter && (i == 0 || r < '0' || r > '9') && (i == 0 || r != '.' && r != '-') {
			return false
		}
	}
	return name != ""
}

func (s substituter) readFile(path string) substitution {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.directory, path)
	}
	content, err := readSmallFile(path)
	if err != nil {
		return substitution{fault: fmt.Sprintf("cannot read the file %q: %v", path, err)}
	}
	if !utf8.Valid(content) {
		return substitution{fault: fmt.Sprintf("the file %q is not UTF-8 text", path)}
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	return substitution{text: text, fromOutside: true}
}

func readSmallFile(path string) ([]byte, error) {
	// Opening a pipe or a device could block for ever, so ask first.
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, reason(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, reason(err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxReferencedFile+1))
	if err != nil {
		return nil, reason(err)
	}
	if len(content) > maxReferencedFile {
		return nil, errors.New("it is larger than 1 MiB")
	}
	return content, nil
}

// reason drops the operation and the path, which the message already names.
func reason(err error) error {
	if pathError, ok := errors.AsType[*os.PathError](err); ok {
		return pathError.Err
	}
	return err
}
