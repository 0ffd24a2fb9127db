package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// file is a file of the console, plain and compressed.
type file struct {
	contentType, tag string
	plain            []byte
	// compressed returns the file as gzip makes it, which it does once, when the
	// file is first asked for.
	compressed func() []byte
}

func newFile(name string, content []byte) *file {
	sum := sha256.Sum256(content)
	return &file{
		contentType: contentTypes(path.Ext(name)),
		// The two forms have the same tag, which is therefore a weak one.
		tag:        `W/"` + hex.EncodeToString(sum[:8]) + `"`,
		plain:      content,
		compressed: sync.OnceValue(func() []byte { return compress(content) }),
	}
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

// send answers with the file, in the form that the client understands.
func (f *file) send(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Add("Vary", "Accept-Encoding")
	header.Set("Etag", f.tag)
	if slices.Contains(listed(r.Header.Values("If-None-Match")), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if slices.Contains(listed(r.Header.Values("Accept-Encoding")), "gzip") {
		if compressed := f.compressed(); compressed != nil {
			header.Set("Content-Encoding", "gzip")
			body = compressed
		}
	}
	header.Set("Content-Type", f.contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
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
