#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# memcached.sh - memcached with two threads: the protocol conformance program of libmemcached, and a Python client with
# values up to 1 MB, pipelined requests and the UDP protocol.
# shellcheck source=tests/peers/lib.sh
. "$(dirname "$0")/lib.sh"
need memcached:memcached memccapable:libmemcached-tools

USERS_SERVER=nobody

scenario() {
	local P
	port P
	# memcached wants to be told as whom to run when root starts it.
	server memcached memcached -l 127.0.0.1 -p "$P" -U "$P" -t 2 -I 2m -m 256 -u "$(id -un)"
	listening memcached "$P"
	client memccapable -h 127.0.0.1 -p "$P" -t 10 >"$R/memccapable"
	client "$PY" "$PEERS/py/memcache.py" 127.0.0.1 "$P" "$((FULL ? 20 : 2))" >"$R/values"
	stop memcached TERM 10 0
}

peer_main "$@"
