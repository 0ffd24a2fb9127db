// Package residency keeps models in the memory of their hosts and lets them sleep: it loads a
// model that somebody asks for, once for all callers, makes room for it without throwing out
// a model in use, and puts idle models to sleep after a while. The place of a model and the
// time to load it are part of the picture of package fleet.
//
// It has no sockets: servers that can be woken implement Sleeper. Such a server is an engine
// with commands over HTTP (package backend), or a process that this gateway runs.
//
// When a table comes into force, Keeper.Follow is told all models that are kept, each with
// its Sleeper and its Rules, and Keeper.Model returns each by its place in the fleet. A
// request calls Model.TryEnter, which costs nothing where the model is in memory, and else
// Model.Enter, which waits until it is; Model.Leave ends the call. A line of a batch calls
// Model.EnterSpare; no model that others used lately leaves for it. Keeper.Run puts models to
// sleep. Keeper.Mind names models that take memory beside them, such as a process that no
// instance names.
//
// For people, Keeper.States lists all models, and Keeper.Load, Keeper.Start and Keeper.Sleep
// do the same by hand.
package residency
