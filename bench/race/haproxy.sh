# HAProxy, the floor: least connections, as its documentation has it for long requests.
# health: /v1/models
# bench/race/haproxy.sh ADDRESS DIRECTORY URL...
address=$1; cd "$2"; shift 2
{
  echo 'defaults'
  printf '  mode http\n  option http-no-delay\n  timeout connect 5s\n  timeout client 600s\n  timeout server 600s\n'
  printf 'frontend clients\n  bind %s\n  default_backend engines\n' "$address"
  printf 'backend engines\n  balance leastconn\n'
  n=0; for url; do n=$((n + 1)); echo "  server engine$n ${url#http://}"; done
} > haproxy.cfg
exec haproxy -db -f haproxy.cfg
