# Shepherd Model Gateway (SMG), from PyPI: pip install smg. bench/others/smg.sh ADDRESS BACKEND DIRECTORY
cd "$3" && exec smg launch --host "${1%:*}" --port "${1##*:}" --worker-urls "http://$2" "http://$2/stream" --policy round_robin --log-level error
