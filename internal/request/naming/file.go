package naming

import (
	"regexp"
	"strings"
)

// modelFile matches the name of a model that is its file: folders, the name, the number of a part,
// and the ending.
var modelFile = regexp.MustCompile(`(?i)^(?:.*[/\\\\])?([^/\\\\]+?)(?:-\d{5}-of-\d{5})?\.gguf$`)

// OfFiles returns short names for models of a backend that calls them by their files, such as
// /models/qwen3-8b.gguf: those of the files without folder and ending. Names that are no files,
// or that would be the same, stay as they are.
func OfFiles(models []string) []string {
	names, count := make([]string, len(models)), map[string]int{}
	for i, model := range models {
		names[i] = model
		if match := modelFile.FindStringSubmatch(model); len(match) == 2 && !Fault(match[1]).Is() {
			names[i] = match[1]
		}
		count[strings.ToLower(names[i])]++
	}
	for i, name := range names {
		if count[strings.ToLower(name)] > 1 {
			names[i] = models[i]
		}
	}
	return names
}
