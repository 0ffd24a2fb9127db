package access

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// StoredValue is an issued credential, or the key of sessions, as it is stored.
type StoredValue = seal.Stored

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
	var plain stored
	if data, err := dir.Read(credentialsFile); err == nil {
		_ = json.Unmarshal(data, &plain) // only the name of the log stays
	}
	plain.Values = map[string]jsontext.Value{}
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

// Stored returns the issued keys and tokens, the teams, and the key for the ids of tokens' subjects,
// by their names.
func (c *Credentials) Stored() map[string]StoredValue {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := map[string]StoredValue{}
	for name, value := range c.values {
		values[name] = StoredValue{Data: value, IsTrusted: !c.unsigned[name]}
	}
	return WithoutSessions(values)
}

// Count counts the keys and the tokens among values.
func Count(values map[string]StoredValue) (keys, tokens int) {
	for name := range values {
		switch {
		case strings.HasPrefix(name, "key/"):
			keys++
		case strings.HasPrefix(name, "token/"):
			tokens++
		}
	}
	return keys, tokens
}

// isIssued reports whether a stored value is a key or a token.
func isIssued(name string) bool {
	return strings.HasPrefix(name, "key/") || strings.HasPrefix(name, "token/")
}

// Rekey signs the values of a place with the current key, and removes the key of sessions: the next one who signs
// in makes another. The ids of tokens' subjects stay.
func Rekey(values map[string]StoredValue, r *store.Rekeying) {
	old := &Credentials{master: r.Old}
	for name, value := range values {
		var err error
		signed := func(signature string) bool { return r.Keys.Trust(name, value.Data, signature).IsTrusted }
		if name == sessionKeyName || strings.HasPrefix(name, sealedKind) {
			_ = old.session.set(value.Data)
			delete(values, name)
			continue
		}
		if !slices.ContainsFunc(value.Signatures, signed) {
			err = r.Verify(strings.Join(value.Signatures, ""), "value", name, string(value.Data))
		}
		if err == nil {
			value.Signatures = []string{r.Keys.SignValue(name, value.Data)}
		}
		r.Done(name, err)
		values[name] = value
	}
	if _, has := values[subjectKeyName]; !has && (r.Old != nil || old.session.key != nil) {
		key, _ := old.makeSubjectKey()                // it has a key to make it of
		data, _ := json.Marshal(plainSessionKey{key}) // a text
		values[subjectKeyName] = StoredValue{Data: data, Signatures: []string{r.Keys.SignValue(subjectKeyName, data)}}
	}
}

// WithoutSessions returns values without the key of sessions. What depends on it, and is not to
// change, is among them in its place: without a master key, the key for the ids of tokens' subjects.
func WithoutSessions(values map[string]StoredValue) map[string]StoredValue {
	kept := map[string]StoredValue{}
	for name, value := range values {
		if name != sessionKeyName && !strings.HasPrefix(name, sealedKind) {
			kept[name] = value
		}
	}
	var of session
	if _, has := kept[subjectKeyName]; !has && of.set(values[sessionKeyName].Data) == nil {
		data, _ := json.Marshal(plainSessionKey{of.subjectKey()}) // a text
		kept[subjectKeyName] = StoredValue{Data: data}
	}
	return kept
}

// ended are the times in the record of a credential after which an earlier text of it is refused.
type ended struct {
	CreatedAt time.Time `json:"createdAt"`
	RotatedAt time.Time `json:"rotatedAt"`
	RevokedAt time.Time `json:"revokedAt"`
	Disabled  string    `json:"disabled"`
}

// isLater reports whether a record refuses a text that another record of the same name allows.
func (e ended) isLater(other ended) bool {
	if c := e.CreatedAt.Compare(other.CreatedAt); c != 0 {
		return c > 0
	}
	return e.RotatedAt.After(other.RotatedAt) || !e.RevokedAt.IsZero() && other.RevokedAt.IsZero()
}

// Restored returns the values of a backup as they are restored to a place with these values and
// master keys. There is a new key of sessions. What the place knows as revoked or rotated stays so.
// If the place has a master key and the backup is not signed, restore is an id, and all keys and tokens are
// disabled by it. It is empty otherwise. What an unconfirmed restore has brought to the place does not count.
func Restored(backup, place map[string]StoredValue, keys *seal.Keys, restore string) (map[string]StoredValue, error) {
	values := WithoutSessions(backup)
	for name, theirs := range place {
		var is, was ended
		if !isIssued(name) || json.Unmarshal(theirs.Data, &is) != nil {
			continue
		}
		ours, has := values[name]
		isKnown := has && json.Unmarshal(ours.Data, &was) == nil
		isTrusted := !is.RevokedAt.IsZero() || is.Disabled == "" && (keys == nil || theirs.IsSigned(name, keys))
		if isTrusted && (isKnown && is.isLater(was) || !isKnown && !is.RevokedAt.IsZero()) {
			values[name] = theirs
		}
	}
	for name, value := range values {
		switch {
		case keys == nil:
			continue
		case restore != "" && isIssued(name):
			var err error
			if value.Data, err = setDisabled(value.Data, restore); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		case restore != "", !value.IsTrusted:
			continue
		}
		value.Signatures = []string{keys.SignValue(name, value.Data)}
		values[name] = value
	}
	name, key := newSessionKey(keys)
	data, err := json.Marshal(key)
	values[name] = StoredValue{Data: data}
	return values, err
}

// setDisabled returns the record of a credential that a restore disables; without its id none does.
func setDisabled(data jsontext.Value, restore string) (jsontext.Value, error) {
	const member = "disabled"
	record := map[string]jsontext.Value{}
	if err := json.Unmarshal(data, &record); err != nil {
		return nil, err
	}
	if delete(record, member); restore != "" {
		record[member] = jsontext.Value(strconv.Quote(restore))
	}
	next, err := json.Marshal(record, json.Deterministic(true))
	return compacted(next), err
}

// Confirmed returns the values of a place that a restore has disabled, enabled and signed. A restore signs
// what it disables, so a record without a good signature was put there later and is left as it is. The
// signatures of the disabled records are kept: until both files of a directory are written, they have to fit.
func Confirmed(place map[string]StoredValue, keys *seal.Keys, restore string) (map[string]StoredValue, error) {
	enabled := map[string]StoredValue{}
	for name, value := range place {
		var is ended
		if !isIssued(name) || !value.IsSigned(name, keys) || json.Unmarshal(value.Data, &is) != nil ||
			is.Disabled != restore {
			continue
		}
		data, err := setDisabled(value.Data, "")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		signatures := append([]string{keys.SignValue(name, data)}, value.Signatures...)
		enabled[name] = StoredValue{Data: data, Signatures: signatures}
	}
	return enabled, nil
}

// Owners returns the people who made the keys among values for themselves.
func Owners(values map[string]StoredValue) (owners []Owner) {
	for name, value := range values {
		var record struct {
			Owner Owner `json:"owner"`
		}
		if isIssued(name) && json.Unmarshal(value.Data, &record) == nil && record.Owner.IsSet() {
			owners = append(owners, record.Owner)
		}
	}
	return owners
}
