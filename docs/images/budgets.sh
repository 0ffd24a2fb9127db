# A budget of 0.01 USD, 200 requests at once, and kill -9

#: a gateway with a price, a key and its budget
cat > budget.yaml <<'Y'
security: { enabled: true, tenants: [{ name: team, budgets: { day: { cost: 0.01 } } }],
  keys: [{ id: team-a, tenant: team, key-sha256: "${sha256:KEY}" }] }
prices: { models: [{ model: demo-chat, input: 1, output: 10 }] }
Y
export KEY=pb-4f1d8c2a6e9b7035d8f1a2c4e6b80917
start() { patchbay demo --listen 127.0.0.1:8080 --config budget.yaml --data-dir data --traffic=false >>demo.log 2>&1 & DEMO=$!
  until patchbay healthcheck --url http://127.0.0.1:8080 >health.log 2>&1; do sleep 0.1; done; }
start; trap 'kill $DEMO; wait $DEMO' EXIT
BODY='{"model":"demo-chat","max_tokens":40,"messages":[{"role":"user","content":"hi"}]}'
ask() { curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:8080/v1/chat/completions -H "Authorization: Bearer $KEY" -d "$BODY"; }
export -f ask; export BODY

# ask sends a chat request with a key of the team, whose requests cost about 0.00025 USD
seq 200 | xargs -P 50 -I{} bash -c ask | sort | uniq -c

kill -9 $DEMO; wait $DEMO 2>/dev/null; start

seq 10 | xargs -P 10 -I{} bash -c ask | sort | uniq -c

curl -s http://127.0.0.1:8080/v1/chat/completions -H "Authorization: Bearer $KEY" -d "$BODY" \
  | grep -o '"message":"[^"]*"'
