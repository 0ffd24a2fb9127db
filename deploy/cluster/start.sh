#!/usr/bin/env bash
# Starts three gateways that are one, and nginx in front of them where it is installed,
# and stops them all when it is stopped. See docs/scaling.md.
#
#   DATABASE_URL=postgres://… REDIS_URL=redis://… MASTER_KEY=… deploy/cluster/start.sh [team.yaml]
#
# GATEWAYS says how many (3), PORT where the first one listens (8081; the others at the
# ports behind it), DATA where their data directories are (data).
set -u
here=$(cd "$(dirname "$0")" && pwd)
config=${1:-$here/team.yaml}
gateways=${GATEWAYS:-3}
port=${PORT:-8081}
data=${DATA:-data}

for name in DATABASE_URL REDIS_URL MASTER_KEY; do
    eval "value=\${$name:-}"
    if [ -z "$value" ]; then
        echo "start.sh: $name is not set; docs/scaling.md says what it is" >&2
        exit 2
    fi
done

running=
stop() {
    trap '' INT TERM
    # shellcheck disable=SC2086 # a list of process ids
    [ -z "$running" ] || kill -TERM $running 2>/dev/null
    wait
}
trap 'stop; exit 0' INT TERM
fail() {
    echo "start.sh: $1" >&2
    stop
    exit 1
}

n=1
while [ "$n" -le "$gateways" ]; do
    address=127.0.0.1:$((port + n - 1))
    patchbay serve --config "$config" --data-dir "$data/$n" --listen "$address" &
    running="$running $!"
    tries=0
    until patchbay healthcheck --url "http://$address" >/dev/null 2>&1; do
        jobs -pr | grep -qx "$!" || fail "the gateway at $address has ended; its messages are above"
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || fail "the gateway at $address is not ready"
        sleep 0.2
    done
    echo "gateway $n is ready at http://$address" >&2
    n=$((n + 1))
done

if [ "$gateways" -eq 3 ] && [ "$port" -eq 8081 ] && command -v nginx >/dev/null; then
    nginx -p "$PWD" -c "$here/../nginx/patchbay.conf" &
    running="$running $!"
    echo "nginx is at http://127.0.0.1:8080" >&2
fi
echo "ready; Ctrl-C stops all" >&2
wait
