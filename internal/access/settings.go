// Package access decides who may do what: it knows the roles of management tokens, and the keys
// with which callers use the unified API.
package access

import (
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Role is the set of permissions of a management token's bearer.
type Role uint8

// The roles. Each includes the permissions of the ones before it. The zero value is no role.
const (
	Viewer Role = iota + 1
	Operator
	Admin
)

var roleNames = [...]string{"VIEWER", "OPERATOR", "ADMIN"}

// Names returns the name of every role.
func (Role) Names() []string { return append([]string(nil), roleNames[:]...) }

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return r >= Viewer && r <= Admin }

// String returns the name in capitals, or nothing where there is no role.
func (r Role) String() string {
	if !r.Valid() {
		return ""
	}
	return roleNames[r-1]
}

// MarshalText writes the name in capitals.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name of a role in any case.
func (r *Role) UnmarshalText(text []byte) error {
	for i, known := range roleNames {
		if strings.EqualFold(string(text), known) {
			*r = Role(i + 1)
			return nil
		}
	}
	return say.Error("field.unknown_name", "noun", "role", "name", text, "known", strings.Join(roleNames[:], ", "))
}

// Settings decide who may use the gateway.
type Settings struct {
	Enabled bool `json:"enabled"`
	// AllowOpen permits listening beyond loopback while Enabled is false.
	AllowOpen bool `json:"allowOpen"`
	// AllowKeyless opens the unified API while Enabled is true and no caller could have a
	// credential.
	AllowKeyless bool `json:"allowKeyless"`
	// AllowedHosts are the host names, beside localhost and the like, that may be used to
	// manage an open gateway. They keep out a page in a browser that made its own name lead
	// here.
	AllowedHosts []string `json:"allowedHosts"`
	// Metrics says who may read the metrics for scrapers while Enabled is true.
	Metrics MetricsAccess `json:"metrics"`
	// SharedLimits makes all gateways with the same Redis share the limits of keys and
	// tenants, in requests and tokens a minute.
	SharedLimits bool `json:"sharedLimits"`
	// MasterKey signs what is stored and encrypts the keys and headers of backends in it; empty means that it is
	// stored as it is. PreviousMasterKey is the key before, for patchbay rekey and for restores.
	MasterKey         string `json:"masterKey"`
	PreviousMasterKey string `json:"previousMasterKey"`
	// References are the variables and files to which stored versions may refer, in addition to
	// the ones that the services of the configuration file refer to.
	References []string `json:"references"`
	Tokens     []Token  `json:"tokens"`
	Keys       []Key    `json:"keys"`
	// Tenants are the groups of keys that have terms of their own.
	Tenants []Tenant `json:"tenants"`
	// Defaults are the terms of every key where it says nothing itself.
	Defaults Terms `json:"defaults"`
	// Session bounds the sessions of browsers.
	Session SessionSettings `json:"session"`
}

// Token lets its bearer manage the gateway. Only its hash is stored.
type Token struct {
	Name        string `json:"name"`
	Role        Role   `json:"role"`
	TokenSHA256 string `json:"tokenSha256"`
}

// Key lets its bearer use the unified API. Only its hash is stored.
type Key struct {
	ID        string `json:"id"`
	Tenant    string `json:"tenant"`
	KeySHA256 string `json:"keySha256"`
	// UserHeader names a header of requests with this key that is trusted to say who the
	// user is; empty trusts none.
	UserHeader string `json:"userHeader,omitzero"`
	Terms
}

// MasterKeys returns the master key, nil if there is none. A previous one is only for patchbay rekey and restores.
func (s *Settings) MasterKeys() (*seal.Keys, error) {
	keys, err := seal.New(s.MasterKey, "")
	if err != nil {
		return nil, fmt.Errorf("security.master-key: %w", err)
	}
	return keys, nil
}

// DefaultSettings returns the settings of an empty configuration: an open gateway.
func DefaultSettings() Settings {
	return Settings{Session: SessionSettings{MaxAge: schema.Duration(SessionLife)}}
}

// Check reports every field that has a value it may not have. Its messages never
// repeat a hash.
func (s Settings) Check(report say.Report) {
	for i, host := range s.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/: *") {
			report(fmt.Sprintf("allowedHosts[%d]", i), say.New("field.host_name"))
		}
	}
	s.checkMasterKeys(report)
	names, hashes := firstUse{}, firstUse{}
	for i, token := range s.Tokens {
		at := fmt.Sprintf("tokens[%d].", i)
		names.check(token.Name, at+"name", report)
		if !token.Role.Valid() {
			report(at+"role", say.New("field.role"))
		}
		if checkHash(token.TokenSHA256, at+"tokenSha256", report) {
			hashes.check(token.TokenSHA256, at+"tokenSha256", report)
		}
	}
	ids, hashes := firstUse{}, firstUse{}
	for i, key := range s.Keys {
		at := fmt.Sprintf("keys[%d].", i)
		ids.check(key.ID, at+"id", report)
		checkKeyID(at+"id", key.ID, report)
		if checkHash(key.KeySHA256, at+"keySha256", report) {
			hashes.check(key.KeySHA256, at+"keySha256", report)
		}
		checkUserHeader(at+"userHeader", key.UserHeader, report)
		key.Terms.CheckAt(at, report)
	}
	s.TermSet().Check(report)
	s.Session.check(report)
}

func (s Settings) checkMasterKeys(report say.Report) {
	if s.MasterKey != "" {
		if wrong := seal.Check(s.MasterKey); wrong != "" {
			report("masterKey", say.Plain(wrong))
		}
	}
	switch {
	case s.PreviousMasterKey == "":
	case s.MasterKey == "":
		report("previousMasterKey", say.New("field.previous_key"))
	case s.PreviousMasterKey == s.MasterKey:
		report("previousMasterKey", say.New("field.previous_same"))
	default:
		if wrong := seal.Check(s.PreviousMasterKey); wrong != "" {
			report("previousMasterKey", say.Plain(wrong))
		}
	}
}

// firstUse remembers where a value that must be unique was seen first.
type firstUse map[string]string

func (f firstUse) check(value, path string, report say.Report) {
	if value == "" {
		report(path, say.New("field.required"))
		return
	}
	if first, taken := f[value]; taken && value != NobodysHash {
		report(path, say.New("field.same_as", "other", first))
		return
	}
	f[value] = path[:strings.LastIndexByte(path, '.')]
}

func checkHash(hash, path string, report say.Report) bool {
	if hash == "" {
		report(path, say.New("field.required"))
		return false
	}
	isForeign := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }
	if len(hash) != 64 || strings.ContainsFunc(hash, isForeign) {
		report(path, say.New("field.hash"))
		return false
	}
	// A variable that was not set, or a command that printed nothing.
	for _, nothing := range [...]string{"", "\n", "\r\n", " "} {
		if hash == HashOf(nothing) {
			report(path, say.New("field.hash_empty"))
			return false
		}
	}
	return true
}
