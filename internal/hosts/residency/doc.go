// Package residency keeps models in the memory of their hosts and lets them sleep: it loads
// a model that somebody asks for, once for all who wait, makes room for it without throwing
// out one that is in use, and puts those to sleep that nobody has used for a while. Where a
// model is, and what loading it takes, is part of the picture of package fleet.
//
// It has no sockets: whoever can be woken implements Sleeper. That is an engine that is told
// over HTTP (package backend), or a process that this gateway runs.
//
// When a table comes into force, Keeper.Follow is told all models that are kept, each with
// its Sleeper and its Rules, and Keeper.Model returns each by its place in the fleet. A
// request calls Model.TryEnter, which costs nothing where the model is in memory, and else
// Model.Enter, which waits until it is; Model.Leave ends the call. A line of a batch calls
// Model.EnterSpare, for which no model leaves that others used lately. Keeper.Run puts models
// to sleep. Keeper.Mind names models that take memory beside them, such as a process that no
// instance names.
//
// For people, Keeper.States lists all models, and Keeper.Load, Keeper.Start and Keeper.Sleep do
// by hand what is done for requests otherwise.
package residency
