#!/bin/bash
# Starts servers of vLLM on one GPU and waits until they are ready:
#   bench/gpu/serve.sh FOLDER start PORT...     FOLDER is that of bench/gpu/model.py
#   bench/gpu/serve.sh FOLDER stop [PORT...]    stops them, or all
# VLLM is the program [vllm], FLAGS are more flags of it, CACHE is how many bytes of keys and values a
# server keeps [10380902400: 70,400 tokens of the model], SHARE which part of the memory has to be free [0.2],
# SECONDS_TO_START how long a start may take [300].
# FOLDER/PORT.log is the log of a server, FOLDER/PORT.pid its process.
set -u
folder=$(realpath "$1"); verb=$2; shift 2
alive() { [ -f "$folder/$1.pid" ] && kill -0 "$(cat "$folder/$1.pid")" 2>/dev/null; }
case $verb in
start)
  export HF_HUB_OFFLINE=1 VLLM_SERVER_DEV_MODE=1 VLLM_ALLOW_RUNTIME_LORA_UPDATING=True VLLM_NO_USAGE_STATS=1
  for port; do
    # A session of its own, so that the processes of a server can be found and stopped together.
    setsid ${VLLM:-vllm} serve "$folder/model" --served-model-name m --load-format dummy --host 127.0.0.1 --port "$port" \
      --kv-cache-memory-bytes "${CACHE:-10380902400}" --gpu-memory-utilization "${SHARE:-0.2}" --enforce-eager \
      --enable-prompt-tokens-details ${FLAGS:-} >"$folder/$port.log" 2>&1 </dev/null &
    echo $! >"$folder/$port.pid"
  done
  end=$(($(date +%s) + ${SECONDS_TO_START:-300}))
  for port; do
    until curl -sf -m 2 "http://127.0.0.1:$port/health" >/dev/null; do
      alive "$port" || { echo "the server on port $port has ended:"; tail -n 20 "$folder/$port.log"; exit 1; }
      [ "$(date +%s)" -lt $end ] || { echo "the server on port $port is not ready"; exit 1; }
      sleep 0.5
    done
  done ;;
stop)
  [ $# -gt 0 ] || set -- $(cd "$folder" && ls -- *.pid 2>/dev/null | sed 's/\.pid$//')
  for port; do
    [ -f "$folder/$port.pid" ] || continue
    for process in $(ps -o pid= -s "$(cat "$folder/$port.pid")"); do kill -9 "$process" 2>/dev/null; done
    rm "$folder/$port.pid"
  done ;;
*) sed -n '2,9s/^# \?//p' "$0"; exit 2 ;;
esac
