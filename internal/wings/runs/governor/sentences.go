package governor

import "github.com/patchbay-ai/patchbay/internal/plain/say"

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
	{"run.limit",
		"This run has used {used} of {limit} {*unit}, and this request may take {wanted}. Raise it {*how}."},
	{"run.time", "This run has lasted {used} of {limit}. Raise it {*how}."},
	{"run.raise_url", "at {url} or with `{command}`"},
	{"run.raise", "with `{command}`"},
	{"run.ended", "This run was ended by an operator of the gateway. Raise it to let it go on: {*how}."},
	{"run.held",
		"What is left of this run, {limit} {*unit}, is reserved by its other requests; try again shortly. {used} are " +
			"used and {reserved} reserved."},
	{"run.parallel", "This run has {limit} requests under way, which is its limit; try again shortly."},
	{"run.loops", "This run goes round in circles and was stopped. Raise it to let it go on: {*how}."},
	{"run.loops_rule",
		"This run goes round in circles and was stopped: {*rule} ({count} in a row). Raise it to let it go on: " +
			"{*how}."},
	{"run.same_call", "the same request again and again"},
	{"run.same_result", "the same result of a tool again and again"},
	{"run.alternating", "two that take turns"},
	{"run.errors", "requests that fail"},
	{"run.no_output", "requests with more and more context and no output"},
	{"run.unknown", `there is no run "{id}" here now`},
	{"run.beyond_tenant", "raises the run beyond the terms of the tenant {tenant}"},
	{"run.too_many",
		"This caller has {most} runs of agents that were ended or are at their limits, and no room for a new one. " +
			"Go on in one of the others, or try again later."},
	{"run.kept_ended", "an operator of the gateway ended this run, and only an operator lets it go on"},
	{"run.asks_less",
		"The header x-router-run-limit-cost must be an amount of money above 0 and at most {most}, the limit of this " +
			"run."},
	{"run.asks_amount", "The header x-router-run-limit-cost must be an amount of money above 0, such as 2.5."},
	{"run.unpriced",
		"The model {model} has no price, and this run has a limit of money. Set a price in prices.models, or set " +
			"runs.unpriced to warn."},
}
