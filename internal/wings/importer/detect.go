package importer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	documents, err := reading.NewAccount(file.Name).Parse(file)
	if err != nil {
		return "", err
	}
	root := documents[0]
	switch {
	case root.At("model_list").Exists() || root.At("litellm_settings").Exists() || root.At("router_settings").Exists():
		return LiteLLM, nil
	case root.At("providers").Exists():
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
func hasSection(root reading.Setting, name string) bool {
	for _, e := range root.Entries() {
		if first, _, _ := strings.Cut(e.Key, "."); schema.Fold(first) == name {
			return true
		}
	}
	return false
}

// isLlamaSwap reports whether a document has models with commands.
func isLlamaSwap(root reading.Setting) bool {
	return slices.ContainsFunc(root.At("models").Entries(), func(model reading.Setting) bool {
		return model.At("cmd").Exists()
	})
}

func isSQLite(content []byte) bool { return bytes.HasPrefix(content, []byte("SQLite format 3\x00")) }
