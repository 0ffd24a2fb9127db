package dialect

// Guide describes a kind of backend for people and other programs. Parts that it leaves
// out are as for a server that speaks OpenAI's dialect.
type Guide struct {
	// Title is how people call it.
	Title string
	// Provider is its name in the conventions of OpenTelemetry; empty means Kind.Name.
	Provider string
	// ModelsPath is the path of its list of models. A backend of a kind that is not known
	// yet is asked at the ModelsPath of each kind that has one. ModelsHosts are hosts that
	// belong to this kind alone, such as api.anthropic.com.
	ModelsPath  string
	ModelsHosts []string
	// Owner is the owner of models in its list, if that tells the kind.
	Owner string
	// ListsFiles means that its list calls models by their files.
	ListsFiles bool
	// AllListedAsChat means that its list says of every model that it is for chat.
	AllListedAsChat bool
	// Undated are the endings that its API takes in place of the day in the name of a listed
	// model.
	Undated []string
	// LatestTag is the tag of a model that has none in its name. The list has it, and
	// callers may use both names.
	LatestTag string
	// Pull is the command that loads a model, up to its name, and Start how the server is
	// started, in a sentence.
	Pull, Start string
}
