# A backend dies in the middle of an answer

#: start the demo
patchbay demo --listen 127.0.0.1:8080 --traffic=false >demo.log 2>&1 &
DEMO=$!; trap 'kill $DEMO; wait $DEMO' EXIT
until patchbay healthcheck --url http://127.0.0.1:8080 >health.log 2>&1; do sleep 0.1; done

curl -sN -D head.txt http://127.0.0.1:8080/v1/chat/completions > answer.txt \
  -d '{"model":"demo-slow","stream":true,"messages":[{"role":"user","content":"LONG"}]}' & STREAM=$!

#: find the instance that answers
until grep -qi x-router-instance head.txt 2>/dev/null; do sleep 0.1; done
HANDLE=$(sed -n 's/^x-router-instance: //Ip' head.txt | tr -d '\r')
INSTANCE=$(curl -s "http://127.0.0.1:8080/api/route/explain?service=chat&model=demo-slow" |
  tr '{' '\n' | grep "$HANDLE" | grep -o 'demo-slow@[^"]*')
sleep 1

# the instance that writes it breaks every connection
curl -s http://127.0.0.1:8080/api/demo/fault > fault.json \
  -d "{\"instanceId\":\"$INSTANCE\",\"fault\":\"down\"}"

wait $STREAM; grep resumed answer.txt; tail -n 2 answer.txt | head -n 1

# one id, and every sentence once
grep -o '"id":"[^"]*"' answer.txt | sort -u | wc -l

sed -n 's/.*"content":"\([^"]*\)".*/\1/p' answer.txt | tr -d '\n' \
  | sed 's/ \[. goes on here\]//' | grep -o 'Sentence [0-9]* of 24' | uniq | wc -l
