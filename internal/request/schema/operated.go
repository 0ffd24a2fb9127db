package schema

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Members is a set of members of requests that are meant for the operator of an engine: they lead it to
// other hosts, to files, to the work of other callers, or before them. A caller with a key may name one
// at an instance that allows it.
type Members uint16

// operated are the names of the members, in the order of their bits.
var operated = [...]string{
	"kv_transfer_params", "bootstrap_host", "bootstrap_port", "bootstrap_room", "lora_path", "lora", "id_slot",
	"custom_logit_processor", "priority", "cache_salt",
}

// CacheSalt is the member that is the operator's if the instance sets it itself.
const CacheSalt Members = 1 << 9

// EngineMember is the name of one of the members.
type EngineMember string

// Names returns the name of every member.
func (EngineMember) Names() []string { return slices.Clone(operated[:]) }

// MarshalText writes the name.
func (m EngineMember) MarshalText() ([]byte, error) { return []byte(m), nil }

// UnmarshalText reads the name of a member, also with hyphens as settings are written.
func (m *EngineMember) UnmarshalText(text []byte) error {
	name := strings.ReplaceAll(string(text), "-", "_")
	if !slices.Contains(operated[:], name) {
		return say.Error("field.unknown_name", "noun", "member", "name", text, "known", strings.Join(operated[:], ", "))
	}
	*m = EngineMember(name)
	return nil
}

// MembersOf returns the set of some members.
func MembersOf(names []EngineMember) (set Members) {
	for _, name := range names {
		set |= operatedMember([]byte(name))
	}
	return set
}

// Refuse returns an error that names a member of the set, nil if the set is empty.
func (m Members) Refuse() error {
	if m == 0 {
		return nil
	}
	name := operated[bits.TrailingZeros16(uint16(m))]
	err := CodedError(CodeMemberNotAllowed, "call.member", "member", name)
	err.Param = &name
	return err
}

// operatedMember returns the member with a name in lower case, none for other names.
func operatedMember(key []byte) Members {
	if len(key) < len("lora") || len(key) > len("custom_logit_processor") {
		return 0
	}
	for i, name := range operated {
		if string(key) == name {
			return 1 << i
		}
	}
	return 0
}
