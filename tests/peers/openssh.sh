#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# openssh.sh - an sshd of our own with its own keys: scp both ways compared by hash, a remote command with half close,
# a forwarded port, and two sessions over one master connection.
# shellcheck source=tests/peers/lib.sh
. "$(dirname "$0")/lib.sh"
need sshd:openssh-server ssh:openssh-client scp:openssh-client socat:socat

# The other user needs a shell of its own to log in, so the server stays and the client changes.
[ "$(id -u)" = 0 ] && USERS_SERVER=root
ME=$(id -un)

# sshd wants this folder when root starts it; the package makes it at the start of the service.
if [ "$(id -u)" = 0 ]; then
	install -d -m 0755 /run/sshd
fi

ssh_options() {
	cat <<-END
	Host peer
		HostName 127.0.0.1
		Port $P
		User $ME
		IdentityFile $W/key
		IdentitiesOnly yes
		UserKnownHostsFile $W/known_hosts
		StrictHostKeyChecking yes
		BatchMode yes
		LogLevel ERROR
	END
}

sshd_options() {
	cat <<-END
	ListenAddress 127.0.0.1:$P
	HostKey $W/host_key
	AuthorizedKeysFile $W/key.pub
	PidFile none
	StrictModes no
	UsePAM no
	PermitRootLogin yes
	PasswordAuthentication no
	Subsystem sftp internal-sftp
	END
}

remote() { client ssh -F "$W/ssh_config" "$@"; }

scenario() {
	local P P2 P3 size=$((FULL ? 1000000000 : 64000000))
	port P
	ssh-keygen -q -t ed25519 -N '' -f "$W/host_key"
	ssh-keygen -q -t ed25519 -N '' -f "$W/key"
	printf '[127.0.0.1]:%s %s\n' "$P" "$(cut -d' ' -f1,2 "$W/host_key.pub")" >"$W/known_hosts"
	ssh_options >"$W/ssh_config"
	sshd_options >"$W/sshd_config"
	if [ "$PASS" = users ]; then
		CLIENT_USER=nobody
		chown nobody "$W/key"
	fi
	server sshd "$(command -v sshd)" -D -e -f "$W/sshd_config"
	listening sshd "$P"

	blob "$size" 1 "$W/file"
	sum_of <"$W/file" >"$R/file"
	client scp -q -F "$W/ssh_config" "$W/file" "peer:$W/up"
	sum_of <"$W/up" >"$R/up"
	client scp -q -F "$W/ssh_config" "peer:$W/file" "$W/down"
	sum_of <"$W/down" >"$R/down"
	cmp -s "$R/file" "$R/up" || fail "what scp brought up is not the same"
	cmp -s "$R/file" "$R/down" || fail "what scp brought down is not the same"
	rm -f "$W/up" "$W/down"
	remote peer sha256sum <"$W/file" >"$R/command"
	remote peer 'cat >/dev/null; seq 100000; exit 0' </dev/null | sum_of >"$R/seq"
	remote -tt peer 'tty >/dev/null && echo terminal' </dev/null | tr -d '\r' >"$R/terminal"

	# A forwarded port in front of a server of its own, and a second session through the same connection.
	port P2
	port P3
	server echo socat TCP-LISTEN:"$P3",bind=127.0.0.1,fork,reuseaddr EXEC:cat
	listening echo "$P3"
	client_start master ssh -F "$W/ssh_config" -N -M -S "$W/master" -o ExitOnForwardFailure=yes \
		-L "127.0.0.1:$P2:127.0.0.1:$P3" peer
	listening master "$P2"
	head -c 5000000 "$W/file" >"$W/part"
	client socat -t 30 - TCP:127.0.0.1:"$P2" <"$W/part" | sum_of >"$R/forwarded"
	remote -S "$W/master" peer sha256sum <"$W/part" >"$R/shared"
	stop master TERM 5 0 143 255
	stop echo TERM 5 143
	stop sshd TERM 5 0 255
}

peer_main "$@"
