package references

import (
	"fmt"
	"path/filepath"
	"strings"
)

// The writer of a gateway's data directory or database chooses the references of its
// stored versions, and the host that the text is sent to. So these references are limited
// to the names that the gateway's own configuration gives.

// filePrefix begins the names of files, and hashPrefix precedes a name that is replaced
// by the hash of its text.
const (
	filePrefix = "file:"
	hashPrefix = "sha256:"
)

// Limit says which references are resolved.
type Limit struct {
	// Names are the only names that are resolved: variables, and files with "file:"
	// before their path.
	Names []string
	// NeverNames are not resolved, even if they are among Names, and neither is a name
	// with a text that contains one of NeverTexts.
	NeverNames, NeverTexts []string
}

// RefusedError says that a reference is not resolved, although it may lead somewhere.
type RefusedError struct {
	Name string
	// IsMasterKey says that the reference leads to a text that is never sent, whatever
	// the configuration says.
	IsMasterKey bool
}

func (e *RefusedError) Error() string {
	noun := "the variable"
	if strings.HasPrefix(e.Name, filePrefix) {
		noun = "the reference"
	}
	if e.IsMasterKey {
		return noun + " " + e.Name + " leads to the master key, which is sent to no backend"
	}
	return noun + " " + e.Name + " is none that the services of this gateway's configuration file refer to; " +
		"security.references lists others that stored versions may refer to"
}

// limit is a Limit that can be looked up.
type limit struct {
	names, never map[string]bool
	texts        []string
}

// Only returns a resolver that resolves no more than a limit allows.
func (s Resolver) Only(l Limit) Resolver {
	allowed := &limit{names: map[string]bool{}, never: map[string]bool{}}
	for _, name := range l.Names {
		allowed.names[s.fullName(name)] = true
	}
	for _, name := range l.NeverNames {
		allowed.never[s.fullName(name)] = true
	}
	for _, text := range l.NeverTexts {
		if text != "" {
			allowed.texts = append(allowed.texts, text)
		}
	}
	s.limit = allowed
	return s
}

// fullName returns the name of a variable unchanged, and the name of a file with its
// whole path.
func (s Resolver) fullName(name string) string {
	path, isFile := strings.CutPrefix(name, filePrefix)
	if !isFile {
		return name
	}
	return filePrefix + s.fullPath(path)
}

func (s Resolver) fullPath(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Directory, path)
	}
	return filepath.Clean(path)
}

// refuse returns why a name is not resolved, or nil.
func (l *limit) refuse(name string) *RefusedError {
	switch {
	case l == nil:
		return nil
	case l.never[name]:
		return &RefusedError{Name: name, IsMasterKey: true}
	case !l.names[name]:
		return &RefusedError{Name: name}
	}
	return nil
}

// refuseText returns why the text of a name is not given, or nil.
func (l *limit) refuseText(name, text string) *RefusedError {
	if l == nil {
		return nil
	}
	for _, never := range l.texts {
		if strings.Contains(text, never) {
			return &RefusedError{Name: name, IsMasterKey: true}
		}
	}
	return nil
}

// Names returns the names that a text refers to, including the names in defaults.
func Names(text string) []string {
	var names []string
	for text != "" {
		at := strings.IndexByte(text, '$')
		if at < 0 || at == len(text)-1 {
			break
		}
		text = text[at:]
		if !strings.HasPrefix(text, "${") {
			text = text[2:] // a doubled sign, or one that means itself
			continue
		}
		end := referenceEnd(text)
		if end < 0 {
			break
		}
		names = append(names, namesIn(text[2:end-1])...)
		text = text[end:]
	}
	return names
}

// namesIn returns the names in the text between the braces of a reference.
func namesIn(reference string) []string {
	for strings.HasPrefix(reference, hashPrefix) {
		reference = reference[len(hashPrefix):]
	}
	if strings.HasPrefix(reference, filePrefix) {
		return []string{reference}
	}
	name, fallback, _ := strings.Cut(reference, ":")
	return append([]string{name}, Names(fallback)...)
}

// CheckName describes the fault in the name of a variable or of a file; empty means none.
func CheckName(name string) string {
	if path, isFile := strings.CutPrefix(name, filePrefix); isFile {
		if path == "" {
			return "names no file; want file:/path"
		}
		return ""
	}
	if !isVariableName(name) {
		return fmt.Sprintf("want the name of a variable, or file:/path, found %q", name)
	}
	return ""
}
