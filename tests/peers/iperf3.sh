#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# iperf3.sh - iperf3: TCP both ways, with one stream and four, blocks of 1 MB, IPv6, and UDP. Its own report has to say that
# what was sent was received.
# shellcheck source=tests/peers/lib.sh
. "$(dirname "$0")/lib.sh"
need iperf3:iperf3

# run NAME ADDRESS ARGS...: a server for one test, and the client.
run() {
	local name=$1 address=$2 P
	shift 2
	port P
	server "iperf3-$name" iperf3 -s -1 -J -B "$address" -p "$P"
	listening "iperf3-$name" "$P"
	client iperf3 -c "$address" -p "$P" -J "$@" >"$W/$name.json"
	finish "iperf3-$name" 10 0
	"$PY" "$PEERS/py/iperf3_report.py" "$name" "$W/$name.json" "$W/iperf3-$name.log" >>"$R/report" ||
		fail "$name: the report is not good"
}

scenario() {
	local mb=$((FULL ? 4000 : 300))
	run tcp 127.0.0.1 -n "${mb}M"
	run reverse 127.0.0.1 -n "${mb}M" -R
	run four 127.0.0.1 -n "${mb}M" -P 4
	run four-reverse 127.0.0.1 -n "${mb}M" -P 4 -R
	run blocks-1m 127.0.0.1 -n "${mb}M" -l 1M
	run ipv6 ::1 -n "${mb}M"
	run timed 127.0.0.1 -t 1
	run udp 127.0.0.1 -u -b 50M -n 5M -l 1400
	run udp-reverse 127.0.0.1 -u -b 50M -n 5M -l 1400 -R
}

peer_main "$@"
