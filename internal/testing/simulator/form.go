package simulator

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
)

const (
	maxUpload   = 1 << 30  // of a form, all of it
	maxParts    = 256      // of a form
	maxValue    = 1 << 20  // of a field that is no file
	sniffLength = 64 << 10 // of a file, where only the beginning is needed
	maxKept     = 64 << 20 // of all files that are needed whole
)

// form is the content of a multipart body.
type form struct {
	values  map[string][]string // by name, without the [] of lists
	files   map[string][]*upload
	problem string // why it is not a valid form, or empty
}

// upload is a file in a form.
type upload struct {
	name string
	size int64
	head []byte // its first bytes; all of them where the service needs them
}

func (f *form) value(name string) string {
	if values := f.values[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// formBoundary returns the boundary of a multipart body, or nothing.
func formBoundary(r *http.Request) string {
	said := r.Header.Get("Content-Type")
	if !strings.HasPrefix(strings.ToLower(said), "multipart/") { // parsing costs more than all the rest
		return ""
	}
	kind, parameters, err := mime.ParseMediaType(said)
	if err != nil || kind != "multipart/form-data" {
		return ""
	}
	return parameters["boundary"]
}

// readForm reads a form as it comes: a file costs no memory beyond its kept part. first
// is how many bytes of the raw body to report. An error means that the client left; a
// body that is no form is the form's problem.
func readForm(r *http.Request, boundary string, first int) (*form, received, error) {
	body := &meter{from: io.LimitReader(r.Body, maxUpload), first: first}
	f := &form{values: map[string][]string{}, files: map[string][]*upload{}}
	keep, budget := int64(sniffLength), int64(maxKept)
	if r.URL.Path == imageEditsPath {
		keep = maxKept
	}
	parts := multipart.NewReader(body, boundary)
	for count := 0; f.problem == ""; count++ {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		switch {
		case err != nil:
			f.problem = "The form is broken: " + err.Error()
		case count == maxParts:
			f.problem = "The form has too many parts."
		default:
			budget -= f.add(part, min(keep, budget))
		}
	}
	// The bytes behind the form, or the rest of a broken one.
	_, _ = io.Copy(io.Discard, body)
	return f, received{body.kept, body.length}, body.err
}

// add reads a part and returns how many bytes of it were kept.
func (f *form) add(part *multipart.Part, keep int64) int64 {
	name := strings.TrimSuffix(part.FormName(), "[]")
	// A part with the name of a file is one, even without a filename.
	isFile := part.FileName() != "" || name == "file" || name == "image" || name == "mask"
	if !isFile {
		keep = maxValue
	}
	var head bytes.Buffer
	kept, err := io.Copy(&head, io.LimitReader(part, keep))
	rest := int64(0)
	if err == nil {
		rest, err = io.Copy(io.Discard, part)
	}
	switch {
	case err != nil:
		f.problem = "The form is broken: " + err.Error()
	case isFile:
		f.files[name] = append(f.files[name], &upload{part.FileName(), kept + rest, head.Bytes()})
	case rest > 0:
		f.problem = "The field '" + name + "' is too long."
	default:
		f.values[name] = append(f.values[name], head.String())
	}
	return kept
}

// meter counts the bytes that are read, keeps the first ones and remembers how reading
// failed.
type meter struct {
	from   io.Reader
	first  int
	kept   []byte
	length int
	err    error
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	m.length += n
	if missing := m.first - len(m.kept); missing > 0 {
		m.kept = append(m.kept, p[:min(n, missing)]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = err
	}
	return n, err
}
