package backup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// checkDownload checks that an archive without a manifest is a download of the management API.
func (a *archive) checkDownload() error {
	count := 0
	for name := range a.files {
		switch {
		case strings.HasPrefix(name, versionsDir+"/0") && strings.HasSuffix(name, ".json"):
			count++
		case name != credentialsName && name != seal.ManifestName:
			return fmt.Errorf("%w (it has %q and no %s)", errForeign, shorten(name), headName)
		}
	}
	if count == 0 {
		return errForeign
	}
	return nil
}

// view is a version as the management API shows it.
type view struct {
	Version     int            `json:"version"`
	Current     bool           `json:"current"`
	CreatedAt   time.Time      `json:"createdAt"`
	Origin      string         `json:"origin"`
	Author      string         `json:"author"`
	Summary     string         `json:"summary"`
	Added       jsontext.Value `json:"added,omitzero"`
	Terms       jsontext.Value `json:"terms,omitzero"`
	Settings    jsontext.Value `json:"settings,omitzero"`
	Activations []struct {
		At time.Time `json:"at"`
		By string    `json:"by"`
	} `json:"activations"`
	Config struct {
		Services map[string]members `json:"services"`
	} `json:"config"`
}

type members = map[string]jsontext.Value

// errMasked is of a download without secrets.
var errMasked = errors.New("its keys of backends are masked; download it as ADMIN with ?secrets=true")

// stored returns the version as it is stored.
func (v *view) stored() (*versions.Version, error) {
	for _, service := range v.Config.Services {
		var instances []members
		if err := json.Unmarshal(service["instances"], &instances); err != nil {
			return nil, err
		}
		for _, instance := range instances {
			if err := withoutView(instance, service); err != nil {
				return nil, err
			}
		}
		service["instances"] = encoded(instances)
	}
	record := members{
		"version": encoded(v.Version), "createdAt": encoded(v.CreatedAt), "origin": encoded(v.Origin),
		"author": encoded(v.Author), "summary": encoded(v.Summary), "services": encoded(v.Config.Services),
	}
	if len(v.Added) > 0 {
		record["added"] = v.Added
	}
	if len(v.Terms) > 0 {
		record["terms"] = v.Terms
	}
	if len(v.Settings) > 0 {
		record["settings"] = v.Settings
	}
	read, err := versions.ReadVersion(v.Version, encoded(record))
	if err != nil {
		return nil, err
	}
	for _, secret := range read.Settings.Secrets() {
		if access.IsMask(secret.Reveal()) {
			return nil, errMasked
		}
	}
	return read, nil
}

// withoutView turns the view of an instance into its settings: it removes the members that only
// views have, and marks secrets that are references. The adapter of the service type is shown for
// an instance that has none of its own.
func withoutView(instance, service members) error {
	var references []string
	if text := instance["references"]; len(text) > 0 {
		if err := json.Unmarshal(text, &references); err != nil {
			return err
		}
	}
	delete(instance, "instanceId")
	delete(instance, "references")
	if string(instance["adapter"]) == string(service["adapter"]) {
		delete(instance, "adapter")
	}
	headers := members{}
	if text := instance["headers"]; len(text) > 0 {
		if err := json.Unmarshal(text, &headers); err != nil {
			return err
		}
	}
	for _, secret := range append(slices.Collect(maps.Values(headers)), instance["apiKey"], instance["proxy"]) {
		var text string
		if json.Unmarshal(secret, &text) == nil && (access.IsMask(text) || transport.IsMaskedProxy(text)) {
			return errMasked
		}
	}
	for _, field := range references {
		if field == "apiKey" {
			instance[field] = encoded(members{"reference": instance[field]})
			continue
		}
		name, err := strconv.Unquote(strings.TrimSuffix(strings.TrimPrefix(field, "headers["), "]"))
		if err != nil || headers[name] == nil {
			return fmt.Errorf("the reference %q is not known", field)
		}
		headers[name] = encoded(members{"reference": headers[name]})
	}
	if len(headers) > 0 {
		instance["headers"] = encoded(headers)
	}
	return nil
}

// encoded returns a value as JSON, which has only texts and numbers.
func encoded(value any) jsontext.Value {
	text, _ := json.Marshal(value, json.Deterministic(true))
	return text
}

// stageDownload writes the versions of a download to a folder in the form of a data directory, and
// returns its credentials.
func (a *archive) stageDownload(stage string, keys *seal.Keys) (values map[string]access.StoredValue, err error) {
	if err := os.MkdirAll(filepath.Join(stage, versionsDir), 0o700); err != nil {
		return nil, err
	}
	store := files.Peek(stage)
	sealed := versions.NewSealedStore(store, keys)
	var head versions.Head
	for _, name := range slices.Sorted(maps.Keys(a.files)) {
		if name == credentialsName || name == seal.ManifestName {
			continue
		}
		var v view
		if err := a.decode(name, &v); err != nil {
			return nil, err
		}
		version, err := v.stored()
		if err == nil {
			err = sealed.Save(version)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if v.Current || head.Version == 0 {
			head.Version = v.Version
		}
		head.Newest = max(head.Newest, v.Version)
		for _, made := range v.Activations {
			head.Activations = append(head.Activations,
				versions.Activation{Version: v.Version, At: made.At, By: made.By})
		}
	}
	slices.SortStableFunc(head.Activations, func(a, b versions.Activation) int { return a.At.Compare(b.At) })
	if err := sealed.SetHead(head); err != nil {
		return nil, err
	}
	if a.files[credentialsName] != nil {
		err = a.decode(credentialsName, &values)
	}
	return values, err
}
