# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
#
# lib.sh - what the peer scripts share: one real program in several passes, the same results in each.
#
# A script sources this file, names the commands it needs (`need`), defines scenario() and ends with
# `peer_main "$@"`. scenario() is run once for each pass, in a subshell and with a fresh folder:
#
#	kernel	nobody accelerated. Its results are the reference for the passes that follow
#	both	server and client under `taut run`, same user: results, and the share that went by shared memory
#	server	only what scenario() starts by `server` is accelerated
#	client	only what it starts by `client` is
#	users	as packaged: both accelerated, but as two users. Right results, and the reason is shown.
#		Only where the script sets USERS_SERVER (root needed)
#
# Inside scenario():
#	$W	folder of this pass		$R	folder of its results, compared byte for byte between passes
#	$PASS	name of the pass		$FULL	1 for the long form, else empty (TT_FULL=1)
#	server NAME CMD...	start a program in the background (log: $W/NAME.log)
#	client CMD...		run a program to its end, at most $LIMIT seconds; a bad exit status fails the pass
#	client_start NAME CMD...	a client in the background
#	stop NAME SIGNAL SECONDS STATUS...	signal it; it must end within the time, with one of the statuses
#	finish NAME SECONDS STATUS...		the same without a signal
#	port VAR		choose a free port	listening NAME PORT [udp]	wait for it
#	blob SIZE SEED FILE	bytes that look random and are the same each time
#	apart WORD		what is started from here on has to stay with the kernel, for that reason: in pass both it is
#				not held against the share, and the reason must be shown. `together`: from here on all counts again
#	fail TEXT		the pass has failed and goes on; die TEXT: and ends here
#
# Exit status: 0 all passes good, 1 not, 2 usage, 77 skipped (tools/run-tests makes that a failure with CI=true).

set -u -o pipefail
export LC_ALL=C
export PATH="$PATH:/usr/sbin:/sbin"
unset LD_PRELOAD XDG_RUNTIME_DIR MAKEFLAGS http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY

PEERS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
NAME=$(basename "$0" .sh)
: "${TT_TAUT:=$PEERS/../../build/release/taut}"
FULL=${TT_FULL:-}
PY=/usr/bin/python3	# Debian's own: the packages are its
LIMIT=60		# seconds for one client command
SHARE_MIN=95		# percent of the eligible bytes that have to go by shared memory in pass both (py/stats.py)
USERS_SERVER=		# user of the server in pass users; empty: no such pass
CLIENT_USER=		# user of the client in pass users; empty: whoever runs this
SAME_USER=		# user of both ends in all other passes; empty: whoever runs this
APART=			# suffix of the statistics' file
declare -A PIDS=()

say() { printf '%s\n' "$*" >&2; }

usage() {
	say "usage: $NAME.sh [--pass kernel|both|server|client|users]... [--keep]"
	say "  TT_TAUT=PATH the taut program, TT_FULL=1 the long form, TAUT_ATTACH_AFTER=0 shared memory from the first byte"
}

