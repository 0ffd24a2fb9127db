package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The image is written as the specification of the Open Container Initiative has it: no
// container engine is needed, and the same commit gives the same digest. It holds the
// binary that is released, the certificates of the public authorities, the licences, and
// nothing else.

const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// user is the user id of the gateway within its container: an id without a name.
const user = 65532

// largest bounds an image, in bytes.
const largest = 40_000_000

// descriptor identifies a blob and its type.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *imagePlatform    `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type imagePlatform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// index lists manifests, or the manifests of one image for several platforms.
type index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type imageManifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// imageConfig says how a container of the image is started.
type imageConfig struct {
	Created      time.Time        `json:"created"`
	Architecture string           `json:"architecture"`
	OS           string           `json:"os"`
	Config       containerConfig  `json:"config"`
	RootFS       rootFS           `json:"rootfs"`
	History      []map[string]any `json:"history"`
}

type containerConfig struct {
	User         string
	ExposedPorts map[string]struct{}
	Env          []string
	Entrypoint   []string
	Cmd          []string
	Volumes      map[string]struct{}
	WorkingDir   string
	Labels       map[string]string
	Healthcheck  healthcheck
}

// healthcheck is how Docker sees whether the gateway is well; times are in nanoseconds.
type healthcheck struct {
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// blobs are the parts of images by their digests.
type blobs map[string][]byte

func (b blobs) add(mediaType string, content []byte) descriptor {
	digest := digestOf(content)
	b[digest] = content
	return descriptor{MediaType: mediaType, Digest: digest, Size: len(content)}
}

func (b blobs) addJSON(mediaType string, value any) (descriptor, error) {
	content, err := json.Marshal(value)
	return b.add(mediaType, content), err
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// annotations describe an image and its origin.
func (r *release) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "Patchbay",
		"org.opencontainers.image.description": "An OpenAI-compatible gateway in front of AI backends",
		"org.opencontainers.image.version":     r.plainVersion(),
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.created":     r.date.Format(time.RFC3339),
		"org.opencontainers.image.source":      r.home(),
		"org.opencontainers.image.url":         r.home(),
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

// tags returns the tags of the image. Only a release gets the tag for people who name no
// version.
func (r *release) tags() []string {
	if r.isRelease() {
		return []string{r.plainVersion(), "latest"}
	}
	return []string{r.plainVersion()}
}

// addImage adds the image for an architecture to the blobs.
func (r *release) addImage(to blobs, arch string, binary []byte, documents []file) (descriptor, error) {
	layer, err := r.layer(binary, documents)
	if err != nil {
		return descriptor{}, err
	}
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return descriptor{}, err
	}
	if _, err := w.Write(layer); err != nil {
		return descriptor{}, err
	}
	if err := w.Close(); err != nil {
		return descriptor{}, err
	}
	config, err := to.addJSON(mediaConfig, imageConfig{
		Created: r.date, Architecture: arch, OS: "linux",
		Config: containerConfig{
			User: fmt.Sprintf("%d:%d", user, user), WorkingDir: "/",
			Env:        []string{"PATCHBAY_SERVER_LISTEN=0.0.0.0:8080", "PATCHBAY_SERVER_DATA_DIR=/data", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
			Entrypoint: []string{"/patchbay"}, Cmd: []string{"serve"},
			ExposedPorts: map[string]struct{}{"8080/tcp": {}}, Volumes: map[string]struct{}{"/data": {}, "/tmp": {}},
			Labels:      r.annotations(),
			Healthcheck: healthcheck{[]string{"CMD", "/patchbay", "healthcheck"}, 10 * time.Second, 5 * time.Second, 10 * time.Second},
		},
		RootFS:  rootFS{"layers", []string{digestOf(layer)}},
		History: []map[string]any{{"created": r.date, "created_by": "deploy/dist"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	manifest, err := to.addJSON(mediaManifest, imageManifest{
		SchemaVersion: 2, MediaType: mediaManifest, Config: config,
		Layers: []descriptor{to.add(mediaLayer, compressed.Bytes())}, Annotations: r.annotations(),
	})
	manifest.Platform = &imagePlatform{arch, "linux"}
	return manifest, err
}

// layer returns the files of the image as an archive that is not compressed.
func (r *release) layer(binary []byte, documents []file) ([]byte, error) {
	var b bytes.Buffer
	archive := tar.NewWriter(&b)
	var failed error
	add := func(head tar.Header, content []byte) {
		head.ModTime, head.Format, head.Size = r.date, tar.FormatPAX, int64(len(content))
		if failed == nil {
			failed = archive.WriteHeader(&head)
		}
		if failed == nil {
			_, failed = archive.Write(content)
		}
	}
	directory := func(name string, mode int64, owner int) {
		add(tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: owner, Gid: owner}, nil)
	}
	regular := func(name string, mode int64, content []byte) {
		add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}, content)
	}
	directory("data/", 0o700, user)
	for _, name := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		directory(name, 0o755, 0)
	}
	regular("etc/ssl/certs/ca-certificates.crt", 0o644, authorities())
	directory("licenses/", 0o755, 0)
	for _, f := range documents {
		if f.name == "LICENSE" || f.name == thirdParty {
			regular("licenses/"+f.name, 0o644, f.content)
		}
	}
	regular("patchbay", 0o755, binary)
	directory("tmp/", 0o1777, 0)
	if failed != nil {
		return nil, failed
	}
	err := archive.Close()
	return b.Bytes(), err
}

// authorities returns the certificates of the authorities that Mozilla trusts without
// conditions. A list cannot express conditions, and authorities with conditions are on
// their way out.
func authorities() []byte {
	var b bytes.Buffer
	b.WriteString("# The authorities that Mozilla trusts (https://wiki.mozilla.org/CA), under the Mozilla Public License 2.0,\n# from golang.org/x/crypto/x509roots/fallback.\n")
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}

// writeImage writes the image for an architecture as an archive that `docker load` and
// `podman load` read, without a registry.
func (r *release) writeImage(of blobs, manifest descriptor) error {
	var parsed imageManifest
	if err := json.Unmarshal(of[manifest.Digest], &parsed); err != nil {
		return err
	}
	name := r.image() + ":" + r.plainVersion()
	manifest.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": r.plainVersion()}
	list, err := json.Marshal(index{SchemaVersion: 2, MediaType: mediaIndex, Manifests: []descriptor{manifest}})
	if err != nil {
		return err
	}
	forDocker, err := json.Marshal([]map[string]any{{
		"Config": blobPath(parsed.Config.Digest), "Layers": []string{blobPath(parsed.Layers[0].Digest)}, "RepoTags": []string{name},
	}})
	if err != nil {
		return err
	}
	files := []file{{"index.json", list, 0o644}, {"manifest.json", forDocker, 0o644}, {"oci-layout", []byte(layoutVersion), 0o644}}
	for _, digest := range []string{manifest.Digest, parsed.Config.Digest, parsed.Layers[0].Digest} {
		files = append(files, file{blobPath(digest), of[digest], 0o644})
	}
	sortFiles(files)
	var b bytes.Buffer
	if err := r.tarOf(&b, "", files); err != nil {
		return err
	}
	if b.Len() >= largest {
		return fmt.Errorf("the image has %d bytes, and %d are too many", b.Len(), largest)
	}
	return os.WriteFile(filepath.Join(r.out, fmt.Sprintf("patchbay_%s_image_%s.tar", r.plainVersion(), manifest.Platform.Architecture)), b.Bytes(), 0o644)
}

const layoutVersion = `{"imageLayoutVersion":"1.0.0"}`

func blobPath(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

// writeLayout writes the image for all architectures as a directory. From there it is
// copied to a registry under each of its tags.
func (r *release) writeLayout(of blobs, manifests []descriptor) error {
	all, err := of.addJSON(mediaIndex, index{SchemaVersion: 2, MediaType: mediaIndex, Manifests: manifests, Annotations: r.annotations()})
	if err != nil {
		return err
	}
	list := index{SchemaVersion: 2, MediaType: mediaIndex}
	for _, tag := range r.tags() {
		tagged := all
		tagged.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag}
		list.Manifests = append(list.Manifests, tagged)
	}
	content, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(r.layout); err != nil {
		return err
	}
	files := map[string][]byte{"index.json": content, "oci-layout": []byte(layoutVersion)}
	for digest, blob := range of {
		files[blobPath(digest)] = blob
	}
	for name, content := range files {
		path := filepath.Join(r.layout, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
