package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// fingerprint identifies the text below sections by its meaning: keys in one spelling,
// values as they were understood. It leaves out defaults, so a release that adds a
// setting finds an old file unchanged.
func (d *decoder) fingerprint(sections ...string) string {
	hash := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(d.written)) {
		if !slices.ContainsFunc(sections, func(s string) bool { return strings.HasPrefix(path, s+".") }) {
			continue
		}
		from := d.written[path]
		said := from.kind.said().String()
		if from.kind == scalar {
			// Settings can always be encoded, once they are checked.
			value, _ := json.Marshal(d.values[path].Interface(), json.Deterministic(true))
			said = string(value)
		}
		fmt.Fprintf(hash, "%q %s\n", path, said)
	}
	return hex.EncodeToString(hash.Sum(nil))
}
