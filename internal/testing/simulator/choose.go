package simulator

import (
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Behaviour is how all requests of a model are answered.
type Behaviour struct {
	Step Step
	// Every makes Step answer every n-th request and leaves the others normal; 0
	// and 1 mean every request.
	Every int
}

// Script sets how the next requests are answered: one step each, then as the
// options say. It replaces the remaining steps of an earlier script. Probes (GET and
// HEAD requests) and requests with a wrong key consume no step.
func (b *Backend) Script(steps ...Step) { b.choice.setScript(steps, false) }

// ScriptForever is like Script, but the last step is repeated for all later requests.
func (b *Backend) ScriptForever(steps ...Step) { b.choice.setScript(steps, true) }

// SetDefault replaces Options.Default.
func (b *Backend) SetDefault(behaviour Behaviour) { b.choice.setDefault(behaviour) }

// SetProbe sets how GET and HEAD requests, such as health checks, are answered.
func (b *Backend) SetProbe(step Step) { b.choice.setProbe(step) }

// SetFault makes every request of a model be answered by a step, whatever the
// script and the options say; nil ends that. Only backends with behaviours of
// models look at the model of a request.
func (b *Backend) SetFault(model string, step *Step) { b.choice.setFault(model, step) }

// ScriptLeft returns how many steps of the script were not consumed yet.
func (b *Backend) ScriptLeft() int {
	b.choice.mu.Lock()
	defer b.choice.mu.Unlock()
	return len(b.choice.script)
}

// chooser decides which step answers a request.
type chooser struct {
	mu       sync.Mutex
	script   []Step
	forever  bool
	fallback *recurring
	models   map[string]*recurring // the map itself never changes
	faults   map[string]Step
	probe    Step
}

// recurring is a behaviour with the number of requests that it has answered.
type recurring struct {
	Behaviour
	seen int
}

func newChooser(options Options) *chooser {
	c := &chooser{
		fallback: &recurring{Behaviour: options.Default},
		models:   make(map[string]*recurring, len(options.Behaviours)),
	}
	for model, behaviour := range options.Behaviours {
		c.models[model] = &recurring{Behaviour: behaviour}
	}
	return c
}

func (c *chooser) setScript(steps []Step, forever bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.script, c.forever = append([]Step(nil), steps...), forever
}

func (c *chooser) setDefault(behaviour Behaviour) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fallback = &recurring{Behaviour: behaviour}
}

func (c *chooser) setProbe(step Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probe = step
}

func (c *chooser) setFault(model string, step *Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if step == nil {
		delete(c.faults, model)
		return
	}
	if c.faults == nil {
		c.faults = map[string]Step{}
	}
	c.faults[model] = *step
}

// endsRunning reports whether the streams of a model that run are to end.
func (c *chooser) endsRunning(model string) bool {
	if model == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults[model].Running
}

func (c *chooser) forProbe() Step {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.probe
}

// forRequest consumes and returns the step for a request.
func (c *chooser) forRequest(x *exchange) Step {
	model := ""
	if len(c.models) > 0 { // only the demo scans the body for its model
		model = x.askedModel()
	}
	x.model = model
	c.mu.Lock()
	defer c.mu.Unlock()
	if step, isFaulty := c.faults[model]; isFaulty {
		return step
	}
	if len(c.script) > 0 {
		step := c.script[0]
		if len(c.script) > 1 || !c.forever {
			c.script = c.script[1:]
		}
		return step
	}
	if behaviour, found := c.models[model]; found {
		return behaviour.next()
	}
	return c.fallback.next()
}

func (r *recurring) next() Step {
	r.seen++
	if r.Every > 1 && r.seen%r.Every != 0 {
		return Step{}
	}
	return r.Step
}

// askedModel finds the model that a request names, whatever its dialect.
func (x *exchange) askedModel() string {
	if model, _, found := geminiCall(x.request.URL.Path); found {
		return model
	}
	if x.form != nil {
		return x.form.value("model")
	}
	var request struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(x.body, &request, lenient()) // the service reports faults
	return request.Model
}

// lenient makes decoding as forgiving as real backends are.
func lenient() json.Options {
	return json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}
