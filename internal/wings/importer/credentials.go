package importer

import (
	"fmt"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// addKey adds an API key, and reports whether it could be added.
func (d *draft) addKey(n reading.Setting, key credential) bool {
	if key.hash == "" {
		n.Unsupported("its value is put together of several variables; issue a new key with patchbay " +
			"keys create")
		return false
	}
	if at := slices.IndexFunc(d.keys, func(other credential) bool {
		return other.hash == key.hash &&
			key.hash != access.NobodysHash
	}); at >= 0 {
		n.Unsupported("it has the same value as the key %s, which tells nobody apart", d.keys[at].name)
		return false
	}
	base := key.name
	for i := 2; slices.ContainsFunc(d.keys, func(other credential) bool { return other.name == key.name }); i++ {
		key.name = fmt.Sprintf("%s-%d", base, i)
	}
	one := draft{keys: []credential{key}}
	if fault := faultOf(one.security()); fault != "" {
		n.Unsupported("%s", fault)
		return false
	}
	d.keys = append(d.keys, key)
	n.Changed("API key %s, of which only the hash is known here; callers send it as Authorization: "+
		"Bearer or X-API-Key", key.name)
	return true
}
