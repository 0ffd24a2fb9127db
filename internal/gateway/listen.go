package gateway

import (
	"fmt"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/config"
)

// UnsafeError says that a gateway without security would be open to other
// machines by accident.
type UnsafeError struct{ Listen string }

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("refusing to listen on %s without security: anyone who reaches it could use and change "+
		"everything. "+
		"Set security.enabled: true with tokens and keys, or listen on 127.0.0.1, or accept the risk with "+
		"security.allow-open: true", e.Listen)
}

// CheckListen returns an *UnsafeError for a configuration that New refuses to
// listen with.
func CheckListen(doc *config.Document) error {
	if doc.Security.Enabled || doc.Security.AllowOpen {
		return nil
	}
	for _, address := range slices.Concat(doc.Server.Listen, doc.Server.ManagementListen, doc.Server.OllamaListen) {
		if !listen.IsLoopback(address) {
			return &UnsafeError{address}
		}
	}
	return nil
}

// OpenAddresses returns the addresses of the unified API that other machines can reach.
func OpenAddresses(doc *config.Document) []string {
	return slices.DeleteFunc(slices.Concat([]string(doc.Server.Listen), doc.Server.OllamaListen), listen.IsLoopback)
}

// listen opens the ports. Nothing is accepted there before Start.
func (g *Gateway) listen(opened *cleanups) (err error) {
	if g.Document.Server.TLS.Enabled() {
		if g.certificates, err = listen.LoadCertificates(g.Document.Server.TLS, g.log); err != nil {
			return fmt.Errorf("server.tls: %w", err)
		}
	}
	serves := everything
	if len(g.Document.Server.ManagementListen) > 0 {
		serves = onlyUnified
	}
	for _, address := range g.Document.Server.Listen {
		if err := g.listenOn(address, serves, opened); err != nil {
			return err
		}
	}
	for _, address := range g.Document.Server.ManagementListen {
		if err := g.listenOn(address, onlyManagement, opened); err != nil {
			return err
		}
	}
	for _, address := range g.Document.Server.OllamaListen {
		if err := g.listenOn(address, onlyOllama, opened); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gateway) listenOn(address string, serves portion, opened *cleanups) error {
	port, err := openPort(address, g.certificates, g.log)
	if err != nil {
		return err
	}
	port.serves = serves
	opened.add(func() { _ = port.Listener.Close() })
	g.Ports = append(g.Ports, port)
	return nil
}
