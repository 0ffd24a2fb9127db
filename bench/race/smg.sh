# Shepherd Model Gateway (SMG), from PyPI: its policy for caches of prefixes, with its defaults.
# health: /readiness
# bench/race/smg.sh ADDRESS DIRECTORY URL...
address=$1; cd "$2"; shift 2
exec "${RACE:?the folder of the routers, as make race sets it}/smg/bin/smg" launch --host "${address%:*}" --port "${address##*:}" --worker-urls "$@" \
  --policy cache_aware --log-level error --prometheus-port $((${address##*:} > 40000 ? ${address##*:} - 20000 : ${address##*:} + 20000))
