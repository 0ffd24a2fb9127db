package dialect

// Guide is what people and other programs know a kind of backend by. What it leaves out is
// as for a server that speaks OpenAI's dialect.
type Guide struct {
	// Title is how people call it.
	Title string
	// Provider is its name in the conventions of OpenTelemetry; empty means Kind.Name.
	Provider string
	// URL is the usual address, and KeyVariable the variable of the environment that
	// usually has the key; both are empty where there is none.
	URL, KeyVariable string
	// ModelsPath is the path of its list of models. A backend whose kind is not known yet is
	// asked at the ModelsPath of each kind that has one. ModelsHosts are hosts that belong
	// to this kind alone, such as api.anthropic.com.
	ModelsPath  string
	ModelsHosts []string
	// Owner is what its list names as the owner of models, if that tells the kind.
	Owner string
	// AllListedAsChat means that its list says of every model that it is for chat.
	AllListedAsChat bool
	// LatestTag is the tag that a model has whose name has none. The list has it, and
	// callers may use both names.
	LatestTag string
	// Pull is the command that loads a model, up to its name, and Start how the server is
	// started, in a sentence.
	Pull, Start string
}
