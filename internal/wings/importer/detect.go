package importer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// ErrChannels means that a file has the channels of one-api or those of new-api.
var ErrChannels = errors.New("say which with --from")

// Detect finds out which source a file is of.
func Detect(file File) (Source, error) {
	if isSQLite(file.Content) {
		return "", fmt.Errorf("one-api and new-api have the same tables with other meanings; %w", ErrChannels)
	}
	documents, err := reading.Documents(file)
	if err != nil {
		return "", err
	}
	root := documents[0]
	switch {
	case reading.At(root, "model_list") != nil || reading.At(root, "litellm_settings") != nil ||
		reading.At(root, "router_settings") != nil:
		return LiteLLM, nil
	case reading.At(root, "providers") != nil:
		return Bifrost, nil
	case isLlamaSwap(root):
		return LlamaSwap, nil
	case len(channelsOf(root)) > 0:
		return "", fmt.Errorf("one-api and new-api number their channels differently; %w", ErrChannels)
	}
	for _, section := range []string{"model", "jairouter", "spring"} {
		if hasSection(root, section) {
			return JAiRouter, nil
		}
	}
	return "", errors.New("this is the configuration of none of the known gateways; say which with --from")
}

// hasSection reports whether a document of Spring has a section, also where its settings
// are written with their full names.
func hasSection(root *yaml.Node, name string) bool {
	for _, e := range reading.Entries(root) {
		if first, _, _ := strings.Cut(e.Key, "."); schema.Fold(first) == name {
			return true
		}
	}
	return false
}

// isLlamaSwap reports whether a document has models with commands.
func isLlamaSwap(root *yaml.Node) bool {
	return slices.ContainsFunc(reading.Entries(reading.At(root, "models")), func(e reading.Entry) bool {
		return reading.At(e.Value, "cmd") != nil
	})
}

func isSQLite(content []byte) bool { return bytes.HasPrefix(content, []byte("SQLite format 3\x00")) }
