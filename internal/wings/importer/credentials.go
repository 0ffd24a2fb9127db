package importer

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// addKey adds an API key, and reports whether it could be added.
func (d *draft) addKey(n *yaml.Node, setting string, key credential) bool {
	if key.hash == "" {
		d.Unsupported(n, setting, "its value is put together of several variables; issue a new key with patchbay "+
			"keys create")
		return false
	}
	if at := slices.IndexFunc(d.keys, func(other credential) bool {
		return other.hash == key.hash &&
			key.hash != access.NobodysHash
	}); at >= 0 {
		d.Unsupported(n, setting, "it has the same value as the key %s, which tells nobody apart", d.keys[at].name)
		return false
	}
	base := key.name
	for i := 2; slices.ContainsFunc(d.keys, func(other credential) bool { return other.name == key.name }); i++ {
		key.name = fmt.Sprintf("%s-%d", base, i)
	}
	one := draft{keys: []credential{key}}
	if err := check(one.security()); err != nil {
		d.Unsupported(n, setting, "%s", faultOf(err))
		return false
	}
	d.keys = append(d.keys, key)
	d.Changed(n, setting, "API key %s, of which only the hash is known here; callers send it as Authorization: "+
		"Bearer or X-API-Key", key.name)
	return true
}
