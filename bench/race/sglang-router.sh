# SGLang's router, from PyPI: cache_aware is its default policy.
# health: /readiness
# bench/race/sglang-router.sh ADDRESS DIRECTORY URL...
address=$1; cd "$2"; shift 2
exec "${RACE:?the folder of the routers, as make race sets it}/sglang-router/bin/sglang-router" launch --host "${address%:*}" --port "${address##*:}" --worker-urls "$@" \
  --policy cache_aware --log-level error --prometheus-port $((${address##*:} > 40000 ? ${address##*:} - 20000 : ${address##*:} + 20000))
