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
	"github.com/patchbay-ai/patchbay/internal/route/discover"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/services"
)

// channel is a channel of one-api or new-api.
type channel struct {
	reading.Setting
	name    string
	keys    []string
	keysOff map[string]bool // by their position
	// isKeyless is true if it has no key, although the others came with theirs.
	isKeyless bool
	variable  string // that has its key if the export has none
	kind      services.Channel
	version   string // of the API of Azure
	keepDots  bool   // in the names of deployments
	mapping   map[string]string
	headers   []reading.Setting
	proxy     string
	isOff     bool
	weight    float64
	priority  int64
}

// channelsOf returns the list of channels in a reply of the gateway's API, in a list of
// such replies, or the list itself.
func channelsOf(root reading.Setting) (all []reading.Setting) {
	for _, list := range []reading.Setting{root, root.At("data"), root.At("data", "items"), root.At("channels")} {
		if found := list.Items(); len(found) > 0 && found[0].At("models").Exists() && found[0].At("type").Exists() {
			return found
		}
	}
	for _, page := range root.Items() {
		if page.At("data").Exists() {
			all = append(all, channelsOf(page)...)
		}
	}
	return all
}

// oneAPI reads exports of channels, or a database.
func (d *draft) oneAPI(files []File) error {
	var pages, replies, nodes []reading.Setting
	for _, file := range files {
		documents, err := d.channelDocuments(file)
		if err != nil {
			return err
		}
		pages = append(pages, documents...)
	}
	for _, page := range pages {
		list := channelsOf(page)
		if list == nil && !page.At("data").Exists() {
			return errors.New("there is no list of channels: export the reply of GET /api/channel, or give the " +
				"SQLite file (of MySQL and PostgreSQL, export the table channels as JSON)")
		}
		nodes = append(nodes, list...)
		replies = append(append(replies, page), page.Items()...)
	}
	for _, reply := range replies {
		for _, envelope := range []reading.Setting{reply, reply.At("data")} {
			envelope.Use("success", "message", "page", "page_size", "type_counts")
		}
	}
	nodes = distinct(nodes)
	d.pageNotes(pages, replies, nodes)
	var channels []channel
	for i := range nodes {
		nodes[i] = nodes[i].As(fmt.Sprintf("channels[%d]", i))
		if c, ok := d.readChannel(nodes[i]); ok {
			channels = append(channels, c)
		}
	}
	d.nameKeys(channels)
	d.channels(channels)
	d.records(nodes)
	for _, n := range nodes {
		d.leftovers(n)
		n.Use()
	}
	for _, page := range pages {
		d.leftovers(page)
	}
	return nil
}

// nameKeys names the variable with the key for channels that came without one. If no
// channel came with its key the export has none; otherwise the others need none.
func (d *draft) nameKeys(channels []channel) {
	hasKeys := slices.ContainsFunc(channels, func(c channel) bool { return len(c.keys) > 0 })
	users := map[string]int{}
	for _, c := range channels {
		users[c.kind.Variable]++
	}
	for i := range channels {
		c := &channels[i]
		if c.isKeyless = hasKeys && len(c.keys) == 0; c.isKeyless || len(c.keys) > 0 {
			continue
		}
		if c.variable = c.kind.Variable; users[c.variable] > 1 {
			c.variable = d.freeName(cmp.Or(c.name, c.Name) + "_API_KEY")
		}
		d.variable(Variable{Name: c.variable, From: c.Name + ".key"})
		c.As(c.Name+".key").Changed("an export has no keys: set the variable %s, or import the database", c.variable)
		info := c.At("channel_info")
		if size, given := info.Number("multi_key_size"); given && size > 1 {
			info.Unsupported("it has %d keys, of which there is room for one without the database", int(size))
		}
	}
}

// channelDocuments returns the replies of a file, or the channels of a database in the
// same form.
func (d *draft) channelDocuments(file File) ([]reading.Setting, error) {
	if !isSQLite(file.Content) {
		return d.parseAll(file)
	}
	root, err := readDatabase(file.Name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name, err)
	}
	return []reading.Setting{d.Own(root, file.Name)}, nil
}

// distinct drops channels that are on several pages, because pages move while they are
// read.
func distinct(nodes []reading.Setting) []reading.Setting {
	seen := map[string]bool{}
	return slices.DeleteFunc(nodes, func(n reading.Setting) bool {
		id := n.Text("id")
		if id == "" || !seen[id] {
			seen[id] = true
			return false
		}
		n.As("channel " + id).NotInForce("it is in the export already")
		return true
	})
}

// onePage is how many channels a page of one-api has. The page has no total number of
// channels.
const onePage = 10

