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
	node    *yaml.Node
	setting string
	number  int // its type
	name    string
	keys    []string
	keysOff map[int]bool // by their position
	// isKeyless says that it has no key, although the others came with theirs.
	isKeyless bool
	variable  string // that has its key where the export has none
	kind      services.Channel
	version   string // of the API of Azure
	keepDots  bool   // in the names of deployments
	mapping   map[string]string
	headers   map[string]string
	proxy     string
	isOff     bool
	weight    float64
	priority  int64
}

// channelsOf returns the list of channels in a reply of the gateway's API, in a list of
// such replies, or the list itself.
func channelsOf(root *yaml.Node) []*yaml.Node {
	for _, list := range []*yaml.Node{reading.Resolved(root), reading.At(root, "data"),
		reading.At(root, "data", "items"), reading.At(root, "channels")} {
		if found := reading.Items(list); len(found) > 0 && reading.At(found[0], "models") != nil &&
			reading.At(found[0], "type") != nil {
			return found
		}
	}
	var all []*yaml.Node
	for _, page := range reading.Items(root) {
		if reading.At(page, "data") != nil {
			all = append(all, channelsOf(page)...)
		}
	}
	return all
}

// oneAPI reads exports of channels, or a database.
func (d *draft) oneAPI(files []File) error {
	var pages, nodes []*yaml.Node
	for _, file := range files {
		documents, err := d.channelDocuments(file)
		if err != nil {
			return err
		}
		pages = append(pages, documents...)
	}
	for _, page := range pages {
		list := channelsOf(page)
		if list == nil && len(reading.Items(reading.At(page, "data"))) == 0 && reading.At(page, "data") == nil {
			return errors.New("there is no list of channels: export the reply of GET /api/channel, or give the " +
				"SQLite file (of MySQL and PostgreSQL, export the table channels as JSON)")
		}
		nodes = append(nodes, list...)
		for _, reply := range append([]*yaml.Node{page}, reading.Items(page)...) {
			for _, name := range []string{"success", "message", "page", "page_size", "type_counts"} {
				d.Use(reading.At(reply, name))
				d.Use(reading.At(reply, "data", name))
			}
		}
	}
	nodes = d.distinct(nodes)
	d.pageNotes(pages, nodes)
	var channels []channel
	for i, n := range nodes {
		if c, ok := d.readChannel(n, i); ok {
			channels = append(channels, c)
		}
	}
	d.nameKeys(channels)
	d.channels(channels)
	d.records(nodes)
	for i, n := range nodes {
		d.leftovers(n, fmt.Sprintf("channels[%d]", i))
		d.Use(n)
	}
	for _, page := range pages {
		d.leftovers(page, "")
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
			c.variable = d.freeName(cmp.Or(c.name, c.setting) + "_API_KEY")
		}
		d.variable(Variable{Name: c.variable, From: c.setting + ".key"})
		d.Changed(c.node, c.setting+".key", "an export has no keys: set the variable %s, or import the database",
			c.variable)
		if size, given := d.Number(c.node, "channel_info", "multi_key_size"); given && size > 1 {
			d.Unsupported(reading.At(c.node, "channel_info"), c.setting+".channel_info",
				"it has %d keys, of which there is room for one without the database", int(size))
		}
	}
}

// channelDocuments returns the replies of a file, or the channels of a database in the
// same form.
func (d *draft) channelDocuments(file File) ([]*yaml.Node, error) {
	if !isSQLite(file.Content) {
		return d.parseAll(file)
	}
	root, err := readDatabase(file.Name)
	if err != nil {
		return nil, err
	}
	d.Own(root, file.Name)
	return []*yaml.Node{root}, nil
}

// distinct drops channels that are on several pages, because pages move while they are
// read.
func (d *draft) distinct(nodes []*yaml.Node) []*yaml.Node {
	seen := map[string]bool{}
	return slices.DeleteFunc(nodes, func(n *yaml.Node) bool {
		id := d.Text(n, "id")
		if id == "" || !seen[id] {
			seen[id] = true
			return false
		}
		d.NotInForce(n, "channel "+id, "it is in the export already")
		return true
	})
}

// onePage is how many channels a page of one-api has. The page does not tell the number of
// all channels.
const onePage = 10

