package messages

import "github.com/patchbay-ai/patchbay/internal/jsonscan"

// fields are the fields of a request that are read here.
type fields [fieldCount]jsonscan.Value

// The places of the fields.
const (
	fieldModel = iota
	fieldMessages
	fieldSystem
	fieldStream
	fieldMetadata
	fieldMaxTokens
	fieldTemperature
	fieldTopP
	fieldTopK
	fieldStopSequences
	fieldTools
	fieldToolChoice
	fieldThinking
	fieldOutputConfig
	fieldOutputFormat
	fieldMCPServers
	fieldContainer
	fieldCompaction
	fieldThread
	fieldCount
)

// fieldNames are the names of the fields, in the order of their places.
var fieldNames = jsonscan.NewNames("model", "messages", "system", "stream", "metadata", "max_tokens", "temperature", "top_p", "top_k",
	"stop_sequences", "tools", "tool_choice", "thinking", "output_config", "output_format", "mcp_servers", "container", "compaction", "thread")

// fieldsOf returns the fields of the body of a request.
func fieldsOf(root jsonscan.Value) (f fields) {
	root.Find(fieldNames, f[:])
	return f
}
