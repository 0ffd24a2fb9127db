package importer

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"
	_ "modernc.org/sqlite" // the driver of the database files

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/discover"
)

// channel is a channel of one-api or new-api.
type channel struct {
	node         *yaml.Node // nil for one of a database
	setting      string
	number       int // its type
	name         string
	key          string // several with line breaks between them
	baseURL      string
	models       string // with commas between them
	modelMapping string // a JSON object
	status       int
	weight       float64
	priority     int64
}

// channelKind is what stands behind a channel of some type.
type channelKind struct{ adapter, baseURL, variable string }

// sharedKinds have the same numbers in both gateways; the others are below.
var sharedKinds = map[int]channelKind{
	1:  {"openai", "https://api.openai.com", "OPENAI_API_KEY"},
	6:  {"openai", "https://api.openaimax.com", "OPENAIMAX_API_KEY"},
	7:  {"openai", "https://api.ohmygpt.com", "OHMYGPT_API_KEY"},
	8:  {"openai", "", "CUSTOM_API_KEY"},
	14: {"anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"},
	20: {"openai", "https://openrouter.ai/api", "OPENROUTER_API_KEY"},
	24: {"gemini", "https://generativelanguage.googleapis.com", "GEMINI_API_KEY"},
	25: {"openai", "https://api.moonshot.cn", "MOONSHOT_API_KEY"},
	31: {"openai", "https://api.lingyiwanwu.com", "LINGYIWANWU_API_KEY"},
}

var oneAPIKinds = map[int]channelKind{
	28: {"openai", "https://api.mistral.ai", "MISTRAL_API_KEY"},
	29: {"openai", "https://api.groq.com/openai", "GROQ_API_KEY"},
	30: {"ollama", "http://127.0.0.1:11434", "OLLAMA_API_KEY"},
	32: {"openai", "https://api.stepfun.com", "STEPFUN_API_KEY"},
	36: {"openai", "https://api.deepseek.com", "DEEPSEEK_API_KEY"},
	39: {"openai", "https://api.together.xyz", "TOGETHERAI_API_KEY"},
}

var newAPIKinds = map[int]channelKind{
	4:  {"ollama", "http://127.0.0.1:11434", "OLLAMA_API_KEY"},
	38: {"jina", "https://api.jina.ai", "JINA_API_KEY"},
	40: {"openai", "https://api.siliconflow.cn", "SILICONFLOW_API_KEY"},
	42: {"openai", "https://api.mistral.ai", "MISTRAL_API_KEY"},
	43: {"openai", "https://api.deepseek.com", "DEEPSEEK_API_KEY"},
	47: {"xinference", "", "XINFERENCE_API_KEY"},
	48: {"openai", "https://api.x.ai", "XAI_API_KEY"},
}

func (d *draft) kindOf(number int) (channelKind, bool) {
	own := oneAPIKinds
	if d.source == NewAPI {
		own = newAPIKinds
	}
	if kind, known := own[number]; known {
		return kind, true
	}
	kind, known := sharedKinds[number]
	return kind, known
}

// channelsOf returns the list of channels in an export: the list itself, or the reply
// of the gateway's API.
func channelsOf(root *yaml.Node) []*yaml.Node {
	for _, list := range []*yaml.Node{resolved(root), at(root, "data"), at(root, "data", "items"), at(root, "channels")} {
		if found := items(list); len(found) > 0 && at(found[0], "models") != nil && at(found[0], "type") != nil {
			return found
		}
	}
	return nil
}

// oneAPI reads an export of channels.
func (d *draft) oneAPI(root *yaml.Node) error {
	list := channelsOf(root)
	if list == nil {
		return errors.New("there is no list of channels: export the reply of GET /api/channel, or give the SQLite file (of MySQL and PostgreSQL, export the table channels as JSON)")
	}
	for _, name := range []string{"success", "message", "total", "page", "page_size", "type_counts"} {
		d.use(at(root, name))
		d.use(at(root, "data", name))
	}
	var channels []channel
	for i, n := range list {
		number, _ := d.number(n, "type")
		status, hasStatus := d.number(n, "status")
		if !hasStatus {
			status = 1
		}
		weight, _ := d.number(n, "weight")
		priority, _ := d.number(n, "priority")
		mapping := ""
		if m := at(n, "model_mapping"); m != nil && m.Kind == yaml.MappingNode {
			object := map[string]string{}
			for _, e := range entries(m) {
				object[e.key] = d.text(e.value)
			}
			data, _ := json.Marshal(object) // texts can be written
			mapping = string(data)
		} else {
			mapping = d.text(n, "model_mapping")
		}
		channels = append(channels, channel{
			node: n, setting: fmt.Sprintf("channels[%d]", i), number: int(number), name: d.text(n, "name"), key: d.text(n, "key"),
			baseURL: d.text(n, "base_url"), models: d.text(n, "models"), modelMapping: mapping, status: int(status), weight: weight, priority: int64(priority),
		})
		if group := d.text(n, "group"); group != "" && group != "default" {
			d.unsupported(at(n, "group"), fmt.Sprintf("channels[%d].group", i), "there are no groups of users; limit keys to models (patchbay keys create --model)")
		}
		for _, unused := range []string{"id", "created_time", "test_time", "response_time", "balance", "balance_updated_time", "used_quota", "tag", "auto_ban", "other", "other_info", "test_model", "channel_info"} {
			d.use(at(n, unused))
		}
	}
	d.channels(channels)
	return nil
}