// pageNotes tells of channels that are on pages which were not given.
func (d *draft) pageNotes(pages, nodes []*yaml.Node) {
	advice := "give the replies for ?p=0, ?p=1 and so on as further files, or import the database"
	if d.source == NewAPI {
		advice = "give the replies for ?page_size=100&p=1, &p=2 and so on as further files, or import the database"
	}
	total := 0
	var where *yaml.Node
	for _, page := range pages {
		for _, reply := range append([]*yaml.Node{page}, reading.Items(page)...) {
			for _, n := range []*yaml.Node{reading.At(reply, "data", "total"), reading.At(reply, "total")} {
				if value, given := d.Number(n); given && int(value) > total {
					total, where = int(value), n
				}
			}
		}
	}
	switch {
	case total > len(nodes):
		d.Unsupported(where, "total", "the export has %d of %d channels: %s", len(nodes), total, advice)
	case total == 0 && d.source == OneAPI && len(pages) == 1 && len(nodes) == onePage && d.Text(nodes[0], "key") == "":
		d.Changed(pages[0], "data", "%d channels are a whole page of one-api: if there are more, %s", onePage, advice)
	}
}

// recorded are members of channels that are records of the old gateway and no settings.
var recorded = []string{"id", "created_time", "test_time", "response_time", "balance", "balance_updated_time",
	"used_quota", "other_info"}

// records names them once for all channels.
func (d *draft) records(nodes []*yaml.Node) {
	found := slices.DeleteFunc(slices.Clone(recorded), func(name string) bool {
		return !slices.ContainsFunc(nodes, func(n *yaml.Node) bool { return !reading.IsEmpty(reading.At(n, name)) })
	})
	if len(found) > 0 {
		d.Add(reading.NotInForce, d.in.Files[0].Name, 0, "channels", strings.Join(found, ", ")+": records of "+
			string(d.source)+", and no settings")
	}
}

// readChannel reads a channel.
func (d *draft) readChannel(n *yaml.Node, position int) (channel, bool) {
	number, _ := d.Number(n, "type")
	c := channel{node: n, setting: fmt.Sprintf("channels[%d]", position), number: int(number), name: d.Text(n, "name")}
	c.mapping = d.object(n, c.setting, "model_mapping")
	if status, given := d.Number(n, "status"); given {
		c.isOff = status != 1
	}
	c.weight, _ = d.Number(n, "weight")
	priority, _ := d.Number(n, "priority")
	c.priority = int64(priority)
	c.keys = strings.Fields(d.Text(n, "key"))
	created, _ := d.Number(n, "created_time")
	const dotsKeptFrom = 1746835200 // 10 May 2025: since then new-api leaves the names of deployments alone
	c.keepDots = d.source == NewAPI && created >= dotsKeptFrom
	for _, name := range recorded {
		d.Use(reading.At(n, name))
	}
	for _, e := range reading.Entries(reading.At(n, "channel_info", "multi_key_status_list")) {
		if index, err := strconv.Atoi(e.Key); err == nil && d.Text(e.Value) != "1" {
			if c.keysOff == nil {
				c.keysOff = map[int]bool{}
			}
			c.keysOff[index] = true
		}
	}
	d.Use(reading.At(n, "channel_info"))
	if group := d.Text(n, "group"); group != "" && group != "default" {
		d.Unsupported(reading.At(n, "group"), c.setting+".group",
			"there are no groups of users; limit keys to models (patchbay keys create --model)")
	}
	if d.Text(n, "auto_ban") == "0" {
		d.Unsupported(reading.At(n, "auto_ban"), c.setting+".auto_ban",
			"the breaker is set for a service type, not for an instance")
	}
	kind, known := services.FindChannel(c.number, d.source == NewAPI)
	if provider := services.Instead(c.number); !known && provider != "" {
		d.Unsupported(n, c.setting, "channels of type %d (%s) have keys of an earlier API; make one for the API of "+
			"OpenAI's shape, and add it with patchbay add %s", c.number, c.name, provider)
		return c, false
	}
	if !known {
		d.Unsupported(n, c.setting, "no adapter speaks to channels of type %d (%s); if it has an OpenAI-compatible "+
			"endpoint, add it with that address", c.number, c.name)
		return c, false
	}
	c.kind = kind
	if base := d.Text(n, "base_url"); base != "" {
		c.kind.BaseURL = strings.TrimRight(base, "/")
	}
	if c.kind.BaseURL == "" {
		d.Unsupported(n, c.setting, "it has no base_url, and its type no usual address")
		return c, false
	}
	d.channelDetails(n, &c)
	return c, true
}

