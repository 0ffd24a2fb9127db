package gatewaytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a private certificate authority.
type Authority struct {
	// File holds its certificate (PEM).
	File        string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns an authority that no client trusts yet.
func NewAuthority(t *testing.T) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem"), key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate = a.sign(t, template, template, a.key)
	WriteFile(t, a.File, encodePEM("CERTIFICATE", a.certificate.Raw))
	return a
}

// Issue writes a certificate for a name and 127.0.0.1, and its key, into these files.
func (a *Authority) Issue(t *testing.T, name, certificateFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	issued := a.sign(t, template, a.certificate, key)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	WriteFile(t, certificateFile, encodePEM("CERTIFICATE", issued.Raw))
	WriteFile(t, keyFile, encodePEM("PRIVATE KEY", private))
}

// Pair is Issue with files of its own.
func (a *Authority) Pair(t *testing.T, name string) (certificateFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	certificateFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	a.Issue(t, name, certificateFile, keyFile)
	return certificateFile, keyFile
}

// Client returns the settings of a client that trusts the authority and shows the
// certificates, if there are any.
func (a *Authority) Client(certificates ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: a.Pool(), Certificates: certificates, MinVersion: tls.VersionTLS12}
}

// Pool returns the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// LoadPair reads the files that Issue wrote.
func LoadPair(t *testing.T, certificateFile, keyFile string) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certificateFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// sign makes the certificate of a key.
func (a *Authority) sign(t *testing.T, template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
