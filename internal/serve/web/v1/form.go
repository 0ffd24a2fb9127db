package v1

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"os"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

const (
	// smallFile is the size below which an uploaded file stays in memory. A larger one
	// goes to a temporary file: it cannot be streamed to the backend, because the name
	// of the model may come after the file, and a second instance may be tried.
	smallFile = 64 << 10
	// maxParts bounds the number of parts, maxValues the length of all fields that are
	// no files together, and maxName the length of a name.
	maxParts  = 64
	maxValues = 1 << 20
	maxName   = 1 << 10
	// copyBuffer is the size of the buffer through which an upload is written to disk.
	copyBuffer = 32 << 10
)

// readForm reads and parses the form of a request.
func (x *exchange) readForm(parse func(*schema.Request, *schema.Form) error) error {
	if err := x.refuseCompressed(); err != nil {
		return err
	}
	mediaType, params, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" || params["boundary"] == "" {
		return schema.CodedError(schema.CodeUnsupportedMedia, "call.form_not_json")
	}
	limit := int64(x.table.Limits.MultipartBody)
	if x.r.ContentLength > limit {
		return tooLarge(limit)
	}
	if x.r.ContentLength > smallFile {
		if verdict := x.spool.space.May(x.r.ContentLength); verdict != memory.Granted {
			return unread{x.spool.noSpace(verdict, x.r.ContentLength)}
		}
	}
	body := &boundedReader{from: x.r.Body, left: limit}
	x.spool.reserve = x.reserve
	form, err := x.spool.readParts(multipart.NewReader(wholeForm(body), params["boundary"]))
	if err == nil {
		// The server notices that a client leaves only after the body was read to its end.
		_, err = io.Copy(io.Discard, body)
	}
	if captured := x.call.Captured; captured != nil && form != nil {
		captured.AddRequest(mediaType, listForm(form))
		captured.Request.Bytes = limit - body.left
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
		return unreadable(say.New("call.body_late"), schema.CodeRequestTimeout)
	case errors.As(err, new(*spillError)):
		x.log.Warn("an upload could not be stored", "error", err, "directory", os.TempDir())
		return unread{spillFault(err)}
	}
	return unreadable(say.New("call.form_unread", "why", formFault(err)), schema.CodeInvalidBody)
}

var (
	errTooManyParts = say.Error("upload.parts")
	errLongValue    = say.Error("upload.fields")
	errLongName     = say.Error("upload.name")
)

// spillError is why an upload could not be written to the temporary file.
type spillError struct{ error }

// Unwrap returns the error itself.
func (e *spillError) Unwrap() error { return e.error }

// spillFault returns the caller's error for a spillError.
func spillFault(err error) *schema.Error {
	if durable.IsFull(err) {
		return uploadsFull(say.New("call.upload_disk"))
	}
	return unexpected(err)
}

func uploadsFull(said say.Sentence) *schema.Error {
	known := schema.NewError(schema.CodeUploadsFull, said)
	known.RetryAfter = time.Second
	return known
}

// formFault describes the fault of a form in words that do not depend on the version of the
// standard library.
func formFault(err error) say.Sentence {
	for _, known := range [...]error{errTooManyParts, errLongValue, errLongName} {
		if errors.Is(err, known) {
			return say.From(known)
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return say.New("upload.early")
	}
	return say.New("upload.malformed")
}

// wholeForm makes the end of a body an unexpected one for the reader of a form, which
// ends with its last boundary. The line break is for a body that ends right after it.
func wholeForm(body io.Reader) io.Reader {
	return io.MultiReader(body, strings.NewReader("\r\n"), unexpectedEnd{})
}

type unexpectedEnd struct{}

func (unexpectedEnd) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

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

// spool keeps the files of a form. All files of one form share one temporary file. The
// spool removes it from its directory while it is open, and a crash leaves nothing behind.
type spool struct {
	file   *os.File
	size   int64
	space  memory.Lease // the file's part of the space for uploads
	values int          // bytes of the fields that are no files
	// reserve takes memory for the parts that stay in memory.
	reserve func(bytes int) error
}

// close closes the temporary file, which frees its space.
func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name()) // for systems where an open file cannot be removed
	}
	s.space.Close()
	*s = spool{}
}

// noSpace says why an upload gets no more space; bytes is the amount that it needs.
func (s *spool) noSpace(verdict memory.Verdict, bytes int64) *schema.Error {
	known := uploadsFull(say.New("call.upload_space"))
	most := s.space.Most()
	switch {
	case s.space.Held()+bytes > most:
		known.Reword("call.upload_most", "size", most)
		known.NoRetry = true
	case verdict == memory.ShareUsed:
		known.Reword("call.upload_share")
	}
	return known
}

// take takes memory for a part that stays in memory.
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

// leftOut reports whether the user chose no file: browsers then send the field with neither
// file name nor content.
func leftOut(file *schema.File) bool { return file != nil && file.Size == 0 && file.Filename == "" }

// isFileField reports whether a field holds a file, even if the client sends no file name.
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

// spill writes a file that is too large for memory to the temporary file.
func (s *spool) spill(file *schema.File, start []byte, rest io.Reader) error {
	if s.file == nil {
		temp, err := os.CreateTemp("", "patchbay-upload-*")
		if err != nil {
			return &spillError{err}
		}
		_ = os.Remove(temp.Name()) // fails where open files cannot be removed; close tries again
		s.file = temp
	}
	offset := s.size
	if err := s.write(start); err != nil {
		return err
	}
	buffer := make([]byte, copyBuffer)
	for {
		n, err := rest.Read(buffer)
		if n > 0 {
			if err := s.write(buffer[:n]); err != nil {
				return err
			}
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

// write writes a part that has arrived to the temporary file, and takes the space for it.
func (s *spool) write(part []byte) error {
	if verdict := s.space.Take(int64(len(part))); verdict != memory.Granted {
		return s.noSpace(verdict, int64(len(part)))
	}
	n, err := s.file.Write(part)
	s.size += int64(n)
	if err != nil {
		return &spillError{err}
	}
	return nil
}
