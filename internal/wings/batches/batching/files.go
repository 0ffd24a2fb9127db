package batching

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// fileView is a file as clients of OpenAI read it.
type fileView struct {
	ID            string  `json:"id"`
	Object        string  `json:"object" enum:"file"`
	Bytes         int64   `json:"bytes"`
	CreatedAt     int64   `json:"created_at"`
	ExpiresAt     int64   `json:"expires_at"`
	Filename      string  `json:"filename"`
	Purpose       string  `json:"purpose" enum:"batch,batch_output"`
	Status        string  `json:"status" enum:"processed"`
	StatusDetails *string `json:"status_details"`
}

type fileList struct {
	Object  string     `json:"object" enum:"list"`
	Data    []fileView `json:"data"`
	FirstID *string    `json:"first_id"`
	LastID  *string    `json:"last_id"`
	HasMore bool       `json:"has_more"`
}

type deletedFile struct {
	ID      string `json:"id"`
	Object  string `json:"object" enum:"file"`
	Deleted bool   `json:"deleted"`
}

type fileForm struct {
	File    string `json:"file" format:"binary" required:"true"`
	Purpose string `json:"purpose" enum:"batch" required:"true"`
	// Anchor and Seconds say when the file is deleted.
	Anchor  string `json:"expires_after[anchor]" enum:"created_at"`
	Seconds int    `json:"expires_after[seconds]" minimum:"3600" maximum:"2592000"`
}

type filesQuery struct {
	After   string `json:"after"`
	Limit   int    `json:"limit" minimum:"1" maximum:"10000"`
	Order   string `json:"order" enum:"asc,desc"`
	Purpose string `json:"purpose"`
}

func (a *API) addFiles(add adder) {
	add("POST /v1/files", (*visit).createFile, web.Route{
		Summary: "Upload a file of requests for a batch", BodyType: "multipart/form-data", Body: fileForm{},
		Reply:  fileView{},
		Errors: []int{http.StatusRequestTimeout, http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge},
	})
	add("GET /v1/files", (*visit).listFiles, web.Route{Summary: "The files of the caller's tenant or key",
		Query: filesQuery{}, Reply: fileList{}})
	add("GET /v1/files/{id}", (*visit).getFile, web.Route{Summary: "One file", Reply: fileView{}})
	add("GET /v1/files/{id}/content", (*visit).fileContent,
		web.Route{Summary: "The content of a file", Media: map[string]any{"application/octet-stream": ""}})
	add("DELETE /v1/files/{id}", (*visit).deleteFile,
		web.Route{Summary: "Delete a file", Reply: deletedFile{}, Errors: []int{http.StatusBadRequest}})
}

func viewFile(f files.File) fileView {
	return fileView{
		ID: f.ID, Object: "file", Bytes: f.Bytes, CreatedAt: f.Created.Unix(), ExpiresAt: f.Expires.Unix(),
		Filename: f.Filename, Purpose: f.Purpose,
		Status: "processed",
	}
}

// purposeBatch is the only purpose that files are kept for here.
const purposeBatch = "batch"

