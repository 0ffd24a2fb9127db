package alerts

import "github.com/patchbay-ai/patchbay/internal/plain/say"

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
	{"alert.budget", "{account} has used {percent} % of its budget of {unit} ({window})"},
	{"alert.budget_over", "{account} has room in its budget of {unit} ({window}) again"},
	{"alert.breaker", "the circuit breaker of {instance} ({service}) is open: no requests go there"},
	{"alert.breaker_over", "the circuit breaker of {instance} ({service}) is closed again"},
	{"alert.model", "every call to {model} ({service}) has failed for {minutes} min: {lost} calls"},
	{"alert.model_over", "calls to {model} ({service}) no longer fail"},
	{"alert.run", "the run {run} of {owner} has cost {cost} {currency}; the alert is set to {limit}"},
	{"alert.run_over", "the run {run} of {owner} is over"},
	{"alert.loop", "the run {run} of {owner} loops ({rule})"},
	{"alert.loop_over", "the run {run} of {owner} no longer loops"},
	{"alert.sign_in", "{refused} sign-ins to management were refused or failed within {minutes} min: does somebody " +
		"try tokens, is a rule missing, or is a provider away? The audit names the addresses"},
	{"alert.sign_in_over", "sign-ins to management are refused no more often than usual"},
	{"alert.test", "this is a test of the webhook {webhook}"},
	{"alert.no_address", "the address of the webhook cannot be read on this gateway: {why}"},
	{"alert.bad_address", "the address of the webhook cannot be used: {*fault}"},
	{"alert.refused", "the receiver answered with status {status}"},
	{"alert.unreached", "the receiver could not be reached: {*cause}"},
	{"alert.unsent", "the alert could not be sent"},
	{"alert.no_webhook", `there is no webhook "{name}"`},
	{"alert.which", "name a webhook, or give a url"},
	{"field.webhooks", "want at most {most} webhooks, found {found}"},
	{"field.webhook_name", "want a name of at most {most} letters, digits, - and _"},
}
