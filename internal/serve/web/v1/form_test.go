package v1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// readFormOf reads a form as the endpoints do.
func readFormOf(s *spool, body io.Reader, boundary string) (*schema.Form, error) {
	return s.readParts(multipart.NewReader(wholeForm(body), boundary))
}

// formOf writes a form with the boundary x.
func formOf(parts ...string) string {
	var form strings.Builder
	for _, part := range parts {
		form.WriteString("--x\r\n" + part + "\r\n")
	}
	return form.String() + "--x--\r\n"
}

func fieldOf(name, value string) string {
	return "Content-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value
}

func fileOf(name, filename, content string) string {
	return "Content-Disposition: form-data; name=\"" + name + "\"; filename=\"" + filename + "\"\r\nContent-Type: audio/wav\r\n\r\n" + content
}

func TestForms(t *testing.T) {
	for name, test := range map[string]struct {
		body  string
		parts int
		fault error
	}{
		"empty":                       {"--x--\r\n", 0, nil},
		"without the last line break": {"--x--", 0, nil},
		"field":                       {formOf(fieldOf("a", "1")), 1, nil},
		"nameless parts do not count": {formOf("Content-Type: text/plain\r\n\r\n1", fieldOf("", "2"), fieldOf("a", "3")), 1, nil},
		"preamble and epilogue":       {"before\r\n" + formOf(fieldOf("a", "1")) + "after", 1, nil},
		"most parts":                  {formOf(strings.Split(strings.Repeat(fieldOf("a", "1")+"\x00", maxParts-1)+fieldOf("b", "2"), "\x00")...), maxParts, nil},
		"too many parts":              {formOf(strings.Split(strings.Repeat(fieldOf("a", "1")+"\x00", maxParts)+fieldOf("b", "2"), "\x00")...), 0, errTooManyParts},
		"longest field":               {formOf(fieldOf("a", strings.Repeat("v", maxValues))), 1, nil},
		"long field":                  {formOf(fieldOf("a", strings.Repeat("v", maxValues+1))), 0, errLongValue},
		"long fields together":        {formOf(fieldOf("a", strings.Repeat("v", maxValues)), fieldOf("b", "v")), 0, errLongValue},
		"long name":                   {formOf(fieldOf(strings.Repeat("n", maxName+1), "v")), 0, errLongName},
		"long name of a file":         {formOf(fileOf("file", strings.Repeat("n", maxName+1), "v")), 0, errLongName},
		"nothing":                     {"", 0, io.ErrUnexpectedEOF},
		"no boundary":                 {"hello", 0, io.ErrUnexpectedEOF},
		"cut in the head":             {"--x\r\nContent-Disposition: form-da", 0, io.ErrUnexpectedEOF},
		"cut behind the head":         {"--x\r\n" + fieldOf("a", ""), 0, io.ErrUnexpectedEOF},
		"cut in a field":              {"--x\r\n" + fieldOf("a", "valu"), 0, io.ErrUnexpectedEOF},
		"cut in a boundary":           {"--x\r\n" + fieldOf("a", "v") + "\r\n--", 0, io.ErrUnexpectedEOF},
		"cut in a small file":         {"--x\r\n" + fileOf("file", "f", "abc"), 0, io.ErrUnexpectedEOF},
		"cut in a large file":         {"--x\r\n" + fileOf("file", "f", strings.Repeat("c", 3*smallFile)), 0, io.ErrUnexpectedEOF},
		"file without a name":         {formOf(fieldOf("file", strings.Repeat("c", 2*maxValues))), 1, nil},
		"file that nobody chose":      {formOf(fileOf("file", "", "")), 0, nil},
		"empty file":                  {formOf(fileOf("file", "f", "")), 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			var s spool
			form, err := readFormOf(&s, strings.NewReader(test.body), "x")
			switch {
			case test.fault != nil:
				if !errors.Is(err, test.fault) {
					t.Errorf("error %v, want %v", err, test.fault)
				}
			case err != nil:
				t.Error(err)
			case len(form.Parts) != test.parts:
				t.Errorf("%d parts, want %d", len(form.Parts), test.parts)
			}
			s.close()
			nothingIn(t, dir)
		})
	}
}

