package schema

import (
	"io"
	"strings"
)

// Form is a request that came as a form: its parts in the order of their arrival. Small
// values are in memory; files are wherever they were put.
type Form struct{ Parts []Part }

// Part is one part of a form: a value, or a file.
type Part struct {
	Name  string
	Value string
	File  *File // nil for a value
}

// File is an uploaded file.
type File struct {
	Filename    string
	ContentType string
	Size        int64
	// Open reads the file from its beginning, any number of times.
	Open func() io.Reader
}

// is reports whether a part has the name; clients write arrays as name[], and
// some number their elements.
func (p *Part) is(name string) bool {
	plain, _, _ := strings.Cut(p.Name, "[")
	return plain == name
}

// Value returns the value of a field; ok is false when it is not there.
func (f *Form) Value(name string) (value string, ok bool) {
	for i := range f.Parts {
		if p := &f.Parts[i]; p.File == nil && p.is(name) {
			return p.Value, true
		}
	}
	return "", false
}

// HasFile reports whether the form has a file of the name.
func (f *Form) HasFile(name string) bool {
	for i := range f.Parts {
		if p := &f.Parts[i]; p.File != nil && p.is(name) {
			return true
		}
	}
	return false
}

// requireSingle refuses a form that has a field more than once which it may have once, and
// gives the parts of such fields the plain name. Otherwise a backend might use another part than
// the one that was checked here, and serve a model that was not permitted.
func (f *Form) requireSingle(fields *Fields) error {
	for _, rule := range fields.rules {
		if !rule.isSingle {
			continue
		}
		name, found := rule.name, false
		for i := range f.Parts {
			p := &f.Parts[i]
			switch {
			case !p.is(name):
				continue
			case found:
				return BadField(name, "value.once")
			case p.File != nil && !isFile(name):
				return BadField(name, "value.not_file")
			}
			found = true
			p.Name = name
		}
	}
	return nil
}

// isFile lists the fields that are files. A form has one of each.
func isFile(name string) bool { return name == "file" || name == "mask" }
