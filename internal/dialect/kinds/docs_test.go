package kinds

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const documentation = "../../../docs/adapters.md"

// quirkTexts say in the documentation what a quirk means; every one has a text.
var quirkTexts = map[string]string{
	"TextDocuments":   "documents are sent as texts",
	"Continues":       "goes on with an answer that another instance began",
	"UnwrapDocuments": "documents with a text are sent as texts",
}

// routeRows are the rows of the table of routes: adapter by service type.
func routeRows(t *testing.T) []string {
	t.Helper()
	var rows []string
	for _, kind := range table {
		for _, service := range schema.ServiceTypes() {
			if _, ok := kind.Routes[service]; !ok {
				continue
			}
			target, err := kind.Target(service, dialect.Endpoint{BaseURL: "http://backend.test"})
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row(code(kind.Name), code(service.String()), code(target.Path), quirksOf(t, kind, service)))
		}
	}
	return rows
}

// kindRows are the rows of the table of adapters.
func kindRows() []string {
	var rows []string
	for _, kind := range table {
		var aliases, headers []string
		for _, alias := range kind.Aliases {
			aliases = append(aliases, code(alias))
		}
		for _, header := range kind.Headers {
			headers = append(headers, code(header.Name+": "+header.Value))
		}
		health := "connecting is all that is tried"
		if kind.Health != "" {
			health = code("GET " + kind.HealthPath(dialect.Endpoint{BaseURL: "http://backend.test"}))
		}
		key := kind.Key("<key>")
		rows = append(rows, row(code(kind.Name), strings.Join(aliases, ", "), code(kind.TypeName), health, strings.Join(headers, ", "),
			code(key.Name+": "+key.Value)))
	}
	return rows
}

// tellRows are the rows of the table of questions to engines.
func tellRows() []string {
	var rows []string
	for _, kind := range table {
		var idle, busy []string
		for _, question := range kind.Tells {
			if question.Idle {
				idle = append(idle, code(question.Path))
			}
			if question.Busy {
				busy = append(busy, code(question.Path))
			}
		}
		if len(kind.Tells) > 0 {
			rows = append(rows, row(code(kind.Name), strings.Join(idle, ", "), strings.Join(busy, ", ")))
		}
	}
	return rows
}

func code(text string) string { return "`" + text + "`" }

func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |" }

// quirksOf lists the quirks of a kind that matter for a service type.
func quirksOf(t *testing.T, kind *dialect.Kind, service schema.ServiceType) string {
	t.Helper()
	about := map[string]schema.ServiceType{"Continues": schema.Chat, "TextDocuments": schema.Rerank, "UnwrapDocuments": schema.Rerank}
	quirks := reflect.ValueOf(kind.Quirks)
	var texts []string
	for i := range quirks.NumField() {
		name := quirks.Type().Field(i).Name
		text, known := quirkTexts[name]
		if !known {
			t.Fatalf("the quirk %s has no text: add it to quirkTexts and to quirksOf", name)
		}
		if !quirks.Field(i).IsZero() && about[name] == service {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

// tableBelow returns the rows of the first table below a heading.
func tableBelow(t *testing.T, document, heading string) []string {
	t.Helper()
	_, below, found := strings.Cut(document, "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", documentation, heading)
	}
	var rows []string
	for line := range strings.Lines(below) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if len(rows) > 0 {
				break
			}
			continue
		}
		rows = append(rows, line)
	}
	if len(rows) < 2 {
		t.Fatalf("%s has no table below %q", documentation, heading)
	}
	return rows[2:]
}

func readDocumentation(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// The documentation says of every adapter what the table of kinds says, in its
// order, and of no other.
func TestDocumentedAdapters(t *testing.T) {
	document := readDocumentation(t)
	for heading, want := range map[string][]string{"## Service types": routeRows(t), "## Names": kindRows(), "## What engines tell": tellRows()} {
		got := tableBelow(t, document, heading)
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("%s, below %q: add the row\n%s", documentation, heading, line)
			}
		}
		for _, line := range got {
			if !slices.Contains(want, line) {
				t.Errorf("%s, below %q: this row is not true (any more); remove it\n%s", documentation, heading, line)
			}
		}
		if !t.Failed() && !slices.Equal(got, want) {
			t.Errorf("%s, below %q: the rows are not in the order of kinds.go", documentation, heading)
		}
	}
}

// Every adapter has its notes.
func TestEveryAdapterHasNotes(t *testing.T) {
	var headings strings.Builder
	for line := range strings.Lines(readDocumentation(t)) {
		if strings.HasPrefix(line, "### ") {
			headings.WriteString(line)
		}
	}
	for _, kind := range table {
		if !strings.Contains(headings.String(), code(kind.Name)) {
			t.Errorf("%s: no heading of level 3 names %s; say there what is translated, refused and dropped", documentation, code(kind.Name))
		}
	}
}

// The transcripts that the notes point to exist.
func TestDocumentedTranscripts(t *testing.T) {
	for word := range strings.FieldsFuncSeq(readDocumentation(t), func(r rune) bool { return strings.ContainsRune(" `|()\n,;", r) }) {
		name, ok := strings.CutPrefix(word, "golden/")
		if !ok || strings.Contains(name, "<") {
			continue
		}
		if _, err := os.Stat("testdata/golden/" + name + ".txt"); err != nil {
			t.Error(fmt.Errorf("%s points to a transcript that is not there: %w", documentation, err))
		}
	}
}

// The documentation lists the words that mean something else than a fault of the
// backend, for every adapter that goes by them.
func TestDocumentedErrorPatterns(t *testing.T) {
	rows := tableBelow(t, readDocumentation(t), "## What a backend's words mean")
	for _, kind := range table {
		for _, list := range kind.ErrorPatterns {
			for meaning, texts := range map[string][]string{"| request": list.Faults, "| busy": list.Overloads, "| end": list.Deaths} {
				for _, text := range texts {
					documented := func(row string) bool {
						return strings.Contains(row, code(kind.Name)) && strings.Contains(row, code(strings.TrimSpace(text))) && strings.Contains(row, meaning)
					}
					if !slices.ContainsFunc(rows, documented) {
						t.Errorf("%s: no row of %s has %q with its meaning", documentation, kind.Name, text)
					}
				}
			}
		}
	}
}

// The documentation says which adapters have which further endpoints.
func TestDocumentedDoors(t *testing.T) {
	rows := tableBelow(t, readDocumentation(t), "Some backends have further endpoints of the API, whose requests are passed to them:")
	for door, path := range map[schema.Door]string{
		schema.DoorCompletions: "/v1/completions", schema.DoorModerations: "/v1/moderations", schema.DoorTranslations: "/v1/audio/translations",
	} {
		i := slices.IndexFunc(rows, func(row string) bool {
			return strings.HasPrefix(row, "| "+code("POST "+path)+" | "+code(door.Service().String()))
		})
		if i < 0 {
			t.Errorf("%s: there is no row for %s", documentation, path)
			continue
		}
		for _, kind := range table {
			if _, has := kind.Native[door]; has != strings.Contains(rows[i], code(kind.Name)) {
				t.Errorf("%s: %s has %s: %v", documentation, kind.Name, path, has)
			}
		}
	}
}
