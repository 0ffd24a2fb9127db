package access

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// StoredValue is an issued credential, or the key of sessions, as it is stored.
type StoredValue struct {
	Data jsontext.Value `json:"value"`
	// Signatures are made with the master key; one of them is right. A value without one was
	// not stored by a gateway with the key.
	Signatures []string `json:"signatures,omitzero"`
	// IsTrusted says that the value was trusted where there are no signatures to show for it.
	IsTrusted bool `json:"trusted,omitzero"`
}

// ReadStored returns the values of a data directory by their names, also while a gateway
// writes them.
func ReadStored(dir *durable.Dir) (map[string]StoredValue, error) {
	// A gateway writes the signatures first: those of the values before and after a change.
	plain, sealed := stored{}, sealedContent{}
	for _, file := range []struct {
		name string
		into any
	}{{credentialsFile, &plain}, {sealedFile, &sealed}} {
		data, err := dir.Read(file.name)
		if err == nil {
			err = json.Unmarshal(data, file.into)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", file.name, err)
		}
	}
	values := map[string]StoredValue{}
	for _, key := range plain.Keys {
		value, err := json.Marshal(key, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		values["key/"+key.ID] = StoredValue{Data: value}
	}
	for name, value := range plain.Values {
		values[name] = StoredValue{Data: compacted(value), Signatures: sealed.Signatures[name]}
	}
	for name, value := range sealed.Values {
		values[name] = StoredValue{Data: compacted(value)}
	}
	return values, nil
}

// WriteStored writes values to a data directory in which no gateway runs. It leaves out values
// that are no credentials.
func WriteStored(dir *durable.Dir, values map[string]StoredValue) error {
	c := &Credentials{dir: dir}
	plain := stored{Values: map[string]jsontext.Value{}}
	sealed := sealedContent{Values: map[string]jsontext.Value{}, Signatures: map[string][]string{}}
	for name, value := range values {
		switch kind, _, _ := strings.Cut(name, "/"); kind + "/" {
		case sealedKind:
			sealed.Values[name] = value.Data
		case "key/", "token/", sessionKind, teamKind:
			plain.Values[name] = value.Data
			if len(value.Signatures) > 0 {
				sealed.Signatures[name] = value.Signatures
			}
		}
	}
	if len(sealed.Values)+len(sealed.Signatures) > 0 {
		if err := c.write(sealedFile, sealed); err != nil {
			return err
		}
	}
	if len(plain.Values) == 0 {
		return nil
	}
	return c.write(credentialsFile, plain)
}

// Stored returns the issued keys and tokens, and the teams, by their names.
func (c *Credentials) Stored() map[string]StoredValue {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := map[string]StoredValue{}
	for name, value := range c.values {
		if c.Keys.stores(name) || c.Tokens.stores(name) || strings.HasPrefix(name, teamKind) {
			values[name] = StoredValue{Data: value, IsTrusted: !c.unsigned[name]}
		}
	}
	return values
}
