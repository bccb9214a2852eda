#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nginx.sh - nginx with two workers: files of many sizes by curl (sendfile on and off, ranges, keep-alive, through a second
# server block of the same nginx as proxy), wrk with many connections, a reload and a graceful stop.
# shellcheck source=tests/peers/lib.sh
. "$(dirname "$0")/lib.sh"
need nginx:nginx-light curl:curl wrk:wrk

[ "$(id -u)" = 0 ] && USERS_SERVER=root
SIZES="0 1 1000 65535 65536 1000003 $((FULL ? 256000000 : 24000000))"

# As one user, or as Debian packages it: a master of root's and workers of another user.
nginx_user() {
	[ "$(id -u)" = 0 ] || return
	if [ "$PASS" = users ]; then
		echo "user www-data;"
	else
		echo "user root;"
	fi
}

nginx_conf() {
	cat <<-END
	$(nginx_user)
	worker_processes 2;
	daemon off;
	pid $W/nginx.pid;
	error_log $W/error.log;
	worker_shutdown_timeout 5s;
	events { worker_connections 512; }
	http {
		access_log off;
		client_body_temp_path $W/t1; proxy_temp_path $W/t2; fastcgi_temp_path $W/t3;
		uwsgi_temp_path $W/t4; scgi_temp_path $W/t5;
		default_type application/octet-stream;
		keepalive_requests 1000000;
		upstream files { server 127.0.0.1:$P; keepalive 8; }
		server {
			listen 127.0.0.1:$P reuseport;
			location /sendfile/ { alias $W/www/; sendfile on; tcp_nopush on; }
			location /plain/ { alias $W/www/; sendfile off; }
		}
		server {
			listen 127.0.0.1:$P2;
			location / {
				proxy_pass http://files;
				proxy_http_version 1.1;
				proxy_set_header Connection "";
			}
		}
	}
	END
}

# All files over one kept connection, as "size hash".
fetch() {
	local base=$1 size args=()
	for size in $SIZES; do
		args+=(-o "$W/got.$size" "$base/$size")
	done
	client curl -sS --fail "${args[@]}"
	for size in $SIZES; do
		printf '%s %s\n' "$size" "$(sum_of <"$W/got.$size")"
		rm -f "$W/got.$size"
	done
}

# The answers counted by wrk: none but 200, no error. wrk prints those lines only if there were some.
load() {
	local text
	text=$(client wrk -t 1 -c "$1" -d "$2" "$3")
	grep -E 'Non-2xx|Socket errors' <<<"$text" && fail "wrk saw errors: $text"
	[ "$(awk '/requests in/ { print $1 }' <<<"$text")" -gt 100 ] || fail "wrk: too few requests: $text"
	echo "wrk $1 good"
}

worker_pids() { cat /proc/"${PIDS[nginx]}"/task/*/children; }
# True when there are workers, and none of those named by $1.
changed() {
	local pid now
	now=" $(worker_pids) "
	[ -n "${now// /}" ] || return 1
	for pid in $1; do
		[ "${now/ $pid /}" = "$now" ] || return 1
	done
}

scenario() {
	local P P2 size before seconds=$((FULL ? 10 : 1))
	mkdir "$W/www"
	for size in $SIZES; do
		blob "$size" "$size" "$W/www/$size"
	done
	port P
	port P2
	nginx_conf >"$W/nginx.conf"
	server nginx nginx -p "$W" -c "$W/nginx.conf" -e "$W/error.log"
	listening nginx "$P"
	listening nginx "$P2"
	fetch "http://127.0.0.1:$P/sendfile" >"$R/sendfile"
	fetch "http://127.0.0.1:$P/plain" >"$R/plain"
	fetch "http://127.0.0.1:$P2/sendfile" >"$R/proxied"
	client curl -sS --fail -r 1000-70000 "http://127.0.0.1:$P/sendfile/1000003" | sum_of >"$R/range"
	client curl -sS -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:$P/plain/none" >"$R/missing"
	load 1 "${seconds}s" "http://127.0.0.1:$P/plain/1000" >"$R/load"
	load 32 "${seconds}s" "http://127.0.0.1:$P/sendfile/65536" >>"$R/load"
	load 8 "${seconds}s" "http://127.0.0.1:$P2/plain/1000" >>"$R/load"

	before=$(worker_pids)
	kill -HUP "${PIDS[nginx]}"
	until_true 20 "a reload replaces the workers" changed "$before"
	fetch "http://127.0.0.1:$P/sendfile" >"$R/after-reload"
	stop nginx QUIT 10 0
}

peer_main "$@"