// pageNotes reports channels that are on pages which were not given.
func (d *draft) pageNotes(pages, replies, nodes []reading.Setting) {
	advice := "give the replies for ?p=0, ?p=1 and so on as further files, or import the database"
	if d.source == NewAPI {
		advice = "give the replies for ?page_size=100&p=1, &p=2 and so on as further files, or import the database"
	}
	total := 0
	var where reading.Setting
	for _, reply := range replies {
		for _, n := range []reading.Setting{reply.At("data", "total"), reply.At("total")} {
			if value, given := n.Number(); given && int(value) > total {
				total, where = int(value), n.As("total")
			}
		}
	}
	switch {
	case total > len(nodes):
		where.Unsupported("the export has %d of %d channels: %s", len(nodes), total, advice)
	case total == 0 && d.source == OneAPI && len(pages) == 1 && len(nodes) == onePage && nodes[0].Text("key") == "":
		pages[0].As("data").Changed("%d channels are a whole page of one-api: if there are more, %s", onePage, advice)
	}
}

// recorded are members of channels that are records of the old gateway and no settings.
var recorded = []string{"id", "created_time", "test_time", "response_time", "balance", "balance_updated_time",
	"used_quota", "other_info"}

// records names them once for all channels.
func (d *draft) records(nodes []reading.Setting) {
	found := slices.DeleteFunc(slices.Clone(recorded), func(name string) bool {
		return !slices.ContainsFunc(nodes, func(n reading.Setting) bool { return !n.At(name).IsEmpty() })
	})
	if len(found) > 0 {
		d.about("channels").NotInForce("%s: records of %s, and no settings", strings.Join(found, ", "), d.source)
	}
}

// readChannel reads a channel.
func (d *draft) readChannel(n reading.Setting) (channel, bool) {
	number, _ := n.Number("type")
	c := channel{Setting: n, name: n.Text("name"), mapping: object(n.At("model_mapping")),
		keys: strings.Fields(n.Text("key"))}
	if status, given := n.Number("status"); given {
		c.isOff = status != 1
	}
	c.weight, _ = n.Number("weight")
	priority, _ := n.Number("priority")
	c.priority = int64(priority)
	created, _ := n.Number("created_time")
	const dotsKeptFrom = 1746835200 // 10 May 2025: since then new-api leaves the names of deployments alone
	c.keepDots = d.source == NewAPI && created >= dotsKeptFrom
	n.Use(recorded...)
	c.keysOff = map[string]bool{}
	for _, status := range n.At("channel_info", "multi_key_status_list").Entries() {
		c.keysOff[status.Key] = status.Text() != "1"
	}
	n.Use("channel_info")
	if group := n.At("group"); group.Text() != "" && group.Text() != "default" {
		group.Unsupported("there are no groups of users; limit keys to models (patchbay keys create --model)")
	}
	if ban := n.At("auto_ban"); ban.Text() == "0" {
		ban.Unsupported("the breaker is set for a service type, not for an instance")
	}
	kind, known := services.FindChannel(int(number), d.source == NewAPI)
	if provider := services.Instead(int(number)); !known && provider != "" {
		n.Unsupported("channels of type %d (%s) have keys of an earlier API; make one for the API of "+
			"OpenAI's shape, and add it with patchbay add %s", int(number), c.name, provider)
		return c, false
	}
	if !known {
		n.Unsupported("no adapter speaks to channels of type %d (%s); if it has an OpenAI-compatible "+
			"endpoint, add it with that address", int(number), c.name)
		return c, false
	}
	c.kind = kind
	c.kind.BaseURL = cmp.Or(strings.TrimRight(n.Text("base_url"), "/"), c.kind.BaseURL)
	if c.kind.BaseURL == "" {
		n.Unsupported("it has no base_url, and its type no usual address")
		return c, false
	}
	d.channelDetails(&c)
	return c, true
}

// channelDetails reads settings that only some channels have.
func (d *draft) channelDetails(c *channel) {
	config, setting, overrides := object(c.At("config")), object(c.At("setting")), object(c.At("header_override"))
	if c.kind.Adapter == "azure" {
		other := c.Text("other")
		c.version = cmp.Or(config["api_version"], other)
		if d.source == NewAPI {
			c.version = cmp.Or(other, "2025-04-01-preview") // the default of new-api
		}
	}
	override := c.At("header_override")
	if overrides["OpenAI-Organization"] == "" && c.Text("openai_organization") != "" {
		overrides["OpenAI-Organization"] = c.Text("openai_organization")
	}
	for _, name := range sortedKeys(overrides) {
		header := override.As(override.Name + "." + name)
		if strings.Contains(overrides[name], "{") { // new-api puts the key or a header of the caller there
			header.Partly("headers have fixed values")
			continue
		}
		header = header.With(overrides[name])
		header.Key = name
		c.headers = append(c.headers, header)
	}
	proxy := c.At("setting").As(c.Name + ".setting.proxy")
	switch parsed, err := url.Parse(setting["proxy"]); {
	case setting["proxy"] == "":
	case !strings.HasPrefix(setting["proxy"], "http://") && !strings.HasPrefix(setting["proxy"], "https://"):
		proxy.Partly("only proxies that speak HTTP are used")
	case err != nil || parsed.User == nil:
		c.proxy = escaped(setting["proxy"])
	default: // it may have a password
		c.proxy = d.secretProxy(proxy.With(setting["proxy"]), c.name+"_PROXY")
	}
	delete(setting, "proxy")
	delete(config, "api_version")
	members := map[string]map[string]string{"setting": setting, "config": config}
	for _, name := range []string{"setting", "config"} {
		for _, key := range sortedKeys(members[name]) {
			if value := members[name][key]; value != "" && value != "false" && value != "0" {
				c.At(name).As(c.Name + "." + name + "." + key).Partly("the import makes nothing of it")
			}
		}
	}
}

