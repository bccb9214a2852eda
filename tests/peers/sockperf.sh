#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sockperf.sh - sockperf's own checks: ping-pong with --data-integrity, under load and throughput, over UDP and TCP,
# blocking and not, with servers that wait in recvfrom, or by epoll, poll and select over several sockets.
# shellcheck source=tests/peers/lib.sh
. "$(dirname "$0")/lib.sh"
need sockperf:sockperf

SECONDS_EACH=$((FULL ? 5 : 1))

# judge NAME LOG [lossy]: nothing twice, nothing out of order, nothing dropped (or, lossy, that may be).
judge() {
	local line
	line=$(sed 's/\x1b\[[0-9;]*m//g' "$2" | grep -o '# dropped messages = .*')
	case $line in
	'# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0') echo "$1 good" ;;
	*'; # duplicated messages = 0; # out-of-order messages = 0')
		[ "${3:-}" = lossy ] || fail "$1: ${line:-no summary}"
		echo "$1 good"
		;;
	*) fail "$1: ${line:-no summary: $(tail -n 2 "$2")}" ;;
	esac
}

# run NAME MODE ARGS...
run() {
	local name=$1 mode=$2
	shift 2
	client sockperf "$mode" -t "$SECONDS_EACH" "$@" >"$W/$name.out"
	if grep -qi 'data integrity test failed' "$W/$name.out"; then
		fail "$name: $(grep -i 'data integrity' "$W/$name.out")"
	fi
}

# plain NAME udp|tcp: a server with one socket, which it waits for in recvfrom.
plain() {
	port P
	server "$1" sockperf sr -i 127.0.0.1 -p "$P" "$([ "$2" = tcp ] && echo --tcp || echo --uc-reuseaddr)"
	listening "$1" "$P" "$2"
}

# several NAME epoll|poll|select: a server with three sockets; P is a TCP port, P2 a UDP port.
several() {
	port P
	port P2
	port P3
	printf 'T:127.0.0.1:%s\nU:127.0.0.1:%s\nT:127.0.0.1:%s\n' "$P" "$P2" "$P3" >"$W/feed"
	server "$1" sockperf sr -f "$W/feed" -F "$2"
	listening "$1" "$P3"
}

scenario() {
	local P P2 P3 v=$R/verdicts
	several epoll epoll
	run all pp -f "$W/feed" -F epoll -m 64
	judge all "$W/all.out" >>"$v"
	run tp-tcp tp -i 127.0.0.1 -p "$P" --tcp -m 1400
	grep -q 'Message Rate is' "$W/tp-tcp.out" && echo "tp-tcp good" >>"$v"
	stop epoll INT 10 0
	several poll poll
	run pp-tcp pp -i 127.0.0.1 -p "$P" --tcp -m 700 -r 600 --nonblocked --data-integrity
	judge pp-tcp "$W/pp-tcp.out" >>"$v"
	stop poll INT 10 0
	several select select
	run ul-udp ul -i 127.0.0.1 -p "$P2" -m 200 --mps 5000
	judge ul-udp "$W/ul-udp.out" lossy >>"$v"
	stop select INT 10 0
	plain udp udp
	run pp-udp pp -i 127.0.0.1 -p "$P" -m 64 --data-integrity
	judge pp-udp "$W/pp-udp.out" >>"$v"
	if [ -n "$FULL" ]; then
		run tp-udp tp -i 127.0.0.1 -p "$P" -m 1400
		grep -q 'Message Rate is' "$W/tp-udp.out" && echo "tp-udp good" >>"$v"
	fi
	stop udp INT 10 0
	plain tcp tcp
	run ul-tcp ul -i 127.0.0.1 -p "$P" --tcp -m 200 --mps 5000
	judge ul-tcp "$W/ul-tcp.out" >>"$v"
	stop tcp INT 10 0
}

peer_main "$@"
