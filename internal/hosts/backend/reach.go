package backend

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// ProxyNone is the proxy setting of an instance that is reached directly, whatever
// the environment says.
const ProxyNone = "none"

// TLS are the TLS settings of an instance. The files are read whenever a
// configuration comes into force.
type TLS struct {
	// CA is a file with the certificates that are trusted in place of the system's.
	CA string `json:"ca" doc:"A file on the gateway's machine."`
	// Cert and Key are files with the gateway's own certificate and its key.
	Cert string `json:"cert" doc:"A file on the gateway's machine, which needs a key."`
	Key  string `json:"key" doc:"A file on the gateway's machine, which needs a cert."`
	// ServerName is the name for which the backend's certificate must be valid, where
	// that is not the host of the base URL.
	ServerName string `json:"serverName"`
}

// maxTLSFile is larger than any bundle of authorities.
const maxTLSFile = 4 << 20

// readTLSFile reads a file of the settings. Its errors never contain the content.
func readTLSFile(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", say.Error("field.no_file", "file", name)
	case err != nil:
		return "", say.Error("field.file_unreadable")
	case !info.Mode().IsRegular() || info.Size() > maxTLSFile:
		return "", say.Error("field.no_certificates")
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "", say.Error("field.file_unreadable")
	}
	return string(data), nil
}

// load reads the files.
func (t TLS) load(report say.Report) transport.Route {
	route := transport.Route{ServerName: t.ServerName}
	for _, file := range []struct {
		path, name string
		to         *string
	}{{"tls.ca", t.CA, &route.CA}, {"tls.cert", t.Cert, &route.Certificate}, {"tls.key", t.Key, &route.Key}} {
		text, err := readTLSFile(file.name)
		if err != nil {
			report(file.path, say.From(err))
			continue
		}
		if file.name != "" && text == "" {
			report(file.path, say.New("field.file_empty"))
		}
		*file.to = text
	}
	return route
}

// checkReach reports faults in the settings of how the instance is reached. The
// messages hold no address: the address of a proxy may hold a password.
func (s Settings) checkReach(report say.Report) {
	if s.Proxy != "" && s.Proxy != ProxyNone {
		if err := transport.CheckProxy(s.Proxy); err != nil {
			report("proxy", say.New("field.proxy", "why", err.Error()))
		}
	}
	if s.IdleConnections < 0 {
		report("idleConnections", say.New("field.idle_connections"))
	}
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		report("tls", say.New("field.tls_pair"))
		return
	}
	if s.TLS == (TLS{}) {
		return
	}
	if !strings.HasPrefix(strings.ToLower(s.BaseURL), "https://") {
		report("tls", say.New("field.tls_unused"))
		return
	}
	fine := true
	route := s.TLS.load(func(path string, fault say.Sentence) {
		fine = false
		report(path, fault)
	})
	if !fine {
		return
	}
	if _, err := new(transport.Origin).Via(route); err != nil {
		report("tls", say.From(err))
	}
}

// origin returns where the calls of an instance go, and how.
func (s Settings) origin(kind *dialect.Kind, environment transport.Proxies) (transport.Origin, error) {
	origin, err := transport.ParseOrigin(s.BaseURL)
	if err != nil {
		return origin, fmt.Errorf("base address: %w", err)
	}
	var faults error
	route := s.TLS.load(func(path string, fault say.Sentence) {
		faults = errors.Join(faults, fault.About(path).Err())
	})
	if faults != nil {
		return origin, faults
	}
	switch s.Proxy {
	case "":
		route.Proxy = environment.For(s.BaseURL)
	case ProxyNone:
	default:
		route.Proxy = s.Proxy
	}
	route.MaxIdle = s.IdleConnections
	if keep := s.KeepAlive; keep == nil && kind.NoKeepAlive && s.IdleConnections == 0 || keep != nil && !*keep {
		route.MaxIdle = -1
	}
	return origin.Via(route)
}
