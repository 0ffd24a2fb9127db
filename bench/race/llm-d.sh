# llm-d's router behind Envoy, without Kubernetes, as its docs/discovery.md has it: the scorers and
# weights of its chart's default, of which prefix-cache-scorer is the one for caches of prefixes.
# health: /v1/models
# bench/race/llm-d.sh ADDRESS DIRECTORY URL...
address=$1; cd "$2"; shift 2
race=${RACE:?the folder of the routers, as make race sets it}/llm-d
# Ports below those that the system gives out.
grpc=$((10000 + ${address##*:} % 7000)); health=$((grpc + 7000)); metrics=$((grpc + 14000))
{
  echo 'endpoints:'
  n=0; for url; do n=$((n + 1)); a=${url#http://}; echo "  - {name: engine-$n, address: \"${a%:*}\", port: \"${a##*:}\"}"; done
} > endpoints.yaml
cat > epp.yaml <<END
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {name: file-disc, type: file-discovery, parameters: {path: $PWD/endpoints.yaml}}
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- {type: metrics-data-source, parameters: {scheme: http, path: /metrics}}
- type: core-metrics-extractor
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
dataLayer: {discovery: {pluginRef: file-disc}}
END
cat > envoy.yaml <<END
static_resources:
  listeners:
  - address: {socket_address: {address: ${address%:*}, port_value: ${address##*:}}}
    per_connection_buffer_limit_bytes: 67108864
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: inference
          route_config:
            virtual_hosts:
            - {name: inference, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: engines, timeout: 600s, idle_timeout: 600s}}]}
          http_filters:
          - name: envoy.filters.http.ext_proc
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
              grpc_service: {envoy_grpc: {cluster_name: epp, authority: "localhost:$grpc"}, timeout: 10s}
              processing_mode:
                {request_header_mode: SEND, response_header_mode: SEND, request_body_mode: FULL_DUPLEX_STREAMED,
                 response_body_mode: FULL_DUPLEX_STREAMED, request_trailer_mode: SEND, response_trailer_mode: SEND}
              message_timeout: 600s
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: epp
    type: STATIC
    connect_timeout: 86400s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: epp
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: $grpc}}}}]}]
  - name: engines
    type: ORIGINAL_DST
    connect_timeout: 600s
    lb_policy: CLUSTER_PROVIDED
    circuit_breakers: {thresholds: [{max_connections: 10000, max_pending_requests: 10000, max_requests: 10000}]}
    original_dst_lb_config: {use_http_header: true, http_header_name: x-gateway-destination-endpoint}
END
"$race/epp" --pool-name epp --config-file epp.yaml --grpc-port $grpc --grpc-health-port $health --metrics-port $metrics \
  --secure-serving=false --metrics-endpoint-auth=false --drain-timeout 1s --v 0 & epp=$!
"$race/envoy" -c envoy.yaml --log-level error --use-dynamic-base-id & envoy=$!
trap 'kill $epp $envoy' TERM
wait -n
kill $epp $envoy 2>/dev/null
wait
