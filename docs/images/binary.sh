# From an archive to the first answer

#: what an archive holds
cp "$(command -v patchbay)" here; mkdir bin; mv here bin/patchbay; cd bin

ls -sh patchbay; ldd patchbay 2>&1

began=$(date +%s%N); ./patchbay demo --listen 127.0.0.1:8080 >demo.log 2>&1 &

#: wait
DEMO=$!; trap 'kill $DEMO; wait $DEMO' EXIT

until curl -sf http://127.0.0.1:8080/v1/chat/completions -o answer.json \
  -d '{"model":"demo-chat","messages":[{"role":"user","content":"hi"}]}'; do sleep 0.02; done
echo "$(( ($(date +%s%N) - began) / 1000000 )) ms"