// createFile answers POST /v1/files. The file goes to the store as it comes.
func (v *visit) createFile() (any, error) {
	mediaType, params, err := mime.ParseMediaType(v.r.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" || params["boundary"] == "" {
		return nil, unread{schema.CodedError(schema.CodeUnsupportedMedia, "call.form_not_json")}
	}
	const form = 1 << 20 // the form around the file
	if v.r.ContentLength > v.options.LargestFile()+form {
		return nil, unread{files.ErrTooLarge}
	}
	u, err := v.options.Files.Create(v.r.Context(), files.File{Owner: v.owner})
	if err != nil {
		return nil, unread{err}
	}
	defer u.Abort()
	f := uploadedForm{upload: u}
	if err := f.read(multipart.NewReader(v.r.Body, params["boundary"])); err != nil {
		return nil, unread{err}
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	u.Describe(f.filename, f.purpose)
	if f.lifetime > 0 {
		u.KeepFor(f.lifetime)
	}
	file, err := u.Commit(v.r.Context())
	return viewFile(file), err
}

// uploadedForm is the form of an upload.
type uploadedForm struct {
	upload            *files.Upload
	hasFile           bool
	filename, purpose string
	anchor, seconds   string
	lifetime          time.Duration
}

const (
	mostParts    = 16
	longestValue = 4 << 10
	longestName  = 255
)

// errMalformed means that the form or the header of a part cannot be read.
var errMalformed = errors.New("malformed form")

func (f *uploadedForm) read(reader *multipart.Reader) error {
	for parts := 0; ; parts++ {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return formError(fmt.Errorf("%w: %w", errMalformed, err))
		}
		if parts == mostParts {
			return schema.CodedError(schema.CodeInvalidBody, "call.form_parts")
		}
		if err := f.readPart(part); err != nil {
			return formError(err)
		}
	}
}

func (f *uploadedForm) readPart(part *multipart.Part) error {
	if part.FormName() == "file" {
		if f.hasFile {
			return schema.InvalidValue("file", say.New("call.form_files"))
		}
		f.hasFile, f.filename = true, part.FileName()
		if len(f.filename) > longestName || !utf8.ValidString(f.filename) ||
			strings.ContainsFunc(f.filename, unicode.IsControl) {
			return badName()
		}
		_, err := io.Copy(f.upload, part)
		return err
	}
	value, err := io.ReadAll(io.LimitReader(part, longestValue+1))
	if err == nil && len(value) > longestValue {
		err = schema.InvalidValue(part.FormName(), say.New("call.form_field"))
	}
	switch part.FormName() {
	case "purpose":
		f.purpose = string(value)
	case "expires_after[anchor]":
		f.anchor = string(value)
	case "expires_after[seconds]":
		f.seconds = string(value)
	}
	return err
}

// formError returns the caller's error for a form that cannot be read. An error of the
// store stays as it is.
func formError(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return schema.CodedError(schema.CodeRequestTimeout, "call.upload_late")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return schema.CodedError(schema.CodeInvalidBody, "call.upload_broke")
	case errors.Is(err, errMalformed), strings.HasPrefix(err.Error(), "multipart: "):
		return schema.CodedError(schema.CodeInvalidBody, "call.form_malformed")
	}
	return err
}

func badName() *schema.Error { return schema.InvalidValue("file", say.New("files.name")) }

// check checks the fields of the form other than the content.
func (f *uploadedForm) check() error {
	if !f.hasFile {
		return schema.MissingParameter("file")
	}
	if f.upload.Size() == 0 {
		return schema.InvalidValue("file", say.New("files.empty"))
	}
	if f.purpose == "" {
		return schema.MissingParameter("purpose")
	}
	if f.purpose != purposeBatch {
		return schema.BadField("purpose", "value.purpose")
	}
	if f.filename == "" {
		return badName()
	}
	var err error
	f.lifetime, err = lifetimeOf(f.anchor, f.seconds)
	return err
}

const (
	leastLife = time.Hour
	mostLife  = 30 * 24 * time.Hour
)

// lifetimeOf reads how long a file is kept, 0 where nothing is said.
func lifetimeOf(anchor, text string) (time.Duration, error) {
	if anchor == "" && text == "" {
		return 0, nil
	}
	if anchor != "created_at" {
		return 0, schema.BadField("expires_after.anchor", "value.created_at")
	}
	n, err := strconv.Atoi(text)
	life := time.Duration(n) * time.Second
	if err != nil || life < leastLife || life > mostLife {
		return 0, schema.BadField("expires_after.seconds", "field.range", "least", "3600", "most", "2592000")
	}
	return life, nil
}

