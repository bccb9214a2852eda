#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# redis.sh - two redis servers, one the replica of the other, under redis-cli and redis-benchmark: values of many sizes,
# pipelines, a subscriber, replication from scratch and afterwards, both data sets equal in the end.
# shellcheck source=tests/peers/lib.sh
. "$(dirname "$0")/lib.sh"
need redis-server:redis-server redis-cli:redis-tools redis-benchmark:redis-tools

redis() { client redis-cli -h 127.0.0.1 -p "$P" "$@"; }

start_redis() {
	local name=$1 p=$2
	shift 2
	mkdir -p "$W/$name.d"
	server "$name" redis-server --port "$p" --bind 127.0.0.1 --dir "$W/$name.d" --save '' --appendonly no \
		--enable-debug-command yes --repl-diskless-sync yes --repl-diskless-sync-delay 0 "$@"
	listening "$name" "$p"
}

subscribed() { [ "$(redis pubsub numsub news | tail -n 1)" = 1 ]; }
synced() { redis-cli -h 127.0.0.1 -p "$P2" info replication | grep -q '^master_link_status:up'; }
digests_equal() {
	[ "$(redis-cli -h 127.0.0.1 -p "$P" debug digest)" = "$(redis-cli -h 127.0.0.1 -p "$P2" debug digest)" ]
}

scenario() {
	local P P2 size n=$((FULL ? 200000 : 5000))
	port P
	start_redis master "$P"
	for size in 1 100 16383 65536 1000000 8000000; do
		blob $size $size "$W/value"
		redis -x set "blob:$size" <"$W/value"
		redis get "blob:$size" >"$W/back"
		truncate -s -1 "$W/back" # the newline that redis-cli adds
		cmp "$W/value" "$W/back" || fail "the value of $size bytes came back wrong"
		redis strlen "blob:$size"
	done >"$R/values"

	# The replica starts when there is data to copy.
	port P2
	start_redis replica "$P2" --replicaof 127.0.0.1 "$P"
	until_true 20 "the replica is in step" synced

	awk 'BEGIN { for (i = 1; i <= 30000; i++) print "SET pipe:" i " value-" i }' >"$W/pipe"
	redis --pipe <"$W/pipe" | tail -n 1 >"$R/pipe"
	redis mget pipe:1 pipe:15000 pipe:30000 >"$R/mget"

	client_start subscriber redis-cli -h 127.0.0.1 -p "$P" --csv subscribe news
	until_true 20 "the subscriber is there" subscribed
	seq -f 'PUBLISH news item-%g' 2000 >"$W/news"
	redis --pipe <"$W/news" | tail -n 1 >"$R/publish"
	until_true 20 "the last item arrived" grep -q 'item-2000"' "$W/subscriber.log"
	stop subscriber INT 5 0 130
	grep -c '"message","news","item-' "$W/subscriber.log" >"$R/news"

	client redis-benchmark -h 127.0.0.1 -p "$P" --csv -t set,get -n "$n" -c 1 -d 64 >"$W/b1"
	client redis-benchmark -h 127.0.0.1 -p "$P" --csv -t set,get,lpush,lrange_100 -n "$n" -c 50 -d 200 >"$W/b2"
	client redis-benchmark -h 127.0.0.1 -p "$P" --csv -t set,get,incr -n $((n * 5)) -c 50 -P 16 >"$W/b3"
	# Only the names of the tests: the rates differ.
	cut -d, -f1 "$W/b1" "$W/b2" "$W/b3" >"$R/benchmark"
	redis get counter:__rand_int__ >"$R/counter"

	until_true 20 "master and replica hold the same" digests_equal
	redis debug digest >"$R/digest"
	redis dbsize >>"$R/digest"
	stop replica TERM 10 0
	stop master TERM 10 0
}

peer_main "$@"