# need COMMAND:PACKAGE...
need() {
	local row missing=()
	for row in "$@" ss:iproute2 setpriv:util-linux "$PY:python3"; do
		command -v "${row%%:*}" >/dev/null || missing+=("${row#*:}")
	done
	[ ${#missing[@]} -eq 0 ] && return
	skip "not installed: apt-get install --no-install-recommends ${missing[*]}"
}

skip() {
	printf 'SKIP: %s\n' "$*"
	exit 77
}

fail() {
	say "$NAME $PASS: FAILED: $*"
	printf '%s\n' "$*" >>"$W/failures"
}

die() {
	fail "$@"
	exit 1
}

now_ms() {
	local t=${EPOCHREALTIME/[.,]/}
	printf '%s' $((t / 1000))
}

# prefix ROLE: sets PREFIX to what stands before a program of that role in this pass.
prefix() {
	local user=$SAME_USER
	# The shell starts background programs with SIGINT and SIGQUIT ignored.
	PREFIX=(env '--default-signal=INT,QUIT' "TT_PEER_MARK=$TOP")
	[ "$PASS" = users ] && [ "$1" = server ] && user=$USERS_SERVER
	[ "$PASS" = users ] && [ "$1" = client ] && user=$CLIENT_USER
	if [ -n "$user" ] && [ "$(id -un)" != "$user" ]; then
		PREFIX+=(HOME="$W" setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups)
	fi
	case $PASS:$1 in
	both:* | users:* | server:server | client:client)
		PREFIX+=(env "TAUT_STATS_FILE=$W/stats$APART" "$TOP/bin/taut" run --)
		;;
	esac
}

launch() {
	local role=$1 name=$2
	shift 2
	prefix "$role"
	"${PREFIX[@]}" "$@" >"$W/$name.log" 2>&1 &
	PIDS[$name]=$!
}

server() { launch server "$@"; }
client_start() { launch client "$@"; }

client() {
	local rc err=$W/client.err.$BASHPID
	prefix client
	timeout -k 5 "$LIMIT" "${PREFIX[@]}" "$@" 2>"$err"
	rc=$?
	if [ $rc -ne 0 ]; then
		fail "client exit status $rc$([ $rc = 124 ] && printf ' (not done in %s s)' "$LIMIT"): $*"
		tail -n 5 "$err" >&2
	fi
	return $rc
}

alive() { kill -0 "${PIDS[$1]}" 2>/dev/null; }

# finish NAME SECONDS STATUS...
finish() {
	local name=$1 within=$2 pid=${PIDS[$1]} end rc want
	shift 2
	end=$(($(now_ms) + within * 1000))
	while kill -0 "$pid" 2>/dev/null; do
		if [ "$(now_ms)" -gt "$end" ]; then
			fail "$name (process $pid) has not ended within $within s"
			state_of "$pid"
			kill -KILL "$pid"
			break
		fi
		sleep 0.02
	done
	wait "$pid"
	rc=$?
	unset "PIDS[$name]"
	for want in "$@"; do
		[ $rc -eq "$want" ] && return 0
	done
	fail "$name ended with status $rc instead of $*"
	tail -n 15 "$W/$name.log" >&2
	return 1
}

stop() {
	local name=$1 signal=$2
	shift 2
	if ! alive "$name"; then
		fail "$name had ended before it was stopped"
	else
		kill "-$signal" "${PIDS[$name]}"
	fi
	finish "$name" "$@"
}

apart() {
	APART=.$1
	: >"$W/stats$APART"
	chmod 0666 "$W/stats$APART"
}

together() { APART=; }

# The parts that stay with the kernel have said why, each.
apart_reasons() {
	local file
	for file in "$W"/stats.*; do
		[ -e "$file" ] || continue
		"$PY" "$PEERS/py/stats.py" "$file" --reason "${file##*/stats.}" >"$W/apart" 2>&1 || fail "$(cat "$W/apart")"
	done
}

# What a stuck process waits for, for the log.
state_of() {
	local t
	for t in /proc/"$1"/task/*; do
		say "  thread ${t##*/}: $(cat "$t/comm" "$t/wchan" "$t/syscall" 2>/dev/null | tr '\n' ' ')"
	done
}

# port VAR: below the range that the kernel gives out by itself, so that no client takes it before its server.
port() {
	local p
	for _ in $(seq 100); do
		p=$((15000 + SRANDOM % 16000))
		if [ -z "$(ss -Htuan "sport = :$p")" ]; then
			printf -v "$1" '%s' "$p"
			return
		fi
	done
	die "found no free port"
}

# listening NAME PORT [udp]
listening() {
	local name=$1 p=$2 end
	end=$(($(now_ms) + 20000))
	until [ -n "$(ss -Hn "-l$([ "${3:-tcp}" = udp ] && echo u || echo t)" "sport = :$p")" ]; do
		if ! alive "$name" || [ "$(now_ms)" -gt "$end" ]; then
			tail -n 15 "$W/$name.log" >&2
			die "$name does not listen on port $p"
		fi
		sleep 0.02
	done
}

# until_true SECONDS TEXT CMD...
until_true() {
	local end text=$2
	end=$(($(now_ms) + $1 * 1000))
	shift 2
	until "$@"; do
		[ "$(now_ms)" -gt "$end" ] && die "never happened: $text"
		sleep 0.02
	done
}

blob() {
	"$PY" "$PEERS/py/blob.py" "$1" "$2" >"$3"
}

sum_of() { sha256sum | cut -d' ' -f1; }