// object reads a mapping of texts, which may be a text of JSON itself. Members that are no
// texts are written as JSON.
func object(n reading.Setting) map[string]string {
	object := map[string]string{}
	for _, member := range n.Entries() {
		object[member.Key] = member.Text()
	}
	text := n.Text()
	if text == "" {
		return object
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		n.Unsupported("it is no object of JSON")
		return object
	}
	for key, value := range members {
		if text, isText := value.(string); isText {
			object[key] = text
		} else if data, err := json.Marshal(value, json.Deterministic(true)); err == nil && string(data) != "null" {
			object[key] = string(data)
		}
	}
	return object
}

// maxTier is the last tier that an instance can have.
const maxTier = 100

// channels makes instances of channels. Channels of the highest priority are in tier 0.
func (d *draft) channels(channels []channel) {
	var priorities []int64 // the highest first
	for _, c := range channels {
		priorities = append(priorities, c.priority)
	}
	slices.SortFunc(priorities, func(a, b int64) int { return cmp.Compare(b, a) })
	priorities = slices.Compact(priorities)
	for _, c := range channels {
		d.channel(c, min(slices.Index(priorities, c.priority), maxTier))
	}
}

func (d *draft) channel(c channel, tier int) {
	var models []string
	for model := range strings.SplitSeq(c.Text("models"), ",") {
		if model = strings.TrimSpace(model); model != "" {
			models = append(models, model)
		}
	}
	if len(models) == 0 {
		c.Unsupported("it lists no models")
		return
	}
	for _, name := range sortedKeys(c.mapping) {
		if !slices.Contains(models, name) {
			c.At("model_mapping").As(c.Name + ".model_mapping." + name).Partly(
				"the channel does not list this model, so nobody can ask for it")
		}
	}
	keys := c.keys
	if len(keys) == 0 {
		keys = []string{""}
	}
	for _, model := range models {
		serviceType := discover.GuessService(model)
		if kinds.Check(c.kind.Adapter, serviceType) != nil {
			c.As(c.Name+" "+model).Partly("the adapter %s does not serve %s", c.kind.Adapter, serviceType)
			continue
		}
		for position, key := range keys {
			upstream := c.upstream(model)
			baseURL, path := c.kind.Where(serviceType, upstream, model)
			i := instance{
				name: escaped(model), adapter: c.kind.Adapter, upstreamModel: escaped(upstream),
				baseURL: escaped(baseURL), path: escaped(path), apiVersion: escaped(c.version), weight: c.weight,
				tier: tier, disabled: c.isOff || c.keysOff[strconv.Itoa(position)], proxy: c.proxy,
			}
			if key != "" {
				i.apiKey = d.secret(c.At("key").With(key), c.name+"_API_KEY")
			} else if !c.isKeyless {
				i.apiKey = "${" + c.variable + ":}"
			}
			i.headers = d.secretHeaders(c.headers, c.name+"_")
			d.addInstance(c.Setting, serviceType, i)
		}
	}
}

// upstream returns the name that a backend has for a model, empty if it is the same.
func (c channel) upstream(model string) string {
	name := cmp.Or(c.mapping[model], model)
	if c.kind.Adapter == "azure" && !c.keepDots {
		name = strings.ReplaceAll(name, ".", "") // as the gateway does it for deployments
	}
	if name == model {
		return ""
	}
	return name
}

// readDatabase reads the channels of a SQLite file, which is not changed, with all of
// their columns.
func readDatabase(file string) (*yaml.Node, error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(context.Background(), "SELECT * FROM channels ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	list := []map[string]*string{}
	for rows.Next() {
		values, targets := make([]*string, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		row := map[string]*string{}
		for i, column := range columns {
			row[column] = values[i]
		}
		list = append(list, row)
	}
	root := new(yaml.Node)
	return root, cmp.Or(rows.Err(), root.Encode(list))
}

func sortedKeys(texts map[string]string) []string { return slices.Sorted(maps.Keys(texts)) }
