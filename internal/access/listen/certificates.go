package listen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
)

// lookEvery is the interval for looking at the files of certificates. The gateway reads and
// compares them, because the ways to replace files (renaming, links of Kubernetes' secrets,
// network disks) announce it differently or not at all.
const lookEvery = 5 * time.Second

// Certificates are the certificates for encrypted connections. They follow the files that the
// settings name.
type Certificates struct {
	settings TLS
	log      *slog.Logger
	current  atomic.Pointer[tls.Config]

	mu    sync.Mutex
	tried pemFiles // the contents that were last put into force or refused
	fault string   // why the files could not be read when they were last looked at
}

// LoadCertificates reads the files for the first time.
func LoadCertificates(settings TLS, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{settings: settings, log: log}
	files, err := settings.read()
	if err != nil {
		return nil, err
	}
	config, err := files.config()
	if err != nil {
		return nil, err
	}
	c.tried = files
	c.current.Store(config)
	c.warnIfExpired(config)
	return c, nil
}

// Run looks at the files now and then until the context ends.
func (c *Certificates) Run(ctx context.Context) {
	waiting.Every(ctx, lookEvery, func(time.Time) { c.Reload() })
}

// Reload reads the files if they have changed. Connections that are set up from now on
// use them; a certificate and a key that are not a pair, or files that cannot be read,
// change nothing, and the log says so once.
func (c *Certificates) Reload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	files, err := c.settings.read()
	if err != nil {
		if c.fault != err.Error() {
			c.fault = err.Error()
			c.log.Error("the files of server.tls cannot be read; the certificate that is in use stays", "error", err)
		}
		return
	}
	c.fault = ""
	if files == c.tried {
		return
	}
	c.tried = files
	config, err := files.config()
	if err != nil {
		c.log.Error("the files of server.tls changed and cannot be used; the certificate that is in use stays",
			"error", err)
		return
	}
	c.current.Store(config)
	c.log.Info("the files of server.tls changed; new connections use them",
		"valid_until", config.Certificates[0].Leaf.NotAfter)
	c.warnIfExpired(config)
}

func (c *Certificates) warnIfExpired(config *tls.Config) {
	if leaf := config.Certificates[0].Leaf; time.Now().After(leaf.NotAfter) {
		c.log.Warn("the certificate of server.tls has expired; clients will refuse it", "expired", leaf.NotAfter)
	}
}

// Leaf returns the certificate that the gateway shows.
func (c *Certificates) Leaf() *x509.Certificate { return c.current.Load().Certificates[0].Leaf }

// config returns settings of crypto/tls that follow the files.
func (c *Certificates) config() *tls.Config {
	following := c.current.Load().Clone()
	following.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil }
	return following
}
