# llama-swap, built from its sources: go build. It passes requests on to peers.
# bench/others/llama-swap.sh ADDRESS BACKEND DIRECTORY
cat > "$3/config.yaml" <<Y
logLevel: error
peers:
  backend: {proxy: "http://$2", models: [chat, stream]}
Y
cd "$3" && exec llama-swap -config config.yaml -listen "$1"
