package socket

import "github.com/patchbay-ai/patchbay/internal/plain/say"

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
	{"socket.off", "WebSockets are off here (limits.websockets.connections). Use POST, with 'stream' for events."},
	{"socket.version", "Only version 13 of the WebSocket protocol is spoken here (Sec-WebSocket-Version)."},
	{"socket.one_key", "A request for a WebSocket has one header Sec-WebSocket-Key."},
	{"socket.key", "Sec-WebSocket-Key must be 16 bytes in base64."},
	{"socket.origin", "Pages of this origin may not open a WebSocket here; server.cors-origins can name it."},
	{"socket.caller_full",
		"There are as many WebSockets of this caller as limits.websockets.per-key allows; close one, or use POST."},
	{"socket.all_full",
		"There are as many WebSockets as limits.websockets.connections allows; try again later, or use POST."},
	{"socket.waiting", "As many messages as may wait on one connection ({most}) wait for the responses before them."},
	{"socket.running", "As many responses as may be made on one connection at a time ({most}) are being made."},
	{"socket.backend_running", "The backend makes more responses at a time than may be made on one connection."},
	{"socket.old", "The connection has been open for as long as one may be (limits.websockets.lifetime). Open " +
		"another to go on."},
	{"socket.memory", "The gateway has no memory left for this message; try again shortly."},
	{"socket.failed", "The gateway failed to handle the message."},
	{"socket.not_json", "The message is not valid JSON: {*why}."},
	{"socket.not_object", "The message must be a JSON object."},
	{"socket.bad_object", "The message is not a valid JSON object."},
	{"socket.type", "Messages of the type '{kind}' are not taken here; every message must be a {wanted}."},
	{"socket.no_call", "No tool call was found for the output with the call_id '{id}'."},
	{"socket.realtime", "The Realtime API is spoken over a WebSocket; ask for one, or use POST /v1/responses."},
	{"socket.late", "The backend did not go on with a response in time."},
	{"account.prompt",
		"'prompt' names a prompt of the account at the backend. Send its text as 'instructions', or have whoever " +
			"runs the gateway set 'account-ids: true' for the instance."},
	{"socket.model", "The model of a connection cannot be changed; open another with ?model=."},
	{"value.text_bytes", "must be a text of {least} to {most} bytes"},
}
