package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
)

// component is a part in a bill of materials of the CycloneDX format.
type component struct {
	Type     string     `json:"type"`
	BOMRef   string     `json:"bom-ref,omitempty"`
	Name     string     `json:"name"`
	Version  string     `json:"version"`
	PURL     string     `json:"purl,omitempty"`
	Hashes   []hash     `json:"hashes,omitempty"`
	Licenses []licensed `json:"licenses,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type licensed struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

func licence(id string) []licensed {
	var l licensed
	l.License.ID = id
	return []licensed{l}
}

// writeSBOM writes the parts of a binary.
func (r *release) writeSBOM(path, name string, binary []byte, parts []part) error {
	sum := sha256.Sum256(binary)
	var components []component
	for _, p := range parts {
		components = append(components, component{
			Type: "library", BOMRef: p.purl, Name: p.name, Version: p.version, PURL: p.purl, Hashes: p.hashes, Licenses: licence(p.licence),
		})
	}
	document := map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"serialNumber": "urn:uuid:" + uuidOf(sum[:]),
		"metadata": map[string]any{
			"timestamp": r.date.Format("2006-01-02T15:04:05Z"),
			"component": component{
				Type: "application", BOMRef: name, Name: "patchbay", Version: r.version, PURL: "pkg:golang/" + r.module + "@" + r.version,
				Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Licenses: licence("Apache-2.0"),
			},
		},
		"components": components,
	}
	data, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// uuidOf makes a UUID of a hash: the same binary has the same UUID.
func uuidOf(sum []byte) string {
	u := slices.Clone(sum[:16])
	u[6], u[8] = u[6]&0x0f|0x50, u[8]&0x3f|0x80
	text := hex.EncodeToString(u)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
