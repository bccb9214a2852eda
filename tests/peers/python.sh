#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# python.sh - Debian's Python: http.server under urllib, asyncio streams, datagrams and sendfile, socketserver with
# threads and with a process for each connection; and the same started through env, sh -c, taskset and numactl.
# shellcheck source=tests/peers/lib.sh
. "$(dirname "$0")/lib.sh"
need taskset:util-linux numactl:numactl

# web NAME COMMAND...: http.server started through COMMAND, asked by urllib started through COMMAND.
web() {
	local name=$1 P
	shift
	port P
	server "$name" "$@" "$PY" -m http.server "$P" --bind 127.0.0.1 --directory "$W/www"
	listening "$name" "$P"
	client "$@" "$PY" "$PEERS/py/fetch.py" "http://127.0.0.1:$P" small large missing >"$R/$name"
	stop "$name" INT 10 0 130
}

scenario() {
	local P kind
	mkdir "$W/www"
	blob 1000 3 "$W/www/small"
	blob $((FULL ? 300000000 : 12000000)) 4 "$W/www/large"

	web http
	web http-env env -u TT_NOT_SET
	web http-taskset taskset -c "$(($(nproc) - 1))"
	web http-numactl numactl --localalloc
	# shellcheck disable=SC2016
	web http-sh sh -c 'exec "$0" "$@"'

	for kind in thread fork; do
		port P
		server "$kind" "$PY" "$PEERS/py/serve.py" $kind "$P"
		listening "$kind" "$P"
		# A shell that stays as the parent of what it starts.
		# shellcheck disable=SC2016
		client sh -c '"$0" "$@"; exit $?' "$PY" "$PEERS/py/ask.py" "$P" 4 $((FULL ? 50000000 : 3000000)) >"$R/$kind"
		stop "$kind" TERM 10 0
	done

	port P
	server asyncio "$PY" "$PEERS/py/aio.py" server "$P" "$W/www/large"
	listening asyncio "$P"
	client "$PY" "$PEERS/py/aio.py" client "$P" "$W/www/large" >"$R/asyncio"
	stop asyncio TERM 10 0
}

peer_main "$@"
