// Package known decides which run of an agent a request belongs to. Agents name their sessions in
// headers and bodies of their own accord; x-router-run names a run for all others. An id belongs
// to its owner, the key or the person who sent the request: nobody reaches the run of another.
package known

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/minio/highwayhash"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/turns"
)

// Sign tells how a run was known.
type Sign uint8

// The signs, in the order that they are looked for.
const (
	None     Sign = iota
	Named         // by the header x-router-run
	Parent        // by the header of a sub-agent that names its parent
	Session       // by the header of an agent that names its session
	Metadata      // by the session in the metadata.user_id of Claude Code
	Response      // by the response that the request continues
	CacheKey      // the others only where settings say so
	UserID
	Beginning
)

var signNames = [...]string{"", "x-router-run", "parent", "session", "metadata", "previous-response",
	"prompt-cache-key", "user-id", "beginning"}

// String returns the name of the sign.
func (s Sign) String() string { return schema.NameOf(s, signNames[:]) }

// MarshalText writes the name of the sign.
func (s Sign) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// By is a sign that names a run only where the settings list it.
type By = schema.Choice[by]

type by struct{}

func (by) Names() []string { return []string{"prompt-cache-key", "user-id", "beginning"} }

// The signs of which settings choose.
const (
	ByCacheKey By = iota
	ByUserID
	ByBeginning
)

// Run is the run that a request belongs to.
type Run struct {
	// ID is the client's name of the run; empty for a request that belongs to none.
	ID   string
	Sign Sign
	// Agent is the name of the sub-agent that sent the request, empty for the first agent of a
	// run and for one that tells none.
	Agent string
}

// Header names the run of a request.
const Header = "X-Router-Run"

// program has the headers of one agent, in the canonical form.
type program struct {
	// self names the agent or sub-agent, parent the agent that started it, and session the
	// session of all of them, or of self alone.
	self, parent, session string
}

// programs have the headers of agents: Claude Code; Codex, today and before; OpenCode, to others
// and to its own provider. docs/runs.md says which versions were seen.
var programs = [...]program{
	{"X-Claude-Code-Agent-Id", "X-Claude-Code-Parent-Agent-Id", "X-Claude-Code-Session-Id"},
	{"Thread-Id", "X-Codex-Parent-Thread-Id", "Session-Id"},
	{"Session_id", "X-Codex-Parent-Thread-Id", "Session_id"},
	{"X-Session-Id", "X-Parent-Session-Id", "X-Session-Id"},
	{"X-Session-Affinity", "X-Parent-Session-Id", "X-Session-Affinity"},
	{"X-Opencode-Session", "X-Parent-Session-Id", "X-Opencode-Session"},
}

// Book remembers which sub-agents belong to which runs, as many as fit. It may be used by several
// goroutines.
type Book struct {
	secret [32]byte
	seed   maphash.Seed

	mu sync.Mutex
	// young and old map sub-agents of owners to their runs. When young is full, it becomes old, and
	// the old one is forgotten.
	young, old map[uint64]string
}

// mostRemembered is how many sub-agents each of the two maps of a book holds. With the longest
// ids both take 16 MiB.
const mostRemembered = 32 << 10

// NewBook returns an empty book. Gateways with the same secret know conversations by the same
// beginnings.
func NewBook(secret [32]byte) *Book {
	return &Book{secret: secret, seed: maphash.MakeSeed(), young: map[uint64]string{}}
}

// Of returns the run that a request of an owner belongs to, by the first sign that it has. Signs
// of the kind By count where they are listed. The store of responses tells the run of the one
// that the request continues, in its field Run.
func (b *Book) Of(owner string, header http.Header, req *schema.Request, by []By) Run {
	if id := first(header, Header); id != "" {
		return Run{ID: bounded(id), Sign: Named, Agent: agentOf(header)}
	}
	for _, p := range programs {
		if run := b.ofProgram(owner, header, p); run.ID != "" {
			return run
		}
	}
	root := req.Body.Root()
	user := ""
	if req.Door == schema.DoorMessages || req.Door == schema.DoorCountTokens {
		user = text(root.Get("metadata").Get("user_id"))
		if id := sessionIn(user); id != "" {
			return Run{ID: bounded(id), Sign: Metadata}
		}
	} else if len(by) > 0 {
		user = text(req.Field("metadata").Get("user_id"))
	}
	if id := text(root.Get("previous_response_id")); id != "" {
		if req.Run != "" {
			id = req.Run // that made this response
		}
		return Run{ID: bounded(id), Sign: Response}
	}
	return b.chosen(req, user, by)
}