// channelDetails reads settings that only some channels have.
func (d *draft) channelDetails(n *yaml.Node, c *channel) {
	if c.kind.Adapter == "azure" {
		other := d.Text(n, "other")
		c.version = cmp.Or(d.object(n, c.setting, "config")["api_version"], other)
		if d.source == NewAPI {
			c.version = cmp.Or(other, "2025-04-01-preview") // the default of new-api
		}
	}
	c.headers = map[string]string{}
	if organization := d.Text(n, "openai_organization"); organization != "" {
		c.headers["OpenAI-Organization"] = organization
	}
	overrides := d.object(n, c.setting, "header_override")
	for _, name := range sortedKeys(overrides) {
		if strings.Contains(overrides[name], "{") { // new-api puts the key or a header of the caller there
			d.Partly(reading.At(n, "header_override"), c.setting+".header_override."+name, "headers have fixed values")
			continue
		}
		c.headers[name] = overrides[name]
	}
	if proxy := d.object(n, c.setting, "setting")["proxy"]; strings.HasPrefix(proxy, "http://") ||
		strings.HasPrefix(proxy, "https://") {
		c.proxy = proxy
	} else if proxy != "" {
		d.Partly(reading.At(n, "setting"), c.setting+".setting.proxy", "only proxies that speak HTTP are used")
	}
	for _, name := range []string{"setting", "config"} {
		members := d.object(n, c.setting, name)
		for _, key := range sortedKeys(members) {
			if value := members[key]; key != "proxy" && key != "api_version" && value != "" && value != "false" &&
				value != "0" {
				d.Partly(reading.At(n, name), c.setting+"."+name+"."+key, "the import makes nothing of it")
			}
		}
	}
}

// object reads a mapping of texts, which may be a text of JSON itself. Members that are no
// texts are written as JSON.
func (d *draft) object(n *yaml.Node, setting, name string) map[string]string {
	n = reading.At(n, name)
	object := map[string]string{}
	if n == nil || n.Kind == yaml.MappingNode {
		for _, e := range reading.Entries(n) {
			object[e.Key] = d.Text(e.Value)
		}
		return object
	}
	text := d.Text(n)
	if text == "" {
		return object
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		d.Unsupported(n, setting+"."+name, "it is no object of JSON")
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
	models := slices.DeleteFunc(strings.Split(d.Text(c.node, "models"), ","),
		func(model string) bool { return strings.TrimSpace(model) == "" })
	for i := range models {
		models[i] = strings.TrimSpace(models[i])
	}
	if len(models) == 0 {
		d.Unsupported(c.node, c.setting, "it lists no models")
		return
	}
	for _, name := range sortedKeys(c.mapping) {
		if !slices.Contains(models, name) {
			d.Partly(reading.At(c.node, "model_mapping"), c.setting+".model_mapping."+name,
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
			d.Partly(c.node, c.setting+" "+model, "the adapter %s does not serve %s", c.kind.Adapter, serviceType)
			continue
		}
		for position, key := range keys {
			i := instance{
				name: escaped(model), adapter: c.kind.Adapter, upstreamModel: escaped(c.upstream(model)),
				apiVersion: escaped(c.version),
				weight:     c.weight, tier: tier, disabled: c.isOff || c.keysOff[position], proxy: d.proxyOf(c),
			}
			baseURL, path := c.kind.Where(serviceType, c.upstream(model), model)
			i.baseURL, i.path = escaped(baseURL), escaped(path)
			if key != "" {
				i.apiKey = d.secret(key, c.setting+".key", c.name+"_API_KEY")
			} else if !c.isKeyless {
				i.apiKey = "${" + c.variable + ":}"
			}
			for _, name := range sortedKeys(c.headers) {
				if i.headers == nil {
					i.headers = map[string]string{}
				}
				i.headers[name] = d.secret(c.headers[name], c.setting+".header_override."+name, c.name+"_"+name)
			}
			d.addInstance(c.node, c.setting, serviceType, i)
		}
	}
}

// upstream returns the name that a backend has for a model, empty where it is the same.
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

// proxyOf returns the proxy of a channel. A password in it is a secret.
func (d *draft) proxyOf(c channel) string {
	parsed, err := url.Parse(c.proxy)
	if c.proxy == "" || err != nil || parsed.User == nil {
		return escaped(c.proxy)
	}
	return d.secretProxy(c.proxy, c.setting+".setting.proxy", c.name+"_PROXY")
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
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for rows.Next() {
		values, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		row := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for i, column := range columns {
			key, value := new(yaml.Node), new(yaml.Node)
			key.SetString(column)
			if value.SetString(values[i].String); !values[i].Valid {
				*value = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
			}
			row.Content = append(row.Content, key, value)
		}
		list.Content = append(list.Content, row)
	}
	return list, rows.Err()
}

func sortedKeys(texts map[string]string) []string { return slices.Sorted(maps.Keys(texts)) }
