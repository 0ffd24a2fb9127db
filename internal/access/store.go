package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Beside the file with the credentials there is a second one for everything that needs the master
// key: the key of sessions, encrypted, and the signatures of the credentials. Earlier releases do
// not read it. A token is unsigned if an earlier release wrote it, or somebody without the master
// key; its bearer may read and no more.

// ErrMasterKey means that security.master-key is not the key that signed the credentials.
var ErrMasterKey = errors.New("security.master-key is missing, or is not the one with which the credentials were " +
	"signed")

// sealedFile is the name of the file that needs the master key, and sealedKind begins the
// names of the values that are encrypted in themselves.
const (
	sealedFile = "keys.sealed.json"
	sealedKind = "sealed/"
)

// sealedContent is the content of that file.
type sealedContent struct {
	Values map[string]jsontext.Value `json:"values,omitzero"`
	// Signatures holds the signatures of the credentials by their names. While a credential is
	// changed it has two, and a crash leaves the right one in any case.
	Signatures map[string][]string `json:"signatures,omitzero"`
}

// readSealed reads the file that needs the master key, and returns the signatures in it.
func (c *Credentials) readSealed() (signatures map[string][]string, err error) {
	data, err := c.dir.Read(sealedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var content sealedContent
	if err == nil {
		err = json.Unmarshal(data, &content, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %s: %w", sealedFile, err)
	}
	for _, made := range content.Signatures {
		for _, signature := range made {
			if !c.master.Knows(signature) {
				return nil, fmt.Errorf("%w: set it, or security.previous-master-key, to that key", ErrMasterKey)
			}
			c.needsSigning = c.needsSigning || !c.master.IsCurrent(signature)
		}
	}
	for name, value := range content.Values {
		if err := c.setValue(name, seal.Value{Data: value, IsTrusted: true}); err != nil {
			c.report.Warn("the key of sessions cannot be read; the next one who logs in makes another", "error", err)
		}
	}
	return content.Signatures, nil
}

// trusted returns a value of the file with its signatures. One of them must be right.
func (c *Credentials) trusted(name string, data []byte, signatures []string) seal.Value {
	data = compacted(data)
	return seal.Value{Data: data, IsTrusted: c.master == nil ||
		slices.ContainsFunc(signatures, func(signature string) bool {
			return c.master.Trust(name, data, signature).IsTrusted
		})}
}

// compacted returns a value without the white space that files have, which is not signed.
func compacted(value []byte) []byte {
	compact := jsontext.Value(slices.Clone(value))
	if err := compact.Compact(); err != nil {
		return value // invalid JSON is refused elsewhere
	}
	return compact
}

// save writes the values to the files. It signs the values named in changed.
func (c *Credentials) save(values map[string]jsontext.Value, changed ...string) error {
	plain := make(map[string]jsontext.Value, len(values))
	sealed := sealedContent{Values: map[string]jsontext.Value{}, Signatures: map[string][]string{}}
	for name, value := range values {
		if strings.HasPrefix(name, sealedKind) {
			sealed.Values[name] = value
			continue
		}
		plain[name] = value
		if c.master != nil && (!c.unsigned[name] || slices.Contains(changed, name)) {
			sealed.Signatures[name] = append(sealed.Signatures[name], c.master.SignValue(name, value))
		}
	}
	for _, name := range changed {
		if before, had := c.values[name]; had && c.master != nil && !c.unsigned[name] &&
			!strings.HasPrefix(name, sealedKind) {
			sealed.Signatures[name] = append(sealed.Signatures[name], c.master.SignValue(name, before))
		}
	}
	if c.master != nil {
		if err := c.write(sealedFile, sealed); err != nil {
			return err
		}
	}
	return c.write(credentialsFile, stored{Log: c.origin, Values: plain})
}

func (c *Credentials) write(file string, content any) error {
	data, err := json.Marshal(content, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return c.dir.Write(file, append(data, '\n'))
}

// SignExisting signs the credentials that have no signature. It is called once, before
// anything of the data directory is signed.
func (c *Credentials) SignExisting() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.master == nil || len(c.unsigned) == 0 {
		return nil
	}
	var names []string
	for name := range c.unsigned {
		names = append(names, name)
	}
	clear(c.unsigned)
	for _, name := range names {
		c.Tokens.markUnsigned(name, false)
	}
	if err := c.save(c.values); err != nil {
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	c.rebuild()
	return nil
}

// Renew brings the stored values up to date with the master key: it removes a key of sessions
// that is stored as plain text, replaces one that was encrypted with the previous master key, and
// makes the signatures anew. Callers call it when everything can be read.
func (c *Credentials) Renew(ctx context.Context) error {
	c.mu.Lock()
	state, log := c.session, c.log
	c.warnOfUnsigned()
	c.warnOfDisabled()
	if c.master == nil || log == nil && !c.needsSigning && !state.isPlain && !state.isStale {
		c.mu.Unlock()
		return nil
	}
	if log == nil {
		defer c.mu.Unlock()
		delete(c.values, sealedSessionName) // the next session makes another
		c.session = session{}
		c.rebuild()
		c.needsSigning = false
		return c.save(c.values)
	}
	c.mu.Unlock()
	if state.isPlain || state.isStale {
		// Before the plain one is removed: an empty log gets back the values that other
		// gateways know.
		if err := c.makeSessionKey(ctx); err != nil {
			return err
		}
	}
	if !state.isPlain {
		return nil
	}
	return log.Change(ctx, func() (string, []byte, error) { return sessionKeyName, nil, nil })
}

// warnOfUnsigned names the tokens without a signature.
func (c *Credentials) warnOfUnsigned() {
	var names []string
	for name, token := range c.Tokens.issued {
		if token.IsUnsigned && token.RevokedAt.IsZero() {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		c.report.Warn("these management tokens are not signed with the master key and may only read: a gateway of an "+
			"earlier release has issued them, or somebody who does not have the key; rotate or revoke them",
			"tokens", names)
	}
}
