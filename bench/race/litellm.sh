# LiteLLM's proxy, from PyPI: least-busy, its strategy for the number of requests that run.
# health: /health/readiness
# bench/race/litellm.sh ADDRESS DIRECTORY URL...
address=$1; cd "$2"; shift 2
{
  echo 'model_list:'
  for url; do printf '  - {model_name: m, litellm_params: {model: openai/m, api_base: "%s/v1", api_key: none}}\n' "$url"; done
  echo 'router_settings: {routing_strategy: least-busy, num_retries: 0}'
  echo 'litellm_settings: {request_timeout: 600, telemetry: false}'
} > litellm.yaml
export LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY=true LITELLM_LOG=ERROR LITELLM_LOCAL_MODEL_COST_MAP=True
exec "${RACE:?the folder of the routers, as make race sets it}/litellm/bin/litellm" --config litellm.yaml --host "${address%:*}" --port "${address##*:}"
