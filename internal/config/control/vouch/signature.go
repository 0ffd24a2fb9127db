package vouch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Doubts are the instances of a version that were in doubt when it was signed.
type Doubts map[string]backend.Doubt

// Version is a stored version, as it is signed.
type Version struct {
	Number int
	// Record is the version as it is stored, as JSON. Services and Settings have their secrets
	// readable, and the services the doubts about them.
	Record   []byte
	Services Services
	Settings config.Managed
	// Restore is the id of the restore of an unsigned backup with the version that is not confirmed,
	// empty if there is none.
	Restore string
}

// wholeVersion is the key of the doubt about all instances and settings of a version.
const wholeVersion = ""

// Restore returns the id of the restore whose doubt is about the whole version, empty if there is none.
func (d Doubts) Restore() string { return string(d[wholeVersion]) }

// versionSignature is the text of a signature. The doubts are signed with the version.
type versionSignature struct {
	MAC    string `json:"mac"`
	Doubts Doubts `json:"doubts,omitzero"`
}

// Sign returns the signature of a version.
func (v Version) Sign(keys *seal.Keys) (string, error) {
	doubts := doubtsOf(v.Services)
	if v.Restore != "" {
		doubts[wholeVersion] = backend.Doubt(v.Restore)
	}
	parts, err := v.parts(doubts)
	if err != nil {
		return "", err
	}
	return encode(versionSignature{keys.Sign(parts...), doubts}), nil
}

// Verify checks the signature of a version, and returns the doubts that were signed with
// it. The error is seal.ErrForged or seal.ErrKey.
func (v Version) Verify(keys *seal.Keys, signature string) (Doubts, error) {
	var read versionSignature
	if err := json.Unmarshal([]byte(signature), &read); err != nil {
		return nil, seal.ErrForged
	}
	parts, err := v.parts(read.Doubts)
	if err != nil {
		return nil, err
	}
	return read.Doubts, keys.Verify(read.MAC, parts...)
}

// IsCurrent reports whether a signature was made with the current key.
func IsCurrent(keys *seal.Keys, signature string) bool {
	var read struct {
		MAC string `json:"mac"`
	}
	return json.Unmarshal([]byte(signature), &read) == nil && keys.IsCurrent(read.MAC)
}

// encode writes a signature. It has only texts and numbers.
func encode(signature any) string {
	data, _ := json.Marshal(signature, json.Deterministic(true))
	return string(data)
}

// parts are the signed parts of a version: its number, its record without secrets and
// proxies, and the secrets and proxies as plain text. Encrypting them anew does not
// change the plain text, so it needs no other signature.
func (v Version) parts(doubts Doubts) ([]string, error) {
	secrets := v.Settings.Secrets()
	said, err := saidBy(v.Record, func(pointer jsontext.Pointer) bool {
		at, isSetting := strings.CutPrefix(string(pointer), "/settings")
		_, isSecret := secrets[at]
		return isSetting && isSecret || isOpenedPlace(pointer)
	})
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", v.Number, err)
	}
	parts := []string{"version", strconv.Itoa(v.Number), said}
	each(v.Services, func(serviceType schema.ServiceType, s *backend.Settings) {
		parts = append(parts, "instance", keyOf(serviceType, s), s.Proxy)
		s.EachSecret(serviceType.String(), func(at string, secret backend.Secret) {
			// A secret that only later releases know is empty, and changes nothing.
			if !secret.IsEmpty() || strings.Contains(at, "/headers/") {
				parts = append(parts, at, strconv.FormatBool(secret.IsReference()), secret.Reveal())
			}
		})
	})
	for _, at := range slices.Sorted(maps.Keys(secrets)) {
		parts = append(parts, "setting", at, strconv.FormatBool(secrets[at].IsReference()), secrets[at].Reveal())
	}
	for _, key := range slices.Sorted(maps.Keys(doubts)) {
		parts = append(parts, "doubt", key, string(doubts[key]))
	}
	return parts, nil
}

// saidBy returns the content of a version's record: its tokens, whatever the white space,
// without the values of places that may be encrypted.
func saidBy(record []byte, isOpened func(jsontext.Pointer) bool) (string, error) {
	from := jsontext.NewDecoder(bytes.NewReader(record))
	var said strings.Builder
	for {
		token, err := from.ReadToken()
		if errors.Is(err, io.EOF) {
			return said.String(), nil
		}
		if err != nil {
			return "", err
		}
		text := token.String()
		said.WriteByte(byte(token.Kind()))
		said.WriteString(strconv.Itoa(len(text)) + ":" + text)
		if token.Kind() == jsontext.KindString && isOpened(from.StackPointer()) {
			if err := from.SkipValue(); err != nil {
				return "", err
			}
		}
	}
}

// isOpenedPlace reports whether a member of an instance may be encrypted.
func isOpenedPlace(pointer jsontext.Pointer) bool {
	steps := strings.Split(string(pointer), "/")
	const depth = 6 // "", services, chat, instances, 0, apiKey
	if len(steps) != depth || steps[1] != "services" || steps[3] != "instances" {
		return false
	}
	return steps[5] == "apiKey" || steps[5] == "headers" || steps[5] == "proxy"
}

func doubtsOf(services Services) Doubts {
	doubts := Doubts{}
	each(services, func(serviceType schema.ServiceType, s *backend.Settings) {
		if s.Doubt != "" {
			doubts[keyOf(serviceType, s)] = s.Doubt
		}
	})
	return doubts
}

// HasDoubts reports whether there is a doubt about an instance.
func HasDoubts(services Services) bool { return len(doubtsOf(services)) > 0 }

// WithDoubts returns services with the doubts about their instances.
func WithDoubts(services Services, doubts Doubts) Services {
	doubted, _ := mapInstances(services, func(serviceType schema.ServiceType,
		s backend.Settings) (backend.Settings, error) {
		if s.Doubt = doubts[keyOf(serviceType, &s)]; doubts.Restore() != "" {
			s.Doubt = backend.DoubtRestored
		}
		return s, nil
	})
	return doubted
}

// Head is the signed part of the head of a log.
type Head struct {
	Version  int    `json:"version"`
	Newest   int    `json:"newest"`
	Source   string `json:"source"`
	Log      string `json:"log,omitzero"`
	Revision int64  `json:"revision,omitzero"`
}

type headSignature struct {
	MAC string `json:"mac"`
	Head
}

func (h Head) parts() []string {
	return []string{"head", strconv.Itoa(h.Version), strconv.Itoa(h.Newest), h.Source, h.Log,
		strconv.FormatInt(h.Revision, 10)}
}

// Sign returns the signature of a head.
func (h Head) Sign(keys *seal.Keys) string {
	return encode(headSignature{keys.Sign(h.parts()...), h})
}

// Verify returns an error if a head with a wrong signature names the signed head. A signature of another head is one
// of before a crash, and a head without one is no error either.
func (h Head) Verify(keys *seal.Keys, signature string) error {
	if signature == "" {
		return nil
	}
	var read headSignature
	if err := json.Unmarshal([]byte(signature), &read); err != nil {
		return seal.ErrForged
	}
	if read.Head != h {
		return nil
	}
	return keys.Verify(read.MAC, h.parts()...)
}
