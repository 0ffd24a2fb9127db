package seal

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"time"

	"github.com/go-json-experiment/json"
)

// ManifestName is the name of the last file of an archive, its manifest.
const ManifestName = "manifest.json"

// FromDownload is the source of a download of the management API, whose versions are not signed one by one.
const FromDownload = "download"

// Manifest lists the files of an archive. It is signed with the master key, if there is one.
type Manifest struct {
	Format  int       `json:"format"`
	Made    time.Time `json:"made"`
	Program string    `json:"program,omitzero"`
	// From describes the source of the content; FromDownload is the management API.
	From string `json:"from"`
	// With are the parts that not every archive has.
	With []string `json:"with"`
	// MasterKey is the id of the master key.
	MasterKey string           `json:"masterKey,omitzero"`
	Files     map[string]Entry `json:"files"`
	Signature string           `json:"signature,omitzero"`
}

// Entry is a file of an archive.
type Entry struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// parts returns the signed parts of a manifest.
func (m Manifest) parts() []string {
	m.Signature = ""
	text, _ := json.Marshal(m, json.Deterministic(true)) // texts and numbers only
	return []string{"backup", string(text)}
}

// Verify returns ErrForged unless the manifest was signed with one of the keys, and ErrKey if the
// key of the signature is not among them.
func (m Manifest) Verify(keys *Keys) error { return keys.Verify(m.Signature, m.parts()...) }

// Sums counts and hashes the bytes of a file.
type Sums struct {
	hash.Hash

	Size int64
}

// NewSums returns the sums of an empty file.
func NewSums() *Sums { return &Sums{Hash: sha256.New()} }

// Write adds bytes.
func (s *Sums) Write(p []byte) (int, error) {
	s.Size += int64(len(p))
	return s.Hash.Write(p)
}

// Entry returns the sums as a manifest has them.
func (s *Sums) Entry() Entry { return Entry{s.Size, hex.EncodeToString(s.Sum(nil))} }

// Archive is a zip archive with a manifest that is being written.
type Archive struct {
	Manifest

	zip *zip.Writer
}

// WriteArchive writes an archive, which a function fills, and its manifest last.
func WriteArchive(to io.Writer, keys *Keys, about Manifest, fill func(*Archive) error) error {
	about.Files, about.MasterKey = map[string]Entry{}, keys.ID()
	a := &Archive{about, zip.NewWriter(to)}
	if err := fill(a); err != nil {
		return err
	}
	if keys != nil {
		a.Signature = keys.Sign(a.parts()...)
	}
	if err := a.AddJSON(ManifestName, a.Manifest); err != nil {
		return err
	}
	return a.zip.Close()
}

// Add adds a file, which a function writes. Method is zip.Deflate or zip.Store.
func (a *Archive) Add(name string, method uint16, fill func(io.Writer) error) error {
	out, err := a.zip.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: a.Made})
	if err != nil {
		return err
	}
	sums := NewSums()
	if err := fill(io.MultiWriter(out, sums)); err != nil {
		return err
	}
	a.Files[name] = sums.Entry()
	return nil
}

// AddBytes adds a file with this content.
func (a *Archive) AddBytes(name string, content []byte) error {
	return a.Add(name, zip.Deflate, func(to io.Writer) error {
		_, err := to.Write(content)
		return err
	})
}

// AddJSON adds a value as JSON.
func (a *Archive) AddJSON(name string, value any) error {
	content, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return err
	}
	return a.AddBytes(name, content)
}
