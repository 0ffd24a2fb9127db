// Package fleet decides which of the instances of a model answers a request soonest. It
// knows how much work waits at each, which prompts each has in its cache, how fast each is
// and which models are in memory, and chooses by the expected time to the first token
// (weigh.go has the rule). It has no sockets and starts no goroutines: callers report
// every event. How a proxy uses it:
//
// When a table is compiled, Fleet.Instance returns the instance for each pair of a host
// (the address of a backend) and a model. It stays the same over edits, like other living
// state; Instance.Remove ends it.
//
// When a request was read, a Prompt is fed with its parts in the order in which the model
// reads them: the tools, the system prompt, the messages, each with Part for its role and
// Text for the bytes of its text, as they lie in the body; escapes need not be undone.
// Images are added with Data. Nothing of it is copied or kept. Prompts are pooled by the
// caller. Hint takes prompt_cache_key, the session headers of agents and the like. The
// scope of Reset separates tenants where that is asked for. This needs no lock and 25 us
// for 100 KB at most.
//
// Fleet.Choose is given the instances that any strategy could take, and returns a Call,
// which counts at once. If the instance cannot be acquired, Call.Abort takes it back and
// the next choice is made without that instance. A response that is continued where it is
// stored is a choice of one.
//
//	call := f.Choose(ready, &fleet.Ask{Prompt: p, Tokens: guess, Whole: !stream}, now)
//	...                     // acquire call.Instance, send the request
//	call.First(now)         // the first event with content
//	call.End(answer, now)   // the answer is complete: its usage and timings
//	call.Abort(now)         // instead: not sent, failed, or the client has left
//
// Requests that write no tokens, such as embeddings, have an empty prompt with the guessed
// tokens, and end without First: they are balanced by their work.
//
// When the health of a backend was checked, Host.Tell takes the queue and the size of the
// cache that its metrics tell, and Host.Has the models that are in memory. When a backend
// is gone or has a new start time, Host.Lost forgets its caches.
//
// Each second, Fleet.Export returns news for the other gateways, at most 16 KB, and
// Fleet.Import takes the news of each of them. Fleet.SetSecret takes the secret on which
// they have agreed, without which they do not understand each other.
//
// Fleet.Explain returns the estimate of each instance for a request, and Fleet.Pictures
// the state of each, for people. Compare Call.Estimate with the real times.
//
// All of it may be used at the same time: one mutex guards a fleet.
package fleet
