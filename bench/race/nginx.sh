# nginx, the floor: least connections, as its documentation has it for long requests.
# health: /v1/models
# bench/race/nginx.sh ADDRESS DIRECTORY URL...
address=$1; cd "$2"; shift 2
{
  echo 'daemon off; pid nginx.pid; error_log stderr error; events { worker_connections 8192; }'
  echo 'http { access_log off; client_max_body_size 64m; client_body_buffer_size 8m; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;'
  echo 'upstream engines { least_conn; keepalive 256;'
  for url; do echo "server ${url#http://};"; done
  echo '}'
  echo "server { listen $address; location / { proxy_pass http://engines; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_buffering off; proxy_read_timeout 600s; } } }"
} > nginx.conf
exec nginx -p "$PWD" -e stderr -c nginx.conf
