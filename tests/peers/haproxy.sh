#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# haproxy.sh - haproxy in front of nginx, all on one host: as HTTP proxy and as TCP relay, copying and with splice, two
# threads; curl compares files, wrk keeps many connections busy; haproxy and nginx stop cleanly.
# shellcheck source=tests/peers/lib.sh
. "$(dirname "$0")/lib.sh"
need haproxy:haproxy nginx:nginx-light curl:curl wrk:wrk

SIZES="0 1 65536 1000003 $((FULL ? 256000000 : 16000000))"

nginx_conf() {
	cat <<-END
	$([ "$(id -u)" = 0 ] && echo "user root;")
	worker_processes 1;
	daemon off;
	pid $W/nginx.pid;
	error_log $W/error.log;
	events { worker_connections 512; }
	http {
		access_log off;
		client_body_temp_path $W/t1; proxy_temp_path $W/t2; fastcgi_temp_path $W/t3;
		uwsgi_temp_path $W/t4; scgi_temp_path $W/t5;
		default_type application/octet-stream;
		keepalive_requests 1000000;
		server { listen 127.0.0.1:$P; root $W/www; sendfile on; }
	}
	END
}

haproxy_conf() {
	cat <<-END
	global
		nbthread 2
		maxconn 500
	defaults
		timeout connect 10s
		timeout client 60s
		timeout server 60s
	frontend http_in
		mode http
		bind 127.0.0.1:$P1
		default_backend http_out
	backend http_out
		mode http
		http-reuse safe
		server nginx 127.0.0.1:$P
	frontend tcp_in
		mode tcp
		bind 127.0.0.1:$P2
		default_backend tcp_out
	backend tcp_out
		mode tcp
		server nginx 127.0.0.1:$P
	frontend splice_in
		mode tcp
		bind 127.0.0.1:$P3
		default_backend splice_out
	backend splice_out
		mode tcp
		option splice-request
		option splice-response
		server nginx 127.0.0.1:$P
	END
}

fetch() {
	local size args=()
	for size in $SIZES; do
		args+=(-o "$W/got.$size" "http://127.0.0.1:$1/$size")
	done
	client curl -sS --fail "${args[@]}"
	for size in $SIZES; do
		printf '%s %s\n' "$size" "$(sum_of <"$W/got.$size")"
		rm -f "$W/got.$size"
	done
}

load() {
	local text
	text=$(client wrk -t 1 -c "$1" -d $((FULL ? 10 : 1))s "$2")
	grep -E 'Non-2xx|Socket errors' <<<"$text" && fail "wrk saw errors: $text"
	[ "$(awk '/requests in/ { print $1 }' <<<"$text")" -gt 100 ] || fail "wrk: too few requests: $text"
	echo "wrk $1 good"
}

scenario() {
	local P P1 P2 P3 size
	mkdir "$W/www"
	for size in $SIZES; do
		blob "$size" "$size" "$W/www/$size"
	done
	port P
	port P1
	port P2
	port P3
	nginx_conf >"$W/nginx.conf"
	haproxy_conf >"$W/haproxy.cfg"
	server nginx nginx -p "$W" -c "$W/nginx.conf" -e "$W/error.log"
	listening nginx "$P"
	server haproxy haproxy -db -f "$W/haproxy.cfg"
	listening haproxy "$P3"
	fetch "$P1" >"$R/http"
	fetch "$P2" >"$R/tcp"
	fetch "$P3" >"$R/splice"
	load 16 "http://127.0.0.1:$P1/65536" >"$R/load"
	load 16 "http://127.0.0.1:$P2/1" >>"$R/load"
	stop haproxy USR1 10 0
	stop nginx QUIT 10 0
}

peer_main "$@"
