package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// file is a file for browsers, plain and compressed.
type file struct {
	contentType, tag string
	// plain returns the file, and compressed the file as gzip makes it, or nil if it does
	// not become smaller.
	plain, compressed func() []byte
}

// newFile returns a file that is compressed once, when it is first asked for.
func newFile(name string, content []byte) *file {
	return &file{
		contentType: contentTypes(path.Ext(name)), tag: tagOf(content),
		plain:      func() []byte { return content },
		compressed: sync.OnceValue(func() []byte { return compress(content) }),
	}
}

// newPacked returns a file that is stored compressed. Almost every browser takes it so; for
// the others it is unpacked each time.
func newPacked(name string, packed []byte) *file {
	return &file{
		contentType: contentTypes(path.Ext(name)), tag: tagOf(packed),
		plain:      func() []byte { return unpack(packed) },
		compressed: func() []byte { return packed },
	}
}

// tagOf returns the tag of a file. Its two forms have the same one, which is therefore weak.
func tagOf(content []byte) string {
	sum := sha256.Sum256(content)
	return `W/"` + hex.EncodeToString(sum[:8]) + `"`
}

func contentTypes(extension string) string {
	switch extension {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

func compress(content []byte) []byte {
	var compressed bytes.Buffer
	to, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err == nil {
		_, err = to.Write(content)
	}
	if err == nil {
		err = to.Close()
	}
	if err != nil || compressed.Len() >= len(content) {
		return nil // memory does not fail to be written to; small files do grow
	}
	return slices.Clip(compressed.Bytes())
}

// unpack is the reverse of compress.
func unpack(packed []byte) []byte {
	from, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil
	}
	content, err := io.ReadAll(from)
	if err != nil {
		return nil // the files are part of the program, and its tests read them all
	}
	return content
}

// send answers with the file, in the form that the client understands.
func (f *file) send(w http.ResponseWriter, r *http.Request, status int) {
	header := w.Header()
	header.Add("Vary", "Accept-Encoding")
	if status == http.StatusOK {
		header.Set("Etag", f.tag)
		if slices.Contains(listed(r.Header.Values("If-None-Match")), f.tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	var body []byte
	if slices.Contains(listed(r.Header.Values("Accept-Encoding")), "gzip") {
		if body = f.compressed(); body != nil {
			header.Set("Content-Encoding", "gzip")
		}
	}
	if body == nil {
		body = f.plain()
	}
	header.Set("Content-Type", f.contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left does not need it
}

// listed returns the members of a header that is a list. One with a quality,
// which no browser gives to gzip, is not the plain member.
func listed(values []string) []string {
	members := strings.Split(strings.Join(values, ","), ",")
	for i, member := range members {
		members[i] = strings.TrimSpace(member)
	}
	return members
}
