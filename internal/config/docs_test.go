package config

import (
	"encoding"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

const documentation = "../../docs/configuration.md"

// documentedKey is what the documentation has to say of one setting, beside what
// it means.
type documentedKey struct {
	section string // heading of its table
	key     string
	typ     string
	value   string // by default
	env     string
	path    string // of an example of it
	// isOnlyInFile says that neither the environment nor --set can set it, isNamed that the
	// environment cannot, because users choose a part of its name.
	isOnlyInFile, isNamed bool
}

// cells are those of its row.
func (k documentedKey) cells() []string {
	if k.isNamed || k.isOnlyInFile {
		return []string{backticks(k.key), k.typ, k.value, "none"}
	}
	return []string{backticks(k.key), k.typ, k.value, backticks(k.env)}
}

func backticks(text string) string { return "`" + text + "`" }

// keysOf walks a type and the defaults of it, and lists every setting.
func keysOf(at documentedKey, value reflect.Value) []documentedKey {
	typ := value.Type()
	switch {
	case typ.Kind() == reflect.Pointer: // a setting that may be left open
		at.typ, at.value = typeText(typ.Elem()), "none"
		return []documentedKey{at}
	case isTextMap(typ) && isSettings(typ.Elem()):
		at.key, at.path, at.isNamed = join(at.key, "NAME"), keyed(at.path, "NAME"), true
		at.isOnlyInFile = at.isOnlyInFile || strings.HasPrefix(at.key, "processes.")
		return keysOf(at, freshValue(typ.Elem()))
	case isScalarType(typ), typ == reflect.TypeFor[netip.Prefix](), isTextMap(typ), typ.Kind() == reflect.Slice && !isSettings(typ.Elem()):
		at.typ, at.value = typeText(typ), valueText(value)
		return []documentedKey{at}
	case typ.Kind() == reflect.Slice:
		return keysOf(at.item(), defaultOf(typ.Elem()))
	case typ.Kind() == reflect.Map:
		at.path += ".chat"
		at.env += "_<TYPE>"
		at.key = ""
		return keysOf(at, value.MapIndex(reflect.ValueOf(schema.Chat)))
	}
	var keys []documentedKey
	for _, f := range fieldsOf(typ) {
		member := at.member(f.name)
		member.isOnlyInFile = at.isOnlyInFile || typ.FieldByIndex(f.index).Tag.Get("from") == "file"
		keys = append(keys, keysOf(member, value.FieldByIndex(f.index))...)
	}
	return keys
}

func isSettings(typ reflect.Type) bool { return typ.Kind() == reflect.Struct && !isScalarType(typ) }

// member returns the place of a field.
func (k documentedKey) member(name string) documentedKey {
	if k.section == "" {
		k.section = "## " + name
	}
	k.key, k.path = join(k.key, name), join(k.path, name)
	k.env += "_" + variableName(name)
	return k
}

// item returns the place of an item of a list, whose settings have a table of
// their own.
func (k documentedKey) item() documentedKey {
	name := k.path[strings.LastIndexByte(k.path, '.')+1:]
	k.section, k.key = "### "+name, ""
	k.path, k.env = k.path+"[0]", k.env+"_<N>"
	return k
}

func defaultOf(typ reflect.Type) reflect.Value {
	if typ == reflect.TypeFor[backend.Settings]() {
		return reflect.ValueOf(backend.DefaultSettings())
	}
	return freshValue(typ)
}

// typeText says how a value of a type is written.
func typeText(typ reflect.Type) string {
	switch typ {
	case reflect.TypeFor[schema.Bytes]():
		return "size"
	case reflect.TypeFor[schema.Duration](), reflect.TypeFor[quota.Timeout]():
		return "duration"
	case reflect.TypeFor[metrics.Interval]():
		return "interval"
	case reflect.TypeFor[quota.Period]():
		return "period"
	case reflect.TypeFor[netip.Prefix]():
		return "address range"
	case reflect.TypeFor[prices.Amount]():
		return "amount"
	case reflect.TypeFor[backend.Secret]():
		return "text"
	case reflect.TypeFor[backend.Concurrency]():
		return "integer, auto"
	}
	if _, names := namesOf(typ); names != nil {
		return strings.Join(names, ", ")
	}
	if _, single := reflect.Zero(typ).Interface().(oneOrMore); single {
		return "text, or list: text"
	}
	switch typ.Kind() {
	case reflect.Slice:
		return "list: " + typeText(typ.Elem())
	case reflect.Map:
		return "mapping of texts"
	case reflect.Bool:
		return "true, false"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "text"
	}
	return "integer"
}

// valueText writes a value as a file would.
func valueText(value reflect.Value) string {
	text := plainText(value)
	if text == "" {
		return "none"
	}
	return backticks(text)
}

func plainText(value reflect.Value) string {
	_, isNamed := value.Interface().(interface{ Names() []string })
	switch v := value.Interface().(type) {
	case backend.Secret:
		return v.Reveal()
	case schema.Duration:
		if v == 0 {
			return "0"
		}
		text := v.String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		return text
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return err.Error()
		}
		if isNamed && strings.ToUpper(string(text)) != string(text) {
			return Kebab(string(text))
		}
		return string(text)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	switch value.Kind() {
	case reflect.Slice:
		var items []string
		for i := range value.Len() {
			items = append(items, plainText(value.Index(i)))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Map:
		if value.Len() == 0 {
			return "{}"
		}
	}
	return fmt.Sprint(value.Interface())
}

// rowsBelow returns the cells of every row of the first table below a heading.
func rowsBelow(t *testing.T, document, heading string) [][]string {
	t.Helper()
	_, below, found := strings.Cut(document, "\n"+heading+"\n")
	if !found {
		t.Errorf("%s: add the heading %q and below it the table | key | type | default | environment | meaning |", documentation, heading)
		return nil
	}
	var rows [][]string
	for line := range strings.Lines(below) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if len(rows) > 0 || strings.HasPrefix(line, "#") {
				break
			}
			continue
		}
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), " | ") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	if len(rows) < 2 {
		t.Errorf("%s: no table below %q", documentation, heading)
		return nil
	}
	return rows[2:]
}

