package schema

import (
	"bytes"
	"errors"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// Request is a unified request that passed validation. It keeps the body as it
// came; Model and User are views into it and live no longer than it does.
type Request struct {
	Service ServiceType
	// Door is the endpoint of the request.
	Door  Door
	Model []byte
	User  []byte
	// PathModel is the model that the path of the request names; empty where the body names
	// it.
	PathModel string
	// Stream says that the caller wants the answer as an event stream, and
	// IncludeUsage that it wants the usage in it.
	Stream       bool
	IncludeUsage bool
	// Base64 says that embeddings are wanted in base64, and ImageFormat is the wanted
	// form of images, if the caller cares.
	Base64      bool
	ImageFormat string

	// Body is the JSON text of the request, in the dialect of its door; the service types
	// that take files have a Form instead.
	Body jsonscan.Document
	Form *Form
	// Decode reads the body of a request of a chat door; nil where that has the unified
	// shape. See Chat.
	Decode func(r *Request, room chat.Room) (*chat.Request, error)
	// Header and Query hold the other parts of a request at a door that is not unified,
	// for backends that speak the same dialect. Only parts that a dialect names are passed
	// on.
	Header http.Header
	Query  string
	// Passed is told the id of an answer that a backend keeps and that is passed on;
	// nil where nobody wants to know.
	Passed func(id string)
	// Gave is told which ids of its account a backend gives the caller in an answer that is
	// passed on; nil where nobody wants to know.
	Gave func(ids []string)
	// Account decides which ids of a backend's account the caller may name; nil where all
	// may be named.
	Account Account
	// Operated are the members for operators of engines that the request has. A caller for whom
	// Account is set may name them only at instances that allow it.
	Operated Members
	// Came is when the request came, for doors with answers that say how long they
	// took.
	Came time.Time
	// Remembered is how many tokens the backend reads beside the request: the tokens of
	// a conversation that it keeps, as far as they are known.
	Remembered int64
	// Run is the name of the agent's run that the request belongs to, as far as it is known: of
	// the response that it continues, until somebody finds a better one.
	Run string
	// Uncounted says that the request is no use of a model: neither the ledger nor a
	// budget nor a limit of tokens counts it. Limits of requests do.
	Uncounted bool

	extra  jsonscan.Value // extra_body, looked up once
	copied int            // bytes that were reserved for a copy
	chat   *chat.Request  // the result of Settings and Chat
	isRead bool           // by Chat, which may have failed
	failed error
	begun  *Continuation
	turned *Request // the result of Turned
	mended *Request // the result of Mended, with mends
	mends  int
}

// Account decides which ids a caller may name of a backend's account that all callers
// share.
type Account interface {
	// RefuseForeign returns an error if one of the ids was never given to the caller.
	RefuseForeign(named []NamedID) error
}

// NamedID is an id of a backend's account that a request names, and the member that has it.
type NamedID struct{ Param, ID string }

// Reset makes r ready for reuse and lets go of the body.
func (r *Request) Reset() {
	r.Body.Reset()
	*r = Request{Body: r.Body}
}

// Copy returns a request that shares the body, or the form, and can be read beside this one
// by another goroutine, as long as neither is reset. The function guards the memory for
// bodies. Both requests take from it.
func (r *Request) Copy(reserve func(bytes int) error) *Request {
	c := *r
	c.Body.Reserve = reserve
	c.chat, c.isRead, c.failed, c.turned, c.mended = nil, false, nil, nil, nil
	return &c
}

// ReserveCopy reserves the memory for a copy of the request in another dialect. Of
// several attempts only the first counts, and the additional memory of a later one.
func (r *Request) ReserveCopy(bytes int) error {
	more := bytes - r.copied
	if r.Body.Reserve == nil || more <= 0 {
		return nil
	}
	if err := r.Body.Reserve(more); err != nil {
		return err
	}
	r.copied = bytes
	return nil
}

// Settings returns how the answer to a request of a chat door is to be made. Of a request
// in the unified shape the messages are not read for it.
func (r *Request) Settings() *chat.Settings {
	if r.begun != nil && r.begun.asked != nil {
		return &r.begun.asked.Settings
	}
	if r.Decode != nil {
		if asked, err := r.Chat(); err == nil {
			return &asked.Settings
		}
		return new(chat.Settings)
	}
	if r.chat == nil {
		r.chat = &chat.Request{Settings: chat.ReadSettings(r.Body.Root(), r.extra)}
	}
	return &r.chat.Settings
}

// Chat returns the chat that a request of a chat door asks for, whatever dialect its
// client speaks. It is read when it is asked for the first time, and points into the
// memory of the request: to keep something of it a caller makes a copy. The error is a
// *Error where the request asks for something that only backends of its own dialect have.
func (r *Request) Chat() (*chat.Request, error) {
	if r.begun != nil && r.begun.asked != nil {
		return r.begun.asked, nil
	}
	if !r.isRead {
		r.isRead, r.failed = true, r.readChat()
	}
	return r.chat, r.failed
}

func (r *Request) readChat() (err error) {
	if err := r.ReserveTranslation(); err != nil {
		return err
	}
	room := chat.Room{Reserve: r.Body.Reserve}
	if r.Decode != nil {
		r.chat, err = r.Decode(r, room)
		return err
	}
	r.Settings()
	if r.Door == DoorCompletions {
		return r.chat.ReadPrompts(room, r.Field("prompt"))
	}
	return r.chat.Read(room)
}

// Turned returns the request as one of another door, which make makes of it. That is done
// once, however often it is asked for.
func (r *Request) Turned(make func(*Request) (*Request, error)) (*Request, error) {
	if r.turned != nil {
		return r.turned, nil
	}
	if err := r.ReserveTranslation(); err != nil {
		return nil, err
	}
	turned, err := make(r)
	if err != nil {
		return nil, err
	}
	r.turned = turned
	return turned, nil
}

// ModelJSON returns the client's name of the model as JSON.
func (r *Request) ModelJSON() []byte {
	if r.PathModel != "" {
		return jsonwrite.AppendText(nil, r.PathModel)
	}
	return r.Body.Root().Get("model").Raw()
}

// ReserveTranslation reserves the memory for writing a request in another dialect: up
// to two texts of about its length, and the nodes of values that are scanned again, one
// for every member, array and object.
func (r *Request) ReserveTranslation() error {
	if r.Body.Reserve == nil {
		return nil
	}
	text, nodes := r.Body.Data(), 0
	for _, c := range []byte(":{[") {
		nodes += bytes.Count(text, []byte{c})
	}
	return r.ReserveCopy(2*len(text) + nodes*jsonscan.NodeSize)
}

// Field returns a top-level field of the body. A field that the caller did not give may
// come from extra_body instead: its members count as members of the top level.
func (r *Request) Field(name string) jsonscan.Value {
	return r.orExtra(r.Body.Root().Get(name), name)
}

// orExtra returns a top-level field if it is given, and else the field of extra_body.
func (r *Request) orExtra(field jsonscan.Value, name string) jsonscan.Value {
	if field.Given() {
		return field
	}
	return r.extra.Get(name)
}

// parse scans the body and checks the fields that all requests have in common.
func (r *Request) parse(service ServiceType, body []byte, fields *Fields) error {
	if err := r.scan(Door(service), body); err != nil {
		return err
	}
	if err := r.checkCommon(new(found), fields); err != nil {
		return err
	}
	return r.checkRules(fields.rules)
}

// scan scans the body of a request at a door. It is a step of its own because scanning
// goes deep, and checking needs much room for the fields it looks at: one within the
// other would make the stacks of all connections grow.
func (r *Request) scan(door Door, body []byte) error {
	r.Service, r.Door = door.Service(), door
	if err := r.Body.Parse(body); err != nil {
		return invalidJSON(err)
	}
	if r.Body.Root().Kind() != jsonscan.Object {
		return CodedError(CodeInvalidJSON, "call.not_object")
	}
	return nil
}

// checkCommon checks the fields that all requests have in common, and finds the fields
// that many have. It refuses a key that differs only in case from a field.
func (r *Request) checkCommon(at *found, fields *Fields) error {
	root := r.Body.Root()
	if root.Find(fields.names, at[:]) > 0 {
		if err := fields.checkKeys(root, &r.Operated); err != nil {
			return err
		}
	}
	r.extra = at[fieldExtraBody]
	if r.extra.Given() && r.extra.Kind() != jsonscan.Object {
		return BadField("extra_body", "value.object")
	}
	if err := fields.checkKeys(r.extra, &r.Operated); err != nil {
		return err
	}
	if err := r.checkModel(at[fieldModel]); err != nil {
		return err
	}
	return r.ReadUser("user", r.orExtra(at[fieldUser], "user"))
}

// checkModel checks the name of the model and takes it over.
func (r *Request) checkModel(model jsonscan.Value) error {
	switch {
	case !model.Given():
		return MissingParameter("model")
	case model.Kind() != jsonscan.String:
		return BadField("model", "value.string")
	}
	r.Model = model.Text()
	return checkModelName(r.Model)
}

// ParseBody reads the body of a request in the dialect of a door that is not unified, and
// checks the fields that the requests of all doors have in common. A key that differs only
// in case from one of the door's fields is refused.
func (r *Request) ParseBody(door Door, body []byte, fields *Fields) error {
	if err := r.scan(door, body); err != nil {
		return err
	}
	root := r.Body.Root()
	if root.Find(fields.names, nil) > 0 {
		if err := fields.checkKeys(root, &r.Operated); err != nil {
			return err
		}
	}
	// Some doors move the members of extra_body to the top level, as backends behind them may do.
	if err := fields.checkKeys(root.Get("extra_body"), &r.Operated); err != nil {
		return err
	}
	if r.PathModel != "" {
		r.Model = []byte(r.PathModel)
		return checkModelName(r.Model)
	}
	return r.checkModel(root.Get("model"))
}

// CheckExtraBody checks the member extra_body of a request in another dialect than the
// unified one.
func (r *Request) CheckExtraBody(extra jsonscan.Value) error {
	if extra.Given() && extra.Kind() != jsonscan.Object {
		return BadField("extra_body", "value.object")
	}
	if err := ChatFields.checkCase(extra); err != nil {
		return err
	}
	return ChatFields.checkExtra(extra, jsonscan.Value{})
}

// parseForm checks the fields that all forms have in common, and that a form has those once
// that it may not have twice.
func (r *Request) parseForm(service ServiceType, form *Form, fields *Fields) error {
	r.Service, r.Door, r.Form = service, Door(service), form
	if err := fields.checkFormCase(form, &r.Operated); err != nil {
		return err
	}
	model, _ := form.Value("model")
	if model == "" {
		return MissingParameter("model")
	}
	if err := form.requireSingle(fields); err != nil {
		return err
	}
	r.Model = []byte(model)
	if err := checkModelName(r.Model); err != nil {
		return err
	}
	if user, ok := form.Value("user"); ok {
		r.User = []byte(user)
	}
	return nil
}

// maxModelName is generous: registries name models by owner, repository, file and tag.
const maxModelName = 512

func checkModelName(name []byte) error {
	blank := true
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			return BadField("model", "field.control")
		}
		blank = blank && c == ' '
	}
	if blank {
		return MissingParameter("model")
	}
	if len(name) > maxModelName {
		return BadField("model", "value.long", "most", maxModelName)
	}
	return nil
}