// ofProgram returns the run that the headers of one program name.
func (b *Book) ofProgram(owner string, header http.Header, p program) Run {
	self, parent, session := first(header, p.self), first(header, p.parent), first(header, p.session)
	if self == "" {
		self = session
	}
	if session == "" {
		session = self
	}
	run := Run{ID: session, Sign: Session}
	if parent != "" {
		// The session is that of the parent where the agent has a name beside it.
		known := b.recall(owner, parent)
		if known != "" || session == self {
			run.Sign = Parent
		}
		switch {
		case known != "":
			run.ID = known
		case session == self:
			run.ID = parent
		}
	}
	if run.ID == "" {
		return Run{}
	}
	run.ID = bounded(run.ID)
	if self != "" && bounded(self) != run.ID {
		run.Agent = bounded(self)
		b.remember(owner, self, run.ID)
	}
	return run
}

// agentOf returns the name of the sub-agent that the headers of an agent tell.
func agentOf(header http.Header) string {
	for _, p := range programs {
		if self := first(header, p.self); self != "" {
			return bounded(self)
		}
	}
	return ""
}

// chosen returns the run by one of the signs that the settings list, in the order of signs.
func (b *Book) chosen(req *schema.Request, user string, by []By) Run {
	if len(by) == 0 {
		return Run{}
	}
	if slices.Contains(by, ByCacheKey) {
		if key := text(req.Field("prompt_cache_key")); key != "" {
			return Run{ID: bounded(key), Sign: CacheKey}
		}
	}
	if user != "" && slices.Contains(by, ByUserID) {
		return Run{ID: bounded(user), Sign: UserID}
	}
	if slices.Contains(by, ByBeginning) {
		digest, err := highwayhash.New128(b.secret[:])
		if err == nil && turns.Beginning(req, digest) {
			return Run{ID: "beginning-" + hex.EncodeToString(digest.Sum(nil)), Sign: Beginning}
		}
	}
	return Run{}
}

func (b *Book) key(owner, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(b.seed)
	for _, s := range [...]string{owner, "\x00", name} {
		_, _ = h.WriteString(s) // a hash takes everything
	}
	return h.Sum64()
}

func (b *Book) recall(owner, name string) string {
	key := b.key(owner, name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if run, ok := b.young[key]; ok {
		return run
	}
	run, ok := b.old[key]
	if ok {
		b.put(key, run)
	}
	return run
}

func (b *Book) remember(owner, name, run string) {
	key := b.key(owner, name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.young[key] != run {
		b.put(key, strings.Clone(run))
	}
}

func (b *Book) put(key uint64, run string) {
	if len(b.young) >= mostRemembered {
		b.young, b.old = map[uint64]string{}, b.young
	}
	b.young[key] = run
}

// sessionIn returns the session in the user id of Claude Code: a JSON text that names it, before
// that a text with the session at its end.
func sessionIn(user string) string {
	if strings.HasPrefix(user, "{") {
		var doc jsonscan.Document
		if doc.Parse([]byte(user)) != nil {
			return ""
		}
		return text(doc.Root().Get("session_id"))
	}
	const mark = "_session_"
	if at := strings.LastIndex(user, mark); at > 0 && strings.HasPrefix(user, "user_") {
		return user[at+len(mark):]
	}
	return ""
}

const (
	// longestID is how long an id is kept as it came.
	longestID = 200
	// longestText is how long a text of a body may be to be an id.
	longestText = 4 << 10
)

// bounded returns an id as it came, or the hash of one that is long or cannot be shown.
func bounded(id string) string {
	isPlain := len(id) <= longestID && utf8.ValidString(id) && strings.IndexFunc(id, isHidden) < 0
	if isPlain {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// isHidden reports whether a character of an id cannot be seen.
func isHidden(r rune) bool { return r != ' ' && !unicode.IsGraphic(r) || r == utf8.RuneError }

// first returns the first value of a header in its canonical form.
func first(header http.Header, name string) string {
	if values := header[name]; len(values) > 0 {
		return strings.TrimSpace(values[0])
	}
	return ""
}

// text returns a copy of a text that can be an id.
func text(v jsonscan.Value) string {
	if v.Kind() != jsonscan.String || len(v.Raw()) > longestText {
		return ""
	}
	return strings.TrimSpace(string(v.Text()))
}