func documentedKeys() []documentedKey {
	return keysOf(documentedKey{env: strings.TrimSuffix(environmentPrefix, "_")}, reflect.ValueOf(*Default()))
}

// The documentation has every setting with its type, its default and the name
// that it has in the environment, and no other.
func TestDocumentedSettings(t *testing.T) {
	content, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	document := string(content)
	want := documentedKeys()
	var sections []string
	for _, key := range want {
		if !slices.Contains(sections, key.section) {
			sections = append(sections, key.section)
		}
	}
	for _, section := range sections {
		rows := rowsBelow(t, document, section)
		known := map[string]bool{}
		for _, key := range want {
			if key.section != section {
				continue
			}
			cells := key.cells()
			known[cells[0]] = true
			at := slices.IndexFunc(rows, func(row []string) bool { return row[0] == cells[0] })
			switch {
			case at < 0:
				t.Errorf("%s, below %q: add the row\n| %s | (what it means) |", documentation, section, strings.Join(cells, " | "))
			case len(rows[at]) != 5 || rows[at][4] == "":
				t.Errorf("%s, below %q: the row of %s needs five cells, the last of which says what it means", documentation, section, cells[0])
			case !slices.Equal(rows[at][:4], cells):
				t.Errorf("%s, below %q: change the row of %s to begin with\n| %s |\nnow it begins with\n| %s |",
					documentation, section, cells[0], strings.Join(cells, " | "), strings.Join(rows[at][:4], " | "))
			}
		}
		for _, row := range rows {
			if !known[row[0]] && !isOfMissingWing(row[0]) {
				t.Errorf("%s, below %q: there is no setting %s (any more); remove the row", documentation, section, row[0])
			}
		}
	}
}

// isOfMissingWing reports whether a documented setting in a section of the core belongs to a
// wing that this tree does not have (make without).
func isOfMissingWing(setting string) bool {
	for beginning, wing := range map[string]string{
		"security.oidc": "signin", "security.jwt": "callertokens", "security.self-service": "selfservice",
		"limits.process-memory": "processes", "limits.websockets.": "realtime", "monitoring.calls-file.": "callsearch",
		"role": "signin",
	} {
		if _, err := os.Stat("../wings/" + wing); err != nil && strings.HasPrefix(strings.Trim(setting, "`"), beginning) {
			return true
		}
	}
	return false
}

// The names that the documentation gives for the environment and for --set are
// the ones that are read.
func TestDocumentedNamesAreRead(t *testing.T) {
	for _, key := range documentedKeys() {
		if to, err := findPlace(key.path); err != nil || to.path() != key.path || to.onlyInFile() != key.isOnlyInFile {
			t.Errorf("--set %s is read as %q, %v", key.path, to.path(), err)
		}
		if key.isNamed || key.isOnlyInFile {
			continue
		}
		name := strings.NewReplacer("<TYPE>", "CHAT", "<N>", "0").Replace(key.env)
		words := strings.Split(strings.TrimPrefix(name, environmentPrefix), "_")
		if to, found := findByVariable(place{typ: reflect.TypeFor[Document]()}, words); !found || to.path() != key.path {
			t.Errorf("%s is read as %q, not as %s", name, to.path(), key.path)
		}
	}
}

// The examples in the documentation are configurations without mistakes.
func TestDocumentedExamples(t *testing.T) {
	content, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(content), "```yaml\n")
	if len(blocks) < 2 {
		t.Fatal("no examples")
	}
	for _, block := range blocks[1:] {
		example, _, _ := strings.Cut(block, "```")
		if _, err := Load(Source{File: "example.yaml", Content: []byte(example), Env: []string{"OLLAMA_KEY=k", "OPENAI_API_KEY=k"}}); err != nil {
			t.Errorf("%v\nin\n%s", err, example)
		}
	}
}
