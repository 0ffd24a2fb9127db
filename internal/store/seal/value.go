package seal

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Stored is a value as it is stored.
type Stored struct {
	Data jsontext.Value `json:"value"`
	// Signatures are made with the master key; one of them is right. A value without one was
	// not stored by a gateway with the key.
	Signatures []string `json:"signatures,omitzero"`
	// IsTrusted says that the value was trusted where there are no signatures to show for it.
	IsTrusted bool `json:"trusted,omitzero"`
}

// IsSigned reports whether a signature of the value is good.
func (v *Stored) IsSigned(name string, keys *Keys) bool {
	return slices.ContainsFunc(v.Signatures, func(s string) bool { return keys.Trust(name, v.Data, s).IsTrusted })
}

// Value is a record that was read from a store.
type Value struct {
	Data []byte
	// IsTrusted says that it was signed with the master key, or that there is no master
	// key.
	IsTrusted bool
}

// SignValue returns the signature of a value that is stored under a name.
func (k *Keys) SignValue(name string, data []byte) string { return k.Sign("value", name, string(data)) }

// Trust returns a value that was read with its signature.
func (k *Keys) Trust(name string, data []byte, signature string) Value {
	return Value{data, k == nil || k.Verify(signature, "value", name, string(data)) == nil}
}
