// Package references replaces references to variables and files, such as ${KEY}, in the
// texts of a configuration.
package references

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// maxReferencedFile bounds a file that ${file:...} reads: these files are meant for
// secrets.
const maxReferencedFile = 1 << 20

// Result is a text after its references were replaced.
type Result struct {
	Text string
	// Fault says why the text could not be completed, and Refused is set where that is
	// because a limit does not allow it.
	Fault   say.Sentence
	Refused *RefusedError
	// FromOutside is set where a variable or a file contributed.
	FromOutside bool
	// HasReference is set where a reference was replaced, even by its default.
	HasReference bool
	// Whole is set where the text was one reference and nothing else.
	Whole bool
}

// Resolver replaces ${VAR}, ${VAR:default}, ${VAR:-default} and ${file:/path} in texts,
// and ${sha256:...} by the hash of the text that would replace it without sha256. A
// doubled dollar sign is read as one.
type Resolver struct {
	Variables map[string]string
	// Directory is where relative paths of files begin.
	Directory string

	limit *limit // nil allows everything
}

// Expand replaces every reference in text. The default of a reference may contain
// references.
func (s Resolver) Expand(text string) Result {
	var result Result
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
				return broken("has a ${ without its }")
			}
			result.HasReference = true
			value := s.value(rest[2 : end-1])
			if value.Fault.Is() {
				return value
			}
			out.WriteString(value.Text)
			result.FromOutside = result.FromOutside || value.FromOutside
			result.Whole = end == len(text)
			rest = rest[end:]
		default:
			out.WriteByte('$')
			rest = rest[1:]
		}
	}
	out.WriteString(rest)
	result.Text = out.String()
	return result
}

// Resolve is Expand for a secret that was kept as a reference.
func (s Resolver) Resolve(reference string) (string, error) {
	result := s.Expand(reference)
	if result.Refused != nil {
		return "", result.Refused
	}
	return result.Text, result.Fault.Err()
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

// value returns the value of the text between the braces.
func (s Resolver) value(reference string) Result {
	if path, isFile := strings.CutPrefix(reference, filePrefix); isFile {
		return s.readFile(path)
	}
	if hashed, isHash := strings.CutPrefix(reference, hashPrefix); isHash {
		return s.hash(hashed)
	}
	name, fallback, hasFallback := strings.Cut(reference, ":")
	if !isVariableName(name) {
		return broken(fmt.Sprintf("%q is not a variable name", name))
	}
	if refused := s.limit.refuse(name); refused != nil {
		return refusal(refused)
	}
	fallback, replacesEmpty := strings.CutPrefix(fallback, "-")
	value, isSet := s.Variables[name]
	if isSet && !utf8.ValidString(value) {
		return broken("variable " + name + " is not UTF-8 text")
	}
	if isSet && (value != "" || !replacesEmpty) {
		return s.outside(name, value)
	}
	if !hasFallback {
		return Result{Fault: say.New("secret.unset", "name", name)}
	}
	return s.Expand(fallback)
}

// hash returns the SHA-256 of the value of a reference. An empty value gets a hash that
// no text has: a missing credential lets nobody in.
func (s Resolver) hash(reference string) Result {
	value := s.value(reference)
	switch {
	case value.Fault.Is():
	case value.Text == "":
		value.Text = access.NobodysHash
	default:
		value.Text = access.HashOf(value.Text)
	}
	return value
}

// outside returns the text that a variable or a file contributes.
func (s Resolver) outside(name, text string) Result {
	if refused := s.limit.refuseText(name, text); refused != nil {
		return refusal(refused)
	}
	return Result{Text: text, FromOutside: true}
}

// broken returns the result of a reference that can be read nowhere.
func broken(fault string) Result { return Result{Fault: say.Plain(fault)} }

func refusal(refused *RefusedError) Result {
	return Result{Fault: say.From(refused), Refused: refused}
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

func (s Resolver) readFile(path string) Result {
	path = s.fullPath(path)
	if refused := s.limit.refuse(filePrefix + path); refused != nil {
		return refusal(refused)
	}
	content, err := readSmallFile(path)
	if err != nil {
		return Result{Fault: say.New("secret.file", "file", path, "why", err.Error())}
	}
	if !utf8.Valid(content) {
		return broken(fmt.Sprintf("the file %q is not UTF-8 text", path))
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	return s.outside(filePrefix+path, text)
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
