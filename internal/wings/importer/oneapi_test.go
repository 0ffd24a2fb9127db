package importer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/wings/importer"
)

// TestAzureChannelsReachTheirDeployments sends a chat through imported channels of Azure
// and looks at what the backend gets: the deployment, the version of the API and the key.
func TestAzureChannelsReachTheirDeployments(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	for _, c := range []struct {
		source        importer.Source
		members, want string
	}{
		{importer.OneAPI, `"models":"gpt-4.1","config":"{\"api_version\":\"2024-06-01\"}"`, "/openai/deployments/gpt-41/chat/completions?api-version=2024-06-01"},
		{importer.OneAPI, `"models":"gpt-4.1","other":"2024-02-01"`, "/openai/deployments/gpt-41/chat/completions?api-version=2024-02-01"},
		{importer.OneAPI, `"models":"gpt-4.1","model_mapping":"{\"gpt-4.1\":\"prod\"}","config":""`, "/openai/deployments/prod/chat/completions?api-version=2024-10-21"},
		{importer.NewAPI, `"models":"gpt-4.1","created_time":1700000000,"other":"2024-06-01"`, "/openai/deployments/gpt-41/chat/completions?api-version=2024-06-01"},
		{importer.NewAPI, `"models":"gpt-4.1","created_time":1760000000`, "/openai/deployments/gpt-4.1/chat/completions?api-version=2025-04-01-preview"},
	} {
		result := importedText(t, c.source, `[{"id":1,"type":3,"status":1,"name":"azure","key":"sk-azure","base_url":"`+b.URL()+`/",`+c.members+`}]`)
		r := gatewaytest.Start(t, resolved(result, ""))
		r.Chat(strings.Replace(gatewaytest.PlainHi, `"m"`, `"gpt-4.1"`, 1)).Succeeds(t)
		if got := lastCall(t, b); got.Path != c.want || got.Header.Get("Api-Key") != "sk-azure" || got.Header.Get("Authorization") != "" {
			t.Errorf("%s with %s: %s %v", c.source, c.members, got.Path, got.Header)
		}
	}
}

// channelJSON is a channel of an export without keys.
func channelJSON(id int) string {
	return fmt.Sprintf(`{"id":%d,"type":1,"status":1,"name":"c%d","key":"","models":"gpt-%d"}`, id, id, id)
}

func page(ids ...int) string {
	var list []string
	for _, id := range ids {
		list = append(list, channelJSON(id))
	}
	return "[" + strings.Join(list, ",") + "]"
}

func TestPagesOfAnExport(t *testing.T) {
	reply := func(total int, ids ...int) string {
		return fmt.Sprintf(`{"success":true,"message":"","data":{"items":%s,"total":%d,"page":1,"page_size":2,"type_counts":{"1":%d}}}`, page(ids...), total, total)
	}
	plain := func(ids ...int) string { return `{"success":true,"message":"","data":` + page(ids...) + `}` }
	for _, c := range []struct {
		name      string
		source    importer.Source
		files     []string
		instances int
		want      string // a row, where one is wanted
	}{
		{"all pages", importer.NewAPI, []string{reply(3, 1, 2), reply(3, 3)}, 3, ""},
		{"one of two pages", importer.NewAPI, []string{reply(3, 1, 2)}, 2, "not supported | file1:1 | total | the export has 2 of 3 channels"},
		{"a channel on two pages", importer.NewAPI, []string{reply(3, 1, 2), reply(3, 2, 3)}, 3, "not in force | file2:1 | channel 2 |"},
		{"one after the other in a file", importer.NewAPI, []string{reply(3, 1, 2) + "\n" + reply(3, 3)}, 3, ""},
		{"a list of replies", importer.NewAPI, []string{"[" + reply(3, 1, 2) + "," + reply(3, 3) + "]"}, 3, ""},
		{"an empty last page", importer.NewAPI, []string{reply(2, 1, 2), reply(2)}, 2, ""},
		{"pages of one-api", importer.OneAPI, []string{plain(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), plain(11)}, 11, ""},
		{"a whole page of one-api", importer.OneAPI, []string{plain(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)}, 10, "changed | file1:1 | data | 10 channels are a whole page of one-api"},
		{"less than a page of one-api", importer.OneAPI, []string{plain(1, 2)}, 2, ""},
	} {
		result := importedText(t, c.source, c.files...)
		text := rendered(result)
		if got := strings.Count(result.YAML, "- name: "); got != c.instances || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d instances, want %d, and %q in\n%s", c.name, got, c.instances, c.want, text)
		}
		if c.want == "" && (strings.Contains(text, "| total |") || strings.Contains(text, "| data |")) {
			t.Errorf("%s: pages are missed:\n%s", c.name, text)
		}
		if strings.Contains(text, "there is no such setting") {
			t.Errorf("%s:\n%s", c.name, text)
		}
	}
	if _, err := importer.Import(importer.LiteLLM, importer.Input{Files: []importer.File{{Name: "a", Content: []byte("model_list: []")}, {Name: "b", Content: []byte("a: b")}}}); err == nil {
		t.Error("LiteLLM was read from two files")
	}
}

// TestChannelsWithoutKeysGetVariablesOfTheirOwn has two channels of one provider, whose
// keys must not be mixed up.
func TestChannelsWithoutKeysGetVariablesOfTheirOwn(t *testing.T) {
	result := importedText(t, importer.OneAPI, `{"data":[{"id":1,"type":1,"name":"first","models":"a"},{"id":2,"type":1,"name":"second","models":"a"},{"id":3,"type":14,"name":"third","models":"b"}]}`)
	for _, want := range []string{`"${FIRST_API_KEY:}"`, `"${SECOND_API_KEY:}"`, `"${ANTHROPIC_API_KEY:}"`} {
		if !strings.Contains(result.YAML, want) {
			t.Errorf("there is no %s in\n%s", want, result.YAML)
		}
	}
	result = importedText(t, importer.NewAPI, `[{"id":1,"type":1,"name":"many","key":"sk-a\nsk-b","models":"m","channel_info":{"is_multi_key":true,"multi_key_size":2,"multi_key_status_list":{"1":2}}},{"id":2,"type":4,"name":"local","models":"m"}]`)
	if strings.Count(result.YAML, "enabled: false") != 1 || strings.Count(result.YAML, "api-key") != 2 {
		t.Errorf("a key that is switched off, and a channel without one:\n%s", result.YAML)
	}
}

// Channels of Chinese providers become instances if the provider takes their keys; otherwise the row
// names the verb that adds the provider.
func TestChannelsOfProvidersThatAreKnown(t *testing.T) {
	for number, want := range map[int]string{
		15: "patchbay add qianfan", 16: `base-url: "https://open.bigmodel.cn/api/paas/v4"`, 17: `base-url: "https://dashscope.aliyuncs.com/compatible-mode"`,
		18: "patchbay add spark", 23: "patchbay add hunyuan", 33: "no adapter speaks",
	} {
		for _, source := range []importer.Source{importer.OneAPI, importer.NewAPI} {
			result := importedText(t, source, fmt.Sprintf(`[{"id":1,"type":%d,"status":1,"name":"c","key":"k","models":"m"},%s]`, number, channelJSON(2)))
			if text := rendered(result); !strings.Contains(text, want) {
				t.Errorf("%s, type %d: got no %q in\n%s", source, number, want, text)
			}
		}
	}
}
