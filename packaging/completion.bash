# SPDX-License-Identifier: BSD-3-Clause
# bash completion for taut. The words come from the program itself (the option rows), so they fit its version.
_taut_words()
{
	"${COMP_WORDS[0]}" help --completion "$@" 2>/dev/null
}

# _taut_option WORD: the row of this option into kind and words; false when the command has none of that name.
# Reads the rows of _taut().
_taut_option()
{
	local row
	for row in "${rows[@]}"; do
		[ "${row%%$'\t'*}" = "$1" ] || continue
		IFS=$'\t' read -r _ kind words <<<"$row"
		return 0
	done
	kind='' words=''
	return 1
}

_taut()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} cmd=${COMP_WORDS[1]}
	local kind='' words='' rows i before
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_taut_words | cut -f 1)" -- "$cur")
		return
	fi
	mapfile -t rows < <(_taut_words "$cmd")
	# "--name=value" comes as three words: --name = value.
	[ "$cur" = = ] && cur=
	[ "$prev" = = ] && prev=${COMP_WORDS[COMP_CWORD - 2]}
	# Behind the program that `taut run` starts, its own completion answers.
	if [ "$cmd" = run ]; then
		for ((i = 2; i < COMP_CWORD; i++)); do
			before=${COMP_WORDS[i - 1]}
			case ${COMP_WORDS[i]} in
			--) ((i++)) ;;
			-* | =*) continue ;;
			*)
				[ "$before" = = ] && continue
				_taut_option "$before" && [ "$kind" != none ] && continue ;;
			esac
			declare -F _command_offset >/dev/null && _command_offset "$i" && return
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		done
	fi
	_taut_option "$prev"
	case $kind in
	words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur") ;;
	file) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	value) ;;
	*)
		if [[ $cur == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "${rows[*]%%$'\t'*}" -- "$cur")
		elif [ "$cmd" = run ]; then
			mapfile -t COMPREPLY < <(compgen -c -- "$cur")
		elif [ "$cmd" = help ]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_taut_words | cut -f 1)" -- "$cur")
		fi ;;
	esac
}

complete -F _taut taut
