package differences

import (
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// SummarizeFile is the summary of a version that an edit of the file made.
func SummarizeFile(differences []Difference) string {
	if len(differences) == 0 {
		return say.Text("version.file")
	}
	added, changed, removed := namesByKind(differences)
	return say.Text("version.file_counts", "added", len(added), "changed", len(changed), "removed", len(removed)) +
		"; " + Summarize(differences)
}

// Effect describes how an edit of the file changed the configuration in force.
func Effect(differences []Difference, isEdited bool) string {
	if len(differences) == 0 {
		if isEdited {
			return "the services in force say the same already"
		}
		return "settings beside the services changed"
	}
	added, changed, removed := namesByKind(differences)
	return "added " + listNames(added) + "; changed " + listNames(changed) + "; removed " + listNames(removed)
}

func namesByKind(differences []Difference) (added, changed, removed []string) {
	for _, d := range differences {
		name := d.Service
		if d.Instance != "" {
			name += " " + ShortID(d.Instance)
		}
		switch d.Kind {
		case Added:
			added = append(added, name)
		case Removed:
			removed = append(removed, name)
		default:
			if d.Field == "instances" {
				changed = append(changed, name+" order of the instances")
				continue
			}
			changed = append(changed, name+" "+d.change())
		}
	}
	return added, changed, removed
}

// listNames counts names and gives the first of them.
func listNames(names []string) string {
	const most = 10
	switch {
	case len(names) == 0:
		return "nothing"
	case len(names) > most:
		return fmt.Sprintf("%d (%s, …)", len(names), strings.Join(names[:most], ", "))
	}
	return fmt.Sprintf("%d (%s)", len(names), strings.Join(names, ", "))
}
