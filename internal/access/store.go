package access

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/store/mark"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Beside the file with the credentials there is a second one for everything that needs the master
// key: the key of sessions, encrypted, and the signatures of the credentials. The bearer of a token that is not signed,
// because somebody without the master key wrote it, may read and no more.

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
				return nil, fmt.Errorf("%w: another one has signed the credentials", mark.ErrMasterKey)
			}
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

// Warn names the tokens without a signature, and what a restore has disabled.
func (c *Credentials) Warn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnOfDisabled()
	var names []string
	for name, token := range c.Tokens.issued {
		if token.IsUnsigned && token.RevokedAt.IsZero() {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		c.report.Warn("these management tokens are not signed with the master key and may only read: somebody who "+
			"does not have the key has made them; rotate or revoke them",
			"tokens", names)
	}
}