# Processes that carry our mark in their environment; the pass has ended, so none should be left.
left_over() {
	grep -lzs "^TT_PEER_MARK=$TOP\$" /proc/[0-9]*/environ | sed 's,/proc/\([0-9]*\)/.*,\1,'
}

reap() {
	local pid
	for pid in $(left_over); do
		[ "$1" = quiet ] || fail "left behind: process $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
		kill -KILL "$pid" 2>/dev/null
	done
}

# What scenario() started and did not stop, because it ended early. By number: sshd writes its title over the
# environment in which left_over looks for the mark.
end_rest() {
	local pid
	for pid in "${PIDS[@]}"; do
		kill -KILL "$pid" 2>/dev/null
	done
}

run_pass() {
	local t0 t1 text=
	PASS=$1
	W=$TOP/$2
	R=$W/results
	mkdir -p "$R"
	chmod 0777 "$W" "$R"
	: >"$W/stats"
	chmod 0666 "$W/stats"
	t0=$(now_ms)
	(
		trap 'exit 1' INT TERM
		trap end_rest EXIT
		scenario
	) || {
		fail "ended early"
		reap quiet
	}
	# A server that was told to stop may still be letting its children go.
	for _ in $(seq 100); do
		[ -z "$(left_over)" ] && break
		sleep 0.02
	done
	reap loud
	t1=$(now_ms)
	[ -n "$(ls -A "$R")" ] || fail "no results"
	if [ "$W" != "$TOP/0-kernel" ]; then
		diff -r "$TOP/0-kernel/results" "$R" | head -n 40 >"$W/diff"
		if [ -s "$W/diff" ]; then
			fail "results differ from the kernel's"
			cut -c1-200 "$W/diff" >&2
		fi
	fi
	case $PASS in
	kernel) ;;
	both)
		text=$("$PY" "$PEERS/py/stats.py" "$W/stats" --share "$SHARE_MIN" 2>&1) || fail "$text"
		apart_reasons
		;;
	users) text=$("$PY" "$PEERS/py/stats.py" "$W/stats" --reason peer-user,peer-plain 2>&1) || fail "$text" ;;
	*) text=$("$PY" "$PEERS/py/stats.py" "$W/stats" 2>&1) || fail "$text" ;;
	esac
	if [ -e "$W/failures" ]; then
		say "$NAME $PASS: failed, $((t1 - t0)) ms"
		return 1
	fi
	say "$NAME $PASS: good, $((t1 - t0)) ms${text:+, $text}"
}

clean() {
	PASS=${PASS:-none}
	reap quiet
	if [ -n "$KEEP" ]; then
		say "$NAME: kept $TOP"
	else
		rm -rf "$TOP"
	fi
}

peer_main() {
	local passes=() pass bad=0 n=0
	KEEP=
	while [ $# -gt 0 ]; do
		case $1 in
		--pass)
			case ${2:-} in
			kernel | both | server | client | users) passes+=("$2") ;;
			*)
				say "$NAME: unknown pass '${2:-}'"
				usage
				exit 2
				;;
			esac
			shift
			;;
		--keep) KEEP=1 ;;
		*)
			say "$NAME: unknown argument '$1'"
			usage
			exit 2
			;;
		esac
		shift
	done
	TOP=$(mktemp -d "${TMPDIR:-/tmp}/taut-peer-$NAME.XXXXXX") || exit 3
	chmod 0755 "$TOP"
	trap clean EXIT
	trap 'exit 130' INT TERM
	run_pass kernel 0-kernel || exit 1
	if [ ${#passes[@]} -eq 0 ]; then
		passes=(both server client)
		[ -n "$USERS_SERVER" ] && [ "$(id -u)" = 0 ] && passes+=(users)
	fi
	# A copy that every user may read and run.
	mkdir "$TOP/bin"
	if [ -x "$TT_TAUT" ] && [ -e "$(dirname "$TT_TAUT")/libtaut.so" ]; then
		cp "$TT_TAUT" "$(dirname "$TT_TAUT")/libtaut.so" "$TOP/bin/"
	elif [ "${passes[*]}" != kernel ]; then
		skip "only the kernel pass ran: no taut with a libtaut.so beside it at $TT_TAUT"
	fi
	for pass in "${passes[@]}"; do
		n=$((n + 1))
		run_pass "$pass" "$n-$pass" || bad=1
	done
	exit $bad
}