// maxTier is the last tier that an instance can have.
const maxTier = 100

// channels makes instances of channels. Those of the highest priority are in tier 0.
func (d *draft) channels(channels []channel) {
	var priorities []int64 // the highest first
	for _, c := range channels {
		priorities = append(priorities, c.priority)
	}
	slices.SortFunc(priorities, func(a, b int64) int { return cmp.Compare(b, a) })
	priorities = slices.Compact(priorities)
	for _, c := range channels {
		tier := min(slices.Index(priorities, c.priority), maxTier)
		kind, known := d.kindOf(c.number)
		if !known {
			d.unsupported(c.node, c.setting, "no adapter speaks to channels of type %d (%s); if it has an OpenAI-compatible endpoint, add it with that address", c.number, c.name)
			continue
		}
		kind.baseURL = strings.TrimRight(firstOf(c.baseURL, kind.baseURL), "/")
		if kind.baseURL == "" {
			d.unsupported(c.node, c.setting, "it has no base_url, and its type no usual address")
			continue
		}
		d.channel(c, kind, tier)
	}
}

func (d *draft) channel(c channel, kind channelKind, tier int) {
	mapping := map[string]string{}
	if c.modelMapping != "" {
		if err := json.Unmarshal([]byte(c.modelMapping), &mapping); err != nil {
			d.unsupported(c.node, c.setting+".model_mapping", "it is no JSON object of texts")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mapping)) {
		if !slices.ContainsFunc(strings.Split(c.models, ","), func(model string) bool { return strings.TrimSpace(model) == name }) {
			d.unsupported(c.node, c.setting+".model_mapping."+name, "the channel does not list this model, so nobody can ask for it")
		}
	}
	keys := strings.Fields(c.key)
	if len(keys) == 0 {
		d.changed(c.node, c.setting+".key", "an export has no keys: set the variable, or import the database")
		keys = []string{"os.environ/" + kind.variable}
	}
	for _, model := range strings.Split(c.models, ",") {
		if model = strings.TrimSpace(model); model == "" {
			continue
		}
		serviceType := discover.GuessService(model)
		if kinds.Check(kind.adapter, serviceType) != nil {
			d.unsupported(c.node, c.setting+" "+model, "the adapter %s does not serve %s", kind.adapter, serviceType)
			continue
		}
		for _, key := range keys {
			i := instance{name: model, baseURL: kind.baseURL, adapter: kind.adapter, upstreamModel: mapping[model], weight: c.weight, tier: tier, disabled: c.status != 1}
			i.apiKey = d.secret(key, c.setting+".key", c.name+"_API_KEY")
			d.addInstance(c.node, c.setting, serviceType, i)
		}
	}
}

// readDatabase reads the channels of a SQLite file, which is not changed.
func readDatabase(file string) ([]channel, error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(context.Background(), `SELECT id, type, COALESCE(name, ''), COALESCE(key, ''), COALESCE(base_url, ''), COALESCE(models, ''),
		COALESCE(model_mapping, ''), COALESCE(status, 1), COALESCE(weight, 0), COALESCE(priority, 0) FROM channels ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer func() { _ = rows.Close() }()
	var channels []channel
	for rows.Next() {
		var c channel
		var id int64
		if err := rows.Scan(&id, &c.number, &c.name, &c.key, &c.baseURL, &c.models, &c.modelMapping, &c.status, &c.weight, &c.priority); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		c.setting = "channel " + strconv.FormatInt(id, 10)
		channels = append(channels, c)
	}
	return channels, rows.Err()
}