func invalidJSON(err error) error {
	var at *jsonscan.Error
	if !errors.As(err, &at) {
		return err // there was no memory for it
	}
	return CodedError(CodeInvalidJSON, "call.not_json", "why", say.From(at))
}

// CheckNumber checks that an optional value is a number between least and most.
func CheckNumber(name string, v jsonscan.Value, least, most float64) error {
	if !v.Given() {
		return nil
	}
	if v.Kind() != jsonscan.Number {
		return BadField(name, "value.number")
	}
	if f, ok := v.Float(); !ok || f < least || f > most {
		return BadField(name, "field.range", "least", least, "most", most)
	}
	return nil
}

// CheckInteger checks that an optional value is a whole number that is not less than
// least.
func CheckInteger(name string, v jsonscan.Value, least int64) error {
	if !v.Given() {
		return nil
	}
	n, ok := v.Int()
	if !ok {
		return BadField(name, "value.integer")
	}
	if n < least {
		return BadField(name, "field.least", "least", least)
	}
	return nil
}

// checkInteger checks that a field which is given is a whole number.
func checkInteger(name string, v jsonscan.Value) error {
	if _, ok := v.Int(); !ok {
		return BadField(name, "value.integer")
	}
	return nil
}

// CheckText checks that an optional value is a string.
func CheckText(name string, v jsonscan.Value) error {
	if v.Given() && v.Kind() != jsonscan.String {
		return BadField(name, "value.string")
	}
	return nil
}

