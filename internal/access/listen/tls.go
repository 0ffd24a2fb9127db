package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// TLS are the settings of encrypted connections with clients. The zero value means
// that there is no encryption.
type TLS struct {
	// Certificate and Key are files (PEM) with the chain that the gateway shows and
	// the key of its first certificate.
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	// ClientCA is a file (PEM) of authorities. One of them must have issued the certificate that
	// every client shows; empty asks clients for none.
	ClientCA string `json:"clientCa"`
}

// Enabled reports whether connections are encrypted.
func (t TLS) Enabled() bool { return t.Certificate != "" }

// Check reports the faults of the settings and of the files that they name. No message holds the
// content of a file.
func (t TLS) Check(report say.Report) {
	if t == (TLS{}) {
		return
	}
	if t.Certificate == "" || t.Key == "" {
		report("", say.Plain("needs both certificate and key"))
		return
	}
	files, err := t.read()
	if err == nil {
		_, err = files.config()
	}
	var fault *fileError
	switch {
	case errors.As(err, &fault):
		report(fault.setting, say.Plain(fault.message))
	case err != nil:
		report("", say.From(err))
	}
}

// fileError describes the fault of the file in a setting.
type fileError struct{ setting, message string }

func (e *fileError) Error() string { return e.setting + ": " + e.message }

// pemFiles are the contents of the files.
type pemFiles struct{ certificate, key, clientCA string }

// maxFile is larger than any bundle of authorities.
const maxFile = 4 << 20

// read reads the files.
func (t TLS) read() (pemFiles, error) {
	var read pemFiles
	for _, file := range []struct {
		setting, name string
		to            *string
	}{{"certificate", t.Certificate, &read.certificate}, {"key", t.Key, &read.key},
		{"clientCa", t.ClientCA, &read.clientCA}} {
		if file.name == "" {
			continue
		}
		text, message := readFile(file.name)
		if message != "" {
			return pemFiles{}, &fileError{file.setting, message}
		}
		*file.to = text
	}
	return read, nil
}

// readFile returns the content of a file, or its fault.
func readFile(name string) (content, fault string) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "the file does not exist: " + name
	case errors.Is(err, fs.ErrPermission):
		return "", "the gateway may not read the file"
	case err != nil:
		return "", "the file cannot be read"
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return "", "is no file of certificates or keys"
	case info.Size() == 0:
		return "", "the file is empty"
	}
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", "the gateway may not read the file"
	case err != nil:
		return "", "the file cannot be read"
	}
	return string(data), ""
}

// config returns the settings of crypto/tls with these contents.
func (f pemFiles) config() (*tls.Config, error) {
	if strings.Contains(f.key, "ENCRYPTED") { // so both forms of PEM say
		return nil, &fileError{"key", "is protected by a pass phrase, which the gateway cannot ask for: openssl pkey " +
			"-in FILE writes the key without it"}
	}
	pair, err := tls.X509KeyPair([]byte(f.certificate), []byte(f.key))
	if err != nil {
		return nil, fmt.Errorf("certificate and key are not a pair (PEM): %w", err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{http2, "http/1.1"},
	}
	if f.clientCA == "" {
		return config, nil
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM([]byte(f.clientCA)) {
		return nil, &fileError{"clientCa", "the file holds no certificate (PEM)"}
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	// An authority may be taken away. A client that it vouched for must not come back with
	// an old session.
	config.SessionTicketsDisabled = true
	return config, nil
}

// http2 is the name of HTTP/2 in the handshake.
const http2 = "h2"
