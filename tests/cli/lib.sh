# SPDX-License-Identifier: BSD-3-Clause
# What the cases share. TAUT, OUT and CC come from CTest.
set -u
: "${TAUT:?}" "${OUT:?}" "${CC:?}"
for v in $(env | sed -n 's/^\(TAUT_[A-Z_]*\)=.*/\1/p'); do unset "$v"; done
unset LD_PRELOAD
export TAUT_LIBRARY=$OUT/libtaut.so LC_ALL=C
tmp=$(mktemp -d) || exit 3
trap 'rm -rf "$tmp"' EXIT
failed=0

fail()
{
	echo "FAILED: $*"
	sed 's/^/    out: /' "$tmp/out" 2>/dev/null
	sed 's/^/    err: /' "$tmp/err" 2>/dev/null
	failed=$((failed + 1))
}

# expect RC COMMAND...: runs it, keeps its output in $tmp/out and $tmp/err
expect()
{
	local want=$1 rc
	shift
	"$@" >"$tmp/out" 2>"$tmp/err"
	rc=$?
	what="$*"
	[ $rc -eq "$want" ] || fail "$what: exit $rc, not $want"
}

# says TEXT: the last command's standard error is one line that holds TEXT. quiet: it is empty.
says()
{
	[ "$(wc -l <"$tmp/err")" -eq 1 ] || fail "$what: not one line"
	grep -qF -- "$1" "$tmp/err" || fail "$what: does not say \"$1\""
}

quiet()
{
	[ ! -s "$tmp/err" ] || fail "$what: is not quiet"
}

# prints TEXT: standard output holds it. only TEXT: it is just that.
prints()
{
	grep -qF -- "$1" "$tmp/out" || fail "$what: does not print \"$1\""
}

only()
{
	[ "$(cat "$tmp/out")" = "$1" ] || fail "$what: does not print just \"$1\""
}

done_testing()
{
	[ $failed -eq 0 ] || exit 1
	echo "all good"
	exit 0
}