// CheckList checks that a required value is a list that has elements. The fault of an empty one has a code.
func CheckList(name string, v jsonscan.Value, empty say.Code) error {
	switch {
	case !v.Given():
		return MissingParameter(name)
	case v.Kind() != jsonscan.Array:
		return BadField(name, "value.array")
	case v.Empty():
		return BadField(name, empty)
	}
	return nil
}

// ReadUser reads the user that a request is counted for from an optional value.
func (r *Request) ReadUser(name string, v jsonscan.Value) error {
	if v.Given() {
		r.User = v.Text()
	}
	return CheckText(name, v)
}

// CheckBoolean returns an optional value that must be true or false.
func CheckBoolean(name string, v jsonscan.Value) (bool, error) {
	switch {
	case !v.Given():
		return false, nil
	case v.Kind() == jsonscan.True:
		return true, nil
	case v.Kind() == jsonscan.False:
		return false, nil
	}
	return false, BadField(name, "value.switch")
}

// Usage is a backend's report about the tokens of one answer, of whatever service type.
type Usage = chat.Tokens

// ReadUsage reads a usage object, under the names of the chat API or under the names of
// the newer APIs (input_tokens, output_tokens). Counts that are no whole numbers,
// negative or absurdly large make the report unknown rather than wrong.
func ReadUsage(v jsonscan.Value) Usage {
	if v.Kind() != jsonscan.Object {
		return Usage{}
	}
	var f [usageSeconds + 1]jsonscan.Value
	v.Find(usageNames, f[:])
	var u Usage
	var ok [3]bool
	u.Prompt, ok[0] = tokens(f[usagePrompt], f[usageInput])
	u.Completion, ok[1] = tokens(f[usageCompletion], f[usageOutput])
	u.Total, ok[2] = tokens(f[usageTotal], jsonscan.Value{})
	if !ok[0] || !ok[1] || !ok[2] {
		return Usage{}
	}
	for _, details := range [...]jsonscan.Value{f[usagePromptDetails], f[usageInputDetails]} {
		told := details.Get("cached_tokens")
		if cached, ok := tokens(told, jsonscan.Value{}); ok && told.Given() {
			u.Cached, u.IsCachedTold = max(u.Cached, cached), true
		}
	}
	if seconds, ok := f[usageSeconds].Float(); ok && seconds > 0 && seconds < 1e7 {
		u.Seconds = int64(seconds + 0.5)
	}
	if u.Total == 0 {
		u.Total = u.Prompt + u.Completion
	}
	u.Known = u.Total > 0 || f[usageTotal].Given()
	return u
}

// The places of the members of a usage object.
const (
	usagePrompt = iota
	usageInput
	usageCompletion
	usageOutput
	usageTotal
	usagePromptDetails
	usageInputDetails
	usageSeconds
)

// usageNames are the names of the members in the order of their places.
var usageNames = jsonscan.NewNames("prompt_tokens", "input_tokens", "completion_tokens", "output_tokens",
	"total_tokens",
	"prompt_tokens_details", "input_tokens_details", "seconds")

// tokens reads one count under either of its names; a count that is not given
// is zero.
func tokens(v, other jsonscan.Value) (n int64, ok bool) {
	const most = 1 << 40
	if !v.Given() {
		v = other
	}
	if !v.Given() {
		return 0, true
	}
	n, ok = v.Int()
	return n, ok && n >= 0 && n <= most
}
