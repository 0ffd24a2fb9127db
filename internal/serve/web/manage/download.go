package manage

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/config/settings"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

const (
	mediaYAML = "application/yaml"
	mediaZIP  = "application/zip"
)

// document is a reply that is sent as it is, without the envelope.
type document struct {
	media string
	// name is that of the file in which a browser saves the document; empty where it
	// is shown.
	name    string
	content []byte
}

func (d *document) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", d.media)
	if d.name != "" {
		w.Header().Set("Content-Disposition", `attachment; filename="`+d.name+`"`)
	}
	// Writing fails if the client has left, which needs no handling.
	_, _ = w.Write(d.content)
}

// wantsYAML tells whether the caller asks for the services as a configuration file.
func wantsYAML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), mediaYAML) }

// asFile returns services as a configuration file has them, with their secrets masked
// for callers who may not see them. References stay as they were written.
func asFile(services map[schema.ServiceType]config.Service, who access.Identity) (*document, error) {
	shown := make(map[schema.ServiceType]config.Service, len(services))
	for serviceType, service := range services {
		instances := make([]backend.Settings, len(service.Instances))
		for i := range service.Instances {
			instances[i] = settings.Clone(service.Instances[i])
			if !who.SeesSecrets {
				maskLiterals(&instances[i])
			}
		}
		service.Instances = instances
		shown[serviceType] = service
	}
	content, err := config.WriteServices(shown)
	return &document{media: mediaYAML, content: content}, err
}

func maskLiterals(s *backend.Settings) {
	s.Proxy = transport.MaskedProxy(s.Proxy)
	masked := func(secret backend.Secret) backend.Secret {
		if secret.IsEmpty() {
			return secret
		}
		return backend.Literal(secret.Masked())
	}
	s.APIKey = masked(s.APIKey)
	for name, value := range s.Headers {
		s.Headers[name] = masked(value)
	}
}

// backupQuery says what a download of the versions contains.
type backupQuery struct {
	Secrets web.Switch `json:"secrets" doc:"With the keys of the backends, which only ADMIN may see; they are masked otherwise."`
}

// DownloadBackup answers GET /api/config/backup: all versions, one file each.
func (a *API) DownloadBackup(q *Request) (Reply, error) {
	revealed, err := flag(q.Request, "secrets")
	if err != nil {
		return Reply{}, err
	}
	if revealed && !q.who.SeesSecrets {
		return Reply{}, invalidField("secrets", "only ADMIN may see the keys of the backends")
	}
	reader := q.who
	reader.SeesSecrets = revealed
	var archive bytes.Buffer
	if err := a.archive(&archive, reader); err != nil {
		return Reply{}, err
	}
	name := "patchbay-versions-" + time.Now().UTC().Format("20060102T150405Z") + ".zip"
	return Reply{document: &document{media: mediaZIP, name: name, content: archive.Bytes()}}, nil
}

// archive writes all versions to a ZIP archive, as the reader may see them.
func (a *API) archive(to *bytes.Buffer, reader access.Identity) error {
	numbers, err := a.options.Control.Versions()
	if err != nil {
		return err
	}
	files := zip.NewWriter(to)
	for _, number := range numbers {
		v, err := a.options.Control.Load(number)
		if errors.Is(err, versions.ErrNoVersion) {
			continue // it was deleted after the numbers were listed
		}
		if err != nil {
			return err
		}
		view := a.viewVersion(a.options.Control.AboutOf(v))
		view.Config = &configView{Services: viewServices(v.Services, reader)}
		content, err := web.Encode(view)
		if err != nil {
			return err
		}
		file, err := files.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("versions/%08d.json", number), Method: zip.Deflate, Modified: v.CreatedAt})
		if err != nil {
			return err
		}
		if _, err := file.Write(content); err != nil {
			return err
		}
	}
	return files.Close()
}
