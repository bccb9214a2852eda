# SPDX-License-Identifier: BSD-3-Clause
# bash completion for taut. The words come from the program itself (the option rows), so they fit its version.
_taut_words()
{
	"${COMP_WORDS[0]}" help --completion "$@" 2>/dev/null
}

_taut()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} cmd=${COMP_WORDS[1]} kind words i
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_taut_words | cut -f 1)" -- "$cur")
		return
	fi
	# "--name=value" comes as three words: --name = value.
	[ "$cur" = = ] && cur=
	[ "$prev" = = ] && prev=${COMP_WORDS[COMP_CWORD - 2]}
	# Behind the program that `taut run` starts, its own completion answers.
	if [ "$cmd" = run ]; then
		for ((i = 2; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			-- | [!-=]*) if [ "${COMP_WORDS[i]}" = -- ] || ! _taut_is_value "$cmd" "$i"; then
				[ "${COMP_WORDS[i]}" = -- ] && ((i++))
				declare -F _command_offset >/dev/null && _command_offset "$i" && return
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
				return
			fi ;;
			esac
		done
	fi
	kind=$(_taut_words "$cmd" | awk -F '\t' -v w="$prev" '$1 == w { print $2 }')
	words=$(_taut_words "$cmd" | awk -F '\t' -v w="$prev" '$1 == w { print $3 }')
	case $kind in
	words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur") ;;
	file) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	value) ;;
	*)
		if [[ $cur == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_taut_words "$cmd" | cut -f 1)" -- "$cur")
		elif [ "$cmd" = run ]; then
			mapfile -t COMPREPLY < <(compgen -c -- "$cur")
		elif [ "$cmd" = help ]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_taut_words | cut -f 1)" -- "$cur")
		fi ;;
	esac
}

# _taut_is_value COMMAND INDEX: the word at INDEX is the value of the option before it.
_taut_is_value()
{
	local before=${COMP_WORDS[$2 - 1]}
	[ "$before" = = ] && return 0
	_taut_words "$1" | awk -F '\t' -v w="$before" '$1 == w && $2 != "none" { found = 1 } END { exit !found }'
}

complete -F _taut taut
