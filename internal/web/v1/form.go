package v1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"os"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

const (
	// smallFile is how much of an upload stays in memory; the rest goes to a
	// temporary file, because the name of the model may come after the file and
	// a second backend may have to be tried.
	smallFile = 64 << 10
	// maxParts bounds the number of parts, maxValues all fields together that
	// are no files, and maxName what a part is called.
	maxParts  = 64
	maxValues = 1 << 20
	maxName   = 1 << 10
	// copyBuffer is how much of an upload is in hand while it is written away.
	copyBuffer = 32 << 10
)

// readForm reads and checks the form of a request.
func (x *exchange) readForm(parse func(*schema.Request, *schema.Form) error) error {
	if err := x.refuseCompressed(); err != nil {
		return err
	}
	mediaType, params, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" || params["boundary"] == "" {
		return schema.NewError(schema.CodeUnsupportedMedia, "This endpoint takes a form (multipart/form-data with a boundary).")
	}
	limit := int64(x.table.Limits.MultipartBody)
	if x.r.ContentLength > limit {
		return tooLarge(limit)
	}
	body := &boundedReader{from: x.r.Body, left: limit}
	x.spool.reserve = x.reserve
	form, err := x.spool.readParts(multipart.NewReader(wholeForm(body), params["boundary"]))
	if err == nil {
		// The server watches for a client that leaves only behind the body's end.
		_, err = io.Copy(io.Discard, body)
	}
	switch {
	case err == nil:
		x.call.Ready = x.call.At(time.Now())
		return parse(&x.request, form)
	case errors.Is(err, errTooLarge):
		return tooLarge(limit)
	case isOverloaded(err):
		return unread{err}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return unreadable("The request body did not arrive in time.", schema.CodeRequestTimeout)
	case errors.Is(err, errNoSpace):
		return unexpected(err)
	}
	return unreadable("The form could not be read: "+formFault(err)+".", schema.CodeInvalidBody)
}

var (
	errTooManyParts = errors.New("it has too many parts")
	errLongValue    = errors.New("its fields are too long")
	errLongName     = errors.New("a name in it is too long")
	errNoSpace      = errors.New("the upload could not be stored")
)

// formFault says what is wrong with a form in words that do not change with the
// library that found it.
func formFault(err error) string {
	switch {
	case errors.Is(err, errTooManyParts), errors.Is(err, errLongValue), errors.Is(err, errLongName):
		return err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "it ended too early"
	}
	return "it is malformed"
}

// wholeForm makes the end of a body an error for the reader of a form: a
// form ends before that, with its last boundary. The line break lets that
// boundary be the end of the body.
func wholeForm(body io.Reader) io.Reader {
	return io.MultiReader(body, strings.NewReader("\r\n"), cutOff{})
}

// cutOff is where a form ends too early.
type cutOff struct{}

func (cutOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// boundedReader reads a body within a limit.
type boundedReader struct {
	from io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// spool keeps the files of a form. All files of one form share one temporary
// file, which has no name any more while it is used, so that nothing can leave
// it behind.
type spool struct {
	file   *os.File
	size   int64
	values int // bytes of the fields that are no files
	// reserve is asked for the memory of what is not written away.
	reserve func(bytes int) error
}

// close frees the temporary file.
func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name()) // where an open file could not be removed
	}
	*s = spool{}
}

// take takes memory from the budget for bodies.
func (s *spool) take(bytes int) error {
	if s.reserve == nil {
		return nil
	}
	return s.reserve(bytes)
}

func (s *spool) readParts(reader *multipart.Reader) (*schema.Form, error) {
	form := new(schema.Form)
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return form, nil
		}
		if err != nil {
			return nil, err
		}
		if len(form.Parts) == maxParts {
			return nil, errTooManyParts
		}
		read, err := s.readPart(part)
		if err != nil {
			return nil, err
		}
		if read.Name != "" && !leftOut(read.File) {
			form.Parts = append(form.Parts, read)
		}
	}
}

// leftOut tells whether a file was not chosen: browsers send such a field with
// neither a name nor a content.
func leftOut(file *schema.File) bool { return file != nil && file.Size == 0 && file.Filename == "" }

// isFileField lists the fields that hold files, also where a client leaves out
// the name of the file.
func isFileField(name string) bool {
	switch strings.TrimSuffix(name, "[]") {
	case "file", "image", "mask":
		return true
	}
	return false
}

func (s *spool) readPart(part *multipart.Part) (schema.Part, error) {
	read := schema.Part{Name: part.FormName()}
	_, params, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	filename, isFile := params["filename"]
	contentType := part.Header.Get("Content-Type")
	if max(len(read.Name), len(filename), len(contentType)) > maxName {
		return read, errLongName
	}
	if !isFile && !isFileField(read.Name) {
		value, err := io.ReadAll(io.LimitReader(part, int64(maxValues-s.values)+1))
		s.values += len(value)
		if err == nil && s.values > maxValues {
			err = errLongValue
		}
		if err == nil {
			err = s.take(len(value))
		}
		read.Value = string(value)
		return read, err
	}
	file := &schema.File{Filename: filename, ContentType: contentType}
	if file.ContentType == "" {
		file.ContentType = "application/octet-stream"
	}
	read.File = file
	start, err := io.ReadAll(io.LimitReader(part, smallFile))
	if err != nil {
		return read, err
	}
	if err := s.take(len(start)); err != nil {
		return read, err
	}
	if len(start) < smallFile {
		file.Size = int64(len(start))
		file.Open = func() io.Reader { return bytes.NewReader(start) }
		return read, nil
	}
	return read, s.spill(file, start, part)
}

// spill writes a file that is too large for memory away.
func (s *spool) spill(file *schema.File, start []byte, rest io.Reader) error {
	if s.file == nil {
		temp, err := os.CreateTemp("", "patchbay-upload-*")
		if err != nil {
			return fmt.Errorf("%w: %w", errNoSpace, err)
		}
		_ = os.Remove(temp.Name()) // fails where open files cannot be removed; close tries again
		s.file = temp
	}
	offset := s.size
	if _, err := s.file.Write(start); err != nil {
		return fmt.Errorf("%w: %w", errNoSpace, err)
	}
	s.size += int64(len(start))
	buffer := make([]byte, copyBuffer)
	for {
		n, err := rest.Read(buffer)
		if n > 0 {
			if _, err := s.file.Write(buffer[:n]); err != nil {
				return fmt.Errorf("%w: %w", errNoSpace, err)
			}
			s.size += int64(n)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	file.Size = s.size - offset
	temp := s.file
	file.Open = func() io.Reader { return io.NewSectionReader(temp, offset, file.Size) }
	return nil
}