func nothingIn(t testing.TB, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Several large files share one temporary file and are read from it any number
// of times, in any order.
func TestFilesOfAForm(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	contents := []string{strings.Repeat("a", smallFile-1), strings.Repeat("b", smallFile), strings.Repeat("c", 5*smallFile+7), "d", strings.Repeat("e", 2*smallFile)}
	var parts []string
	for i, content := range contents {
		parts = append(parts, fileOf("image[]", fmt.Sprint(i), content))
	}
	var s spool
	defer s.close()
	form, err := readFormOf(&s, strings.NewReader(formOf(parts...)), "x")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for i := len(contents) - 1; i >= 0; i-- {
			file := form.Parts[i].File
			read, err := io.ReadAll(file.Open())
			if err != nil || string(read) != contents[i] || file.Size != int64(len(read)) {
				t.Errorf("file %d has %d bytes, %v", i, len(read), err)
			}
		}
	}
	if s.size != int64(len(contents[1])+len(contents[2])+len(contents[4])) {
		t.Errorf("%d bytes are on disk", s.size)
	}
}

// What a form costs in memory does not grow with its files.
func TestMemoryOfAForm(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const size, most = 64 << 20, 1 << 20
	before, after, _ := strings.Cut(formOf(fieldOf("model", "m"), fileOf("file", "f", "HERE")), "HERE")
	body := io.MultiReader(strings.NewReader(before), io.LimitReader(zeros{}, size), strings.NewReader(after))
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	var s spool
	defer s.close()
	form, err := readFormOf(&s, body, "x")
	runtime.ReadMemStats(&end)
	if err != nil || form.Parts[1].File.Size != size {
		t.Fatal(err)
	}
	if grown := end.TotalAlloc - start.TotalAlloc; grown > most {
		t.Errorf("%d bytes were allocated for a file of %d", grown, size)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// FuzzForm reads whatever comes as a form. It must end, stay within its bounds
// and leave no file; and a form that was read reaches the backend as it is.
func FuzzForm(f *testing.F) {
	for _, body := range []string{
		"", "--x--", "--x\r\n", formOf(), formOf(fieldOf("model", "m"), fileOf("file", "a.wav", "RIFF")),
		formOf(fileOf("image[]", "a.png", "1"), fileOf("image[]", "b.png", "2"), fileOf("mask", "m.png", "3"), fieldOf("prompt", "p")),
		formOf(fileOf("file", "", ""), fieldOf("model", "")),
		formOf(fieldOf("file", "no name"), fieldOf(`a"b`, `c"d`)),
		formOf(fileOf("file", `..\\..\\x.wav`, "a\r\n--xy\r\n--x-\r\n")),
		formOf("Content-Disposition: form-data; name*=utf-8''%0d%0aX; filename*=utf-8''a%22%0d%0ab\r\n\r\nv"),
		formOf("Content-Disposition: form-data; name=a\r\nContent-Type: text/plain;\r\n charset=utf-8\r\n\r\nfolded"),
		formOf("Content-Disposition: form-data; name=a; name=b\r\n\r\ntwice"),
		formOf("Content-Transfer-Encoding: quoted-printable\r\nContent-Disposition: form-data; name=a\r\n\r\n=41"),
		formOf(fileOf("file", "big", strings.Repeat("0123456789", 7000)), fieldOf("model", "m")),
		strings.Repeat(formOf(fieldOf("a", "b")), 3),
		strings.Repeat("--x\r\n"+fieldOf("a", "b")+"\r\n", 70) + "--x--",
		"--x \t\r\n" + fieldOf("a", "b") + "\r\n--x-- \t\r\n",
		"--x\n" + strings.ReplaceAll(fieldOf("a", "b"), "\r\n", "\n") + "\n--x--\n",
	} {
		f.Add([]byte(body), "x")
	}
	f.Add([]byte("--a b\r\n"+fieldOf("a", "b")+"\r\n--a b--"), "a b")
	dir := f.TempDir()
	f.Setenv("TMPDIR", dir)
	f.Fuzz(func(t *testing.T, body []byte, boundary string) {
		if boundary == "" {
			return // the endpoint refuses it
		}
		var s spool
		form, err := readFormOf(&s, inPieces(body), boundary)
		if err == nil {
			checkBounds(t, form, len(body))
			checkPassedOn(t, form)
		}
		s.close()
		nothingIn(t, dir)
	})
}

// inPieces makes a reader that gives small pieces first, so that boundaries
// are split in many places, and the rest as it comes.
func inPieces(body []byte) io.Reader {
	cut := min(len(body), 300)
	return io.MultiReader(&oneByte{body[:cut]}, bytes.NewReader(body[cut:]))
}

type oneByte struct{ rest []byte }

func (o *oneByte) Read(p []byte) (int, error) {
	if len(o.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(1, len(p))], o.rest)
	o.rest = o.rest[n:]
	return n, nil
}

func checkBounds(t *testing.T, form *schema.Form, length int) {
	t.Helper()
	values, files := 0, int64(0)
	for _, part := range form.Parts {
		if part.Name == "" || len(part.Name) > maxName {
			t.Errorf("a part called %.40q", part.Name)
		}
		values += len(part.Value)
		if part.File != nil {
			files += part.File.Size
			if part.Value != "" || part.File.ContentType == "" || len(part.File.Filename) > maxName {
				t.Errorf("file %+v", part.File)
			}
		}
	}
	if len(form.Parts) > maxParts || values > maxValues || int64(values)+files > int64(length) {
		t.Errorf("%d parts, %d bytes of values and %d of files from %d bytes", len(form.Parts), values, files, length)
	}
}

// checkPassedOn checks that a backend gets the form that was read.
func checkPassedOn(t *testing.T, form *schema.Form) {
	t.Helper()
	kind, err := kinds.Lookup("openai")
	if err != nil {
		t.Fatal(err)
	}
	target, err := kind.Target(schema.STT, dialect.Endpoint{BaseURL: "http://backend"})
	if err != nil {
		t.Fatal(err)
	}
	var call wire.Call
	if err := target.Unified().Call(&schema.Request{Service: schema.STT, Form: form}, target, &call); err != nil {
		t.Fatal(err)
	}
	sent, err := io.ReadAll(call.Upload.Open())
	if err != nil || int64(len(sent)) != call.Upload.Length {
		t.Fatalf("%d bytes of %d, %v", len(sent), call.Upload.Length, err)
	}
	var boundary string
	for _, header := range call.Header {
		if header.Name == "Content-Type" {
			_, params, err := mime.ParseMediaType(header.Value)
			if err != nil {
				t.Fatal(err)
			}
			boundary = params["boundary"]
		}
	}
	var s spool
	defer s.close()
	again, err := readFormOf(&s, bytes.NewReader(sent), boundary)
	if err != nil {
		t.Fatalf("the backend gets a broken form: %v\n%.500q", err, sent)
	}
	if len(again.Parts) != len(form.Parts) {
		t.Fatalf("the backend gets %d parts of %d: %.500q", len(again.Parts), len(form.Parts), sent)
	}
	for i, part := range form.Parts {
		got := again.Parts[i]
		if got.Value != part.Value || (got.File == nil) != (part.File == nil) {
			t.Fatalf("part %d is %.200q, was %.200q", i, got.Value, part.Value)
		}
		if part.File == nil {
			continue
		}
		was, _ := io.ReadAll(part.File.Open())
		is, _ := io.ReadAll(got.File.Open())
		if !bytes.Equal(was, is) {
			t.Fatalf("file %d is %.200q, was %.200q", i, is, was)
		}
	}
}

// A full disk is told as one, and keeps nothing.
func TestUploadOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	pool := memory.NewRoom(1 << 30)
	s := spool{file: full, space: pool.Lease("a", netip.Addr{})}
	_, err = readFormOf(&s, strings.NewReader(formOf(fileOf("file", "f", strings.Repeat("c", 3*smallFile)))), "x")
	if !errors.As(err, new(*spillError)) {
		t.Fatalf("error %v", err)
	}
	if fault := spillFault(err); fault.Code != schema.CodeUploadsFull || fault.HTTPStatus() != http.StatusServiceUnavailable || fault.RetryAfter == 0 {
		t.Errorf("told %+v", fault)
	}
	s.file = nil // close would remove it
	s.close()
	_ = full.Close()
	if pool.Taken() != 0 {
		t.Errorf("%d bytes are taken", pool.Taken())
	}
}
