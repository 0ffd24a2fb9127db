package manage

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

const (
	mediaYAML = "application/yaml"
	mediaZIP  = "application/zip"
)

// send answers with a document as it is, without the envelope. name is the file name for
// saving it in a browser; it is empty where the browser shows the document.
func send(c *web.Call, media, name string, content []byte) {
	c.Instead = func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", media)
		if name != "" {
			w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		}
		// Writing fails if the client has left, which needs no handling.
		_, _ = w.Write(content)
	}
}

// wantsYAML reports whether the caller asks for the services as a configuration file.
func wantsYAML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), mediaYAML) }

// sendFile answers with services as a configuration file has them, with their secrets masked
// for callers who may not see them. References stay as they were written.
func sendFile(c *web.Call, services map[schema.ServiceType]config.Service) error {
	shown := make(map[schema.ServiceType]config.Service, len(services))
	for serviceType, service := range services {
		instances := make([]backend.Settings, len(service.Instances))
		for i := range service.Instances {
			instances[i] = settings.Clone(service.Instances[i])
			if !c.Who.SeesSecrets {
				maskLiterals(&instances[i])
			}
		}
		service.Instances = instances
		shown[serviceType] = service
	}
	content, err := config.WriteServices(shown)
	send(c, mediaYAML, "", content)
	return err
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

// backupQuery chooses the content of a download of the versions.
type backupQuery struct {
	Secrets web.Switch `json:"secrets" doc:"With the keys of the backends, and issued keys and tokens, for ADMIN."`
}

// downloadBackup sends all versions, one file each.
func (a *API) downloadBackup(c *web.Call, q *backupQuery) (none any, err error) {
	if bool(q.Secrets) && !c.Who.SeesSecrets {
		return nil, web.BadInput("secrets", "field.secrets_admin")
	}
	reader := c.Who
	reader.SeesSecrets = bool(q.Secrets)
	var archive bytes.Buffer
	err = a.archive(&archive, reader)
	send(c, mediaZIP, "patchbay-versions-"+time.Now().UTC().Format("20060102T150405Z")+".zip", archive.Bytes())
	return nil, err
}

// exportQuery chooses the content of an export.
type exportQuery struct {
	Secrets web.Switch `json:"secrets" doc:"With literal secrets in place of variables, for ADMIN."`
}

// exportFile sends the configuration in force as a configuration file.
func (a *API) exportFile(c *web.Call, q *exportQuery) (none any, err error) {
	if bool(q.Secrets) && !c.Who.SeesSecrets {
		return nil, web.BadInput("secrets", "field.secrets_admin")
	}
	doc, _ := a.options.Control.Document()
	content, err := doc.Write(bool(q.Secrets))
	send(c, mediaYAML, "", content)
	return nil, err
}

// archivedVersion is a version in an archive for readers who do not see secrets.
type archivedVersion struct {
	versionView
	Terms    *access.TermSet `json:"terms,omitzero"`
	Settings config.Managed  `json:"settings,omitzero"`
}

// archive writes all versions to a ZIP archive, as the reader may see them. For a reader who sees
// secrets it is a backup of the configuration, with the issued keys and tokens. It is signed with the
// master key, so that a restore can rely on it, unless there is a doubt about a version: a restore would
// take it away.
func (a *API) archive(to *bytes.Buffer, reader access.Identity) error {
	// The head is read first: others may change the configuration while its versions are read.
	head := versions.Head{Version: a.options.Control.Version(), Activations: a.options.Control.Activations()}
	numbers, err := a.options.Control.Versions()
	if err != nil {
		return err
	}
	about := seal.Manifest{Format: 1, Made: time.Now().UTC().Truncate(time.Second), From: seal.FromDownload}
	keys := a.options.Credentials.MasterKeys()
	loaded := make([]*versions.Version, 0, len(numbers))
	for _, number := range numbers {
		v, err := a.options.Control.Load(number)
		if errors.Is(err, versions.ErrNoVersion) {
			continue // it was deleted after the numbers were listed
		}
		if err != nil {
			return err
		}
		if loaded = append(loaded, v); v.IsDoubted() {
			keys = nil
		}
	}
	return seal.WriteArchive(to, keys, about, func(files *seal.Archive) error {
		add := func(name string, value any) error {
			content, err := web.Encode(value)
			if err != nil {
				return err
			}
			return files.AddBytes(name, content)
		}
		for _, v := range loaded {
			var content any = v
			if !reader.SeesSecrets {
				view := archivedVersion{a.viewVersion(a.options.Control.AboutOf(v)), v.Terms, v.Settings.Masked()}
				view.Config = &configView{Services: viewServices(v.Services, reader)}
				content = view
			}
			head.Newest = v.Number
			if err := add(fmt.Sprintf("versions/%08d.json", v.Number), content); err != nil {
				return err
			}
		}
		if !reader.SeesSecrets {
			return nil
		}
		return errors.Join(add("versions/current.json", head), add("values.json", a.options.Credentials.Stored()))
	})
}
