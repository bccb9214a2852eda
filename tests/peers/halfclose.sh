#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# halfclose.sh - socat and ncat: the client sends all, closes its half, and gets an answer that depends on the last byte;
# echo in both directions at once; sockets handed to another program by fork and exec; TLS; UDP; IPv6.
# shellcheck source=tests/peers/lib.sh
. "$(dirname "$0")/lib.sh"
need socat:socat ncat:ncat openssl:openssl

# one NAME LISTEN-ADDRESS CONNECT-ADDRESS: socat to socat. The server ends with its only connection. (-t: by itself socat waits half a
# second for the answer once one direction has ended, which a busy machine takes.)
one() {
	local name=$1
	server "$name" socat -t 5 "$2" "$4"
	listening "$name" "$P" "${5:-tcp}"
	client socat -t 30 - "$3" <"$W/file" | sum_of >"$R/$name"
	finish "$name" 10 0
}

# A ncat server that stays for several connections.
ncat_server() {
	local name=$1
	shift
	port P
	server "$name" ncat -l 127.0.0.1 "$P" "$@"
	listening "$name" "$P" "$([ "${*/-u/}" = "$*" ] && echo tcp || echo udp)"
}

scenario() {
	local P n
	blob $((FULL ? 300000000 : 8000003)) 5 "$W/file"
	head -c 1000 "$W/file" >"$W/small"
	head -c 50000 "$W/file" >"$W/part"
	sum_of <"$W/file" >"$R/file"
	port P
	one pipes "TCP-LISTEN:$P,bind=127.0.0.1,reuseaddr" "TCP:127.0.0.1:$P" 'EXEC:sha256sum,pipes'
	port P
	one echo "TCP-LISTEN:$P,bind=127.0.0.1,reuseaddr" "TCP:127.0.0.1:$P" 'EXEC:cat'
	port P
	# The accepted socket itself becomes standard input and output of another program. This one reads it by stdio.
	apart unseen
	one exec "TCP-LISTEN:$P,bind=127.0.0.1,reuseaddr" "TCP:127.0.0.1:$P" 'EXEC:sha256sum,nofork'
	together
	port P
	one exec-echo "TCP-LISTEN:$P,bind=127.0.0.1,reuseaddr" "TCP:127.0.0.1:$P" 'EXEC:cat,nofork'
	port P
	one ipv6 "TCP6-LISTEN:$P,bind=[::1],reuseaddr" "TCP6:[::1]:$P" 'EXEC:cat'
	for n in echo exec-echo ipv6; do
		cmp -s "$R/file" "$R/$n" || fail "$n: what came back is not what was sent"
	done

	# A relay between two others, and many connections to a server that forks for each.
	local target
	port P
	target=$P
	server fork socat -t 5 "TCP-LISTEN:$target,bind=127.0.0.1,reuseaddr,fork" EXEC:sha256sum,pipes
	listening fork "$target"
	port P
	server relay socat -t 5 "TCP-LISTEN:$P,bind=127.0.0.1,reuseaddr,fork" "TCP:127.0.0.1:$target"
	listening relay "$P"
	for n in 1 2 3 4; do
		head -c $((n * 400000)) "$W/file" | client socat -t 30 - "TCP:127.0.0.1:$P" >"$R/relay.$n" &
	done
	# shellcheck disable=SC2046
	wait $(jobs -p | tail -n 4)
	stop relay TERM 5 143
	stop fork TERM 5 143

	port P
	server datagrams socat "UDP-RECVFROM:$P,bind=127.0.0.1,fork" EXEC:sha256sum,pipes
	listening datagrams "$P" udp
	client socat -t 5 -T 5 - "UDP:127.0.0.1:$P,shut-none" <"$W/small" >"$R/datagrams"
	stop datagrams TERM 5 143

	# The program that ncat starts has the socket open as well, and could use it.
	apart forked
	ncat_server ncat-exec -k --exec /usr/bin/sha256sum
	client ncat 127.0.0.1 "$P" <"$W/file" >"$R/ncat-exec"
	client ncat 127.0.0.1 "$P" <"$W/small" >"$R/ncat-exec-small"
	stop ncat-exec TERM 5 143
	ncat_server ncat-echo -k --exec /bin/cat
	# Little: ncat, as client and as server, writes with blocking calls before it reads what comes back.
	client ncat 127.0.0.1 "$P" <"$W/part" | sum_of >"$R/ncat-echo"
	client socat -t 30 - "TCP:127.0.0.1:$P" <"$W/part" | sum_of >"$R/socat-ncat"
	stop ncat-echo TERM 5 143
	together
	# Without a program: what the server gets is its output; it ends when the client closes.
	port P
	server ncat-receive sh -c "exec ncat -l 127.0.0.1 $P --recv-only >'$W/received'"
	listening ncat-receive "$P"
	client ncat --send-only 127.0.0.1 "$P" <"$W/file"
	finish ncat-receive 10 0
	sum_of <"$W/received" >"$R/ncat-receive"
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$W/tls.key" -out "$W/tls.pem" -days 1 \
		-subj /CN=localhost 2>"$W/openssl.log" || die "openssl: $(tail -n 3 "$W/openssl.log")"
	# TLS has no half close here: the server's program ends by itself, and the client waits for that.
	ncat_server ncat-tls -k --ssl --ssl-cert "$W/tls.pem" --ssl-key "$W/tls.key" --exec '/usr/bin/head -c 50000'
	client ncat --ssl --no-shutdown 127.0.0.1 "$P" <"$W/part" | sum_of >"$R/ncat-tls"
	stop ncat-tls TERM 5 143
}

peer_main "$@"
