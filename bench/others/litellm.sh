# LiteLLM's proxy, from PyPI: pip install 'litellm[proxy]'. bench/others/litellm.sh ADDRESS BACKEND DIRECTORY
cat > "$3/config.yaml" <<Y
model_list:
  - {model_name: chat, litellm_params: {model: openai/chat, api_base: "http://$2/v1", api_key: any}}
  - {model_name: stream, litellm_params: {model: openai/stream, api_base: "http://$2/v1", api_key: any}}
general_settings: {disable_spend_logs: true, dangerously_permit_weak_or_unset_master_key: true}
Y
cd "$3" && LITELLM_LOG=ERROR LITELLM_LOCAL_MODEL_COST_MAP=True exec litellm --config config.yaml --host "${1%:*}" --port "${1##*:}" --num_workers 1
