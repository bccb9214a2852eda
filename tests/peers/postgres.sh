#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# postgres.sh - a postgres cluster of our own under psql and pgbench over TCP: four clients with prepared statements,
# connections for one transaction each, COPY both ways, LISTEN and NOTIFY, and sums that have to agree.
# shellcheck source=tests/peers/lib.sh
. "$(dirname "$0")/lib.sh"
PATH="$PATH:$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)"
need postgres:postgresql-15 initdb:postgresql-15 psql:postgresql-client-15 pgbench:postgresql-15

# postgres refuses to run as root; the package makes this user.
if [ "$(id -u)" = 0 ]; then
	SAME_USER=postgres
	USERS_SERVER=postgres
fi

sql() { client psql -X -q -A -t -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$P" -U bench -d postgres "$@"; }

scenario() {
	local P n=$((FULL ? 5000 : 250)) rows=$((FULL ? 2000000 : 200000))
	port P
	mkdir "$W/data"
	[ -n "$SAME_USER" ] && chown "$SAME_USER" "$W/data"
	prefix none
	(cd "$W" && "${PREFIX[@]}" initdb -D "$W/data" -U bench -A trust --no-sync --locale=C -E UTF8) >"$W/initdb.log" 2>&1 ||
		die "initdb: $(tail -n 3 "$W/initdb.log")"
	server postgres postgres -D "$W/data" -p "$P" -h 127.0.0.1 -k '' -c fsync=off -c full_page_writes=off \
		-c shared_buffers=64MB -c log_min_messages=warning -c max_wal_size=4GB
	listening postgres "$P"

	client pgbench -h 127.0.0.1 -p "$P" -U bench -i -s 1 -q postgres >"$W/pgbench-i.log"
	client pgbench -h 127.0.0.1 -p "$P" -U bench -c 4 -j 2 -t "$n" -M prepared --random-seed=7 postgres >"$W/pgbench.log"
	client pgbench -h 127.0.0.1 -p "$P" -U bench -c 2 -t 10 -n -C -S --random-seed=7 postgres >"$W/pgbench-c.log"
	grep -h -E '^number of (transactions|failed)' "$W/pgbench.log" "$W/pgbench-c.log" >"$R/pgbench"
	sql -c "select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers),
		(select sum(bbalance) from pgbench_branches), (select sum(delta) from pgbench_history),
		(select count(*) from pgbench_history)" >"$R/sums"
	awk -F '|' '$1 != $2 || $1 != $3 || $1 != $4 { exit 1 }' "$R/sums" || fail "the sums differ: $(cat "$R/sums")"

	sql -c "select i, md5(i::text), repeat('x', i % 50) from generate_series(1, $rows) i" >"$W/rows"
	sum_of <"$W/rows" >"$R/select"
	sql -c "create table t (i int, m text, x text)"
	sql -c "copy t from stdin (delimiter '|')" <"$W/rows"
	sql -c "copy (select * from t order by i) to stdout (delimiter '|')" | sum_of >"$R/copy"
	cmp -s "$R/select" "$R/copy" || fail "what COPY brought in is not what it brings out"
	sql -c "select length(string_agg(m, '')), md5(string_agg(m, '' order by i)) from t" >"$R/one-big-value"
	sql -c "listen news; notify news, 'one'; notify news, 'two'" | sed 's/PID [0-9]*/PID n/' >"$R/notify"
	stop postgres INT 15 0
}

peer_main "$@"
