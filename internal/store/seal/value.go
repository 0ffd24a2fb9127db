package seal

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