// listFiles answers GET /v1/files.
func (v *visit) listFiles() (any, error) {
	const most = 10_000
	limit, err := v.limit(most, most)
	if err != nil {
		return nil, err
	}
	query := v.r.URL.Query()
	order := query.Get("order")
	if order != "" && order != "asc" && order != "desc" {
		return nil, schema.BadField("order", "value.or", "known", "asc", "last", "desc")
	}
	found, hasMore, err := v.options.Files.List(v.r.Context(), files.Listing{
		Scope: v.scope, Purpose: query.Get("purpose"), After: query.Get("after"), IsAscending: order == "asc",
		Limit: limit,
	})
	if errors.Is(err, files.ErrNotFound) {
		return nil, schema.BadField("after", "value.file_id")
	}
	if err != nil {
		return nil, err
	}
	list := fileList{Object: "list", Data: []fileView{}, HasMore: hasMore}
	for _, f := range found {
		list.Data = append(list.Data, viewFile(f))
	}
	if len(found) > 0 {
		list.FirstID, list.LastID = &found[0].ID, &found[len(found)-1].ID
	}
	return list, nil
}

// getFile answers GET /v1/files/{id}.
func (v *visit) getFile() (any, error) {
	file, err := v.options.Files.Get(v.r.Context(), v.scope, v.r.PathValue("id"))
	return viewFile(file), err
}

// fileContent answers GET /v1/files/{id}/content.
func (v *visit) fileContent() (any, error) {
	file, err := v.options.Files.Get(v.r.Context(), v.scope, v.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	v.w.Header().Set("Content-Disposition",
		mime.FormatMediaType("attachment", map[string]string{"filename": file.Filename}))
	return nil, v.stream(file, "application/octet-stream")
}

// stream sends the content of a file. It returns an error if none of it can be read, and aborts the
// connection if the rest cannot: neither reply looks complete.
func (v *visit) stream(file files.File, mediaType string) error {
	content, err := v.options.Files.Open(file)
	if err == nil {
		defer func() { _ = content.Close() }()
		_, err = content.ReadAt(make([]byte, 1), 0)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		v.w.Header().Del("Content-Disposition")
		return err
	}
	header := v.w.Header()
	header.Set("Content-Type", mediaType)
	header.Set("Content-Length", strconv.FormatInt(content.Size(), 10))
	v.w.WriteHeader(http.StatusOK)
	if n, err := io.Copy(&download{v, time.Now()}, content.From(0)); err != nil || n != content.Size() {
		if v.r.Context().Err() == nil && !errors.As(err, new(*schema.Error)) {
			v.options.Log.Error("a file could not be sent to its end", "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	return nil
}

// askAgain is the time between two checks whether a caller may still have the content that
// is being sent.
const askAgain = time.Second

// download writes a content to its caller while the key is good: a large one takes long, and a
// key may be revoked because somebody has it who should not.
type download struct {
	*visit
	asked time.Time
}

// Write implements io.Writer.
func (d *download) Write(part []byte) (int, error) {
	if now := time.Now(); now.Sub(d.asked) >= askAgain {
		d.asked = now
		if _, refusal := d.options.Keys.IdentifyAgain(d.r.Header,
			web.ClientAddr(d.r, d.options.TrustedProxies)); refusal != nil {
			return 0, refusal
		}
	}
	return d.w.Write(part)
}

// deleteFile answers DELETE /v1/files/{id}.
func (v *visit) deleteFile() (any, error) {
	file, err := v.options.Files.Get(v.r.Context(), v.scope, v.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	isUsed, err := v.options.Engine.Uses(v.r.Context(), v.scope, file.ID)
	if err != nil {
		return nil, err
	}
	if isUsed {
		return nil, schema.CodedError(schema.CodeInvalidValue, "files.needed")
	}
	if err := v.options.Files.Delete(v.r.Context(), file); err != nil {
		return nil, err
	}
	return deletedFile{file.ID, "file", true}, nil
}
