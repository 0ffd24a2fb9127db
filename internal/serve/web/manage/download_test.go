package manage_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const secretsYAML = "api-key: secret-key-1234, headers: {X-Token: '${NO_SUCH_VARIABLE:sk-default}'}, weight: 3"

func admin() []string    { return []string{"Authorization", "Bearer admin-token"} }
func operator() []string { return []string{"Authorization", "Bearer operator-token"} }

// Where Accept names YAML, services are shown as a configuration file has them: an
// ADMIN can load what is shown.
func TestServicesAsAConfigurationFile(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL, secretsYAML))+gatewaytest.SecuredYAML())
	for _, path := range []string{gatewaytest.TypesPath + "chat", gatewaytest.VersionsPath + "/1"} {
		whole := r.Do("GET", path, "", append(admin(), "Accept", "application/yaml")...).Succeeds(t)
		if media := whole.Header.Get("Content-Type"); media != "application/yaml" {
			t.Errorf("%s has type %s", path, media)
		}
		doc, err := config.Load(config.Source{Content: []byte(whole.Body)})
		if err != nil {
			t.Fatalf("%s: %v\n%s", path, err, whole.Body)
		}
		if !settings.Equal(doc.Document.Services, r.Document.Services) {
			t.Errorf("%s shows\n%s", path, whole.Body)
		}
		masked := r.Do("GET", path, "", append(operator(), "Accept", "application/yaml")...).Succeeds(t)
		gatewaytest.ContainsNone(t, masked.Body, "secret-key", "sk-default")
		if !strings.Contains(masked.Body, "weight: 3") {
			t.Errorf("%s shows an operator\n%s", path, masked.Body)
		}
	}
}

// All versions can be downloaded. Keys of backends are in it only where an ADMIN wants
// them.
func TestVersionsAsAnArchive(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL, secretsYAML))+gatewaytest.SecuredYAML())
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"random"}`, admin()...).Is(t, 200)
	read := func(query string, as []string) string {
		t.Helper()
		reply := r.Do("GET", "/api/config/backup"+query, "", as...).Succeeds(t)
		if got := reply.Header.Get("Content-Disposition"); !strings.HasPrefix(got, `attachment; filename="patchbay-versions-`) {
			t.Errorf("saved as %s", got)
		}
		archive, err := zip.NewReader(strings.NewReader(reply.Body), int64(len(reply.Body)))
		if err != nil {
			t.Fatal(err)
		}
		var all bytes.Buffer
		for _, file := range archive.File {
			content, err := file.Open()
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(file.Name + "\n")
			if _, err := io.Copy(&all, content); err != nil {
				t.Error(err)
			}
		}
		return all.String()
	}
	masked := read("", admin())
	gatewaytest.ContainsNone(t, masked, "secret-key", "sk-default")
	for _, want := range []string{"versions/00000001.json", "versions/00000002.json", `"weight":3`} {
		if !strings.Contains(masked, want) {
			t.Errorf("no %s in %s", want, masked)
		}
	}
	if whole := read("?secrets=true", admin()); strings.Count(whole, "secret-key-1234") != 2 {
		t.Errorf("an ADMIN downloads %s", whole)
	}
	r.API("GET", "/api/config/backup?secrets=true", "", operator()...).Is(t, 400, "ADMIN")
}

func TestDownloadsOfAllVersionsAreAudited(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	r.Do("GET", "/api/config/backup?secrets=true", "", "Authorization", "Bearer admin-token").Succeeds(t)
	r.Do("GET", "/api/config/backup?secrets=true", "", "Authorization", "Bearer viewer-token")
	for _, line := range []string{
		`"msg":"management read","who":"a","role":"ADMIN","from":"127.0.0.1","what":"GET /api/config/backup","path":"/api/config/backup","status":200`,
		`"msg":"management read","who":"v","role":"VIEWER","from":"127.0.0.1","what":"GET /api/config/backup","path":"/api/config/backup","status":400`,
	} {
		gatewaytest.Eventually(t, "the audit log has "+line, func() bool { return strings.Contains(r.Logs.String(), line) })
	}
}

// A download has the version that it names as the current one, also if others are made meanwhile.
func TestADownloadHasItsCurrentVersion(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL, secretsYAML))+gatewaytest.SecuredYAML())
	var changes sync.WaitGroup
	defer changes.Wait()
	isOver := make(chan struct{})
	defer close(isOver)
	changes.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-isOver:
				return
			default:
				r.Do("PUT", gatewaytest.TypesPath+"chat", []string{`{"loadBalancer":"random"}`, `{"loadBalancer":"round-robin"}`}[n%2], admin()...)
			}
		}
	})
	for range 40 {
		reply := r.Do("GET", "/api/config/backup?secrets=true", "", admin()...).Succeeds(t)
		archive, err := zip.NewReader(strings.NewReader(reply.Body), int64(len(reply.Body)))
		if err != nil {
			t.Fatal(err)
		}
		file, err := archive.Open("versions/current.json")
		if err != nil {
			t.Fatal(err)
		}
		var head struct {
			Version int `json:"version"`
		}
		if err := json.UnmarshalRead(file, &head); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Open(fmt.Sprintf("versions/%08d.json", head.Version)); err != nil || head.Version == 0 {
			t.Fatalf("the current version %d: %v", head.Version, err)
		}
	}
}
