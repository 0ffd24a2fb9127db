package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packaged makes the packages of two architectures, with a text in place of the binary.
func packaged(t *testing.T, r *release) {
	t.Helper()
	images, manifests := blobs{}, []descriptor(nil)
	for _, arch := range []string{"amd64", "arm64"} {
		built := product{[]byte("binary for " + arch), []file{{"LICENSE", []byte("licence"), 0o644}, {thirdParty, []byte("notices"), 0o644}}}
		if err := r.packageFor(arch, built, images, &manifests); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.writeLayout(images, manifests); err != nil {
		t.Fatal(err)
	}
}

// entriesOf returns the files of an archive, and their heads.
func entriesOf(t *testing.T, from io.Reader) (map[string]string, map[string]*tar.Header) {
	t.Helper()
	contents, heads := map[string]string{}, map[string]*tar.Header{}
	archive := tar.NewReader(from)
	for {
		head, err := archive.Next()
		if err == io.EOF {
			return contents, heads
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		contents[head.Name], heads[head.Name] = string(content), head
	}
}

// The archive that `docker load` reads has the name that compose files and chart run, the
// binary of its architecture, and a gateway that is nobody and owns its data.
func TestTheImageThatIsLoaded(t *testing.T) {
	r := sample(t)
	packaged(t, r)
	archive, err := os.Open(filepath.Join(r.out, "patchbay_1.2.3_image_arm64.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files, _ := entriesOf(t, archive)
	for name, content := range files {
		if digest, isBlob := strings.CutPrefix(name, "blobs/sha256/"); isBlob && digest != "" && digestOf([]byte(content)) != "sha256:"+digest {
			t.Errorf("%s has another content", name)
		}
	}
	var images []struct {
		Config           string
		RepoTags, Layers []string
	}
	decode(t, files["manifest.json"], &images)
	if len(images) != 1 || !slices.Equal(images[0].RepoTags, []string{"ghcr.io/patchbay-ai/patchbay:1.2.3"}) {
		t.Fatalf("%+v", images)
	}
	var config imageConfig
	decode(t, files[images[0].Config], &config)
	if config.Architecture != "arm64" || config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/patchbay" || !slices.Contains(config.Config.Env, "PATCHBAY_SERVER_DATA_DIR=/data") {
		t.Errorf("%+v", config)
	}
	unpacked, err := gzip.NewReader(strings.NewReader(files[images[0].Layers[0]]))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(unpacked)
	if err != nil || config.RootFS.DiffIDs[0] != digestOf(layer) {
		t.Errorf("the layer is another one: %v", err)
	}
	contents, heads := entriesOf(t, bytes.NewReader(layer))
	if contents["patchbay"] != "binary for arm64" || heads["patchbay"].Mode != 0o755 || heads["patchbay"].Uid != 0 {
		t.Errorf("the binary: %+v", heads["patchbay"])
	}
	if data := heads["data/"]; data.Uid != user || data.Gid != user || data.Mode != 0o700 {
		t.Errorf("the data directory: %+v", data)
	}
	if temporary := heads["tmp/"]; temporary.Mode != 0o1777 {
		t.Errorf("the directory of uploads: %+v", temporary)
	}
	if contents["licenses/LICENSE"] != "licence" || contents["licenses/THIRD_PARTY_LICENSES.txt"] != "notices" {
		t.Error("the image has no licences")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(contents["etc/ssl/certs/ca-certificates.crt"])) {
		t.Error("the image trusts nobody")
	}
}

func decode(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
}

// What is copied to a registry is one image for both architectures, with the manifests of
// the archives, under the tags of the version.
func TestTheImageThatIsPushed(t *testing.T) {
	for version, tags := range map[string][]string{
		"v1.2.3": {"1.2.3", "latest"}, "v1.2.3-rc.1": {"1.2.3-rc.1"}, "v1.2.3-4-gabc": {"1.2.3-4-gabc"}, "abc": {"abc"},
	} {
		r := sample(t)
		r.version = version
		packaged(t, r)
		read := func(name string) string {
			content, err := os.ReadFile(filepath.Join(r.layout, name))
			if err != nil {
				t.Fatal(err)
			}
			return string(content)
		}
		var list, all index
		decode(t, read("index.json"), &list)
		var got []string
		for _, m := range list.Manifests {
			got = append(got, m.Annotations["org.opencontainers.image.ref.name"])
			decode(t, read(blobPath(m.Digest)), &all)
		}
		if !slices.Equal(got, tags) {
			t.Errorf("%s has the tags %q, want %q", version, got, tags)
		}
		var architectures []string
		for _, m := range all.Manifests {
			architectures = append(architectures, m.Platform.Architecture)
			if content := read(blobPath(m.Digest)); digestOf([]byte(content)) != m.Digest {
				t.Errorf("the manifest of %s is another one", m.Platform.Architecture)
			}
		}
		if !slices.Equal(architectures, []string{"amd64", "arm64"}) {
			t.Errorf("%s is for %q", version, architectures)
		}
	}
}
