# SPDX-License-Identifier: BSD-3-Clause
# chroot.sh - a bare Debian system to try things in, for the scripts beside it (sourced, POSIX sh).
#
# The archive, the release and the network settings are this machine's own, as apt has them. A system is a folder
# below build/pkg/; what runs in it has its own mounts and process ids, which end with it.

pkg_top=$(cd "$(dirname "$0")/../.." && pwd)
pkg_room=$pkg_top/build/pkg
pkg_host_only() { echo "SKIP: host: $1"; exit 77; }

pkg_require()
{
	[ "$(id -u)" -eq 0 ] || pkg_host_only "a chroot needs root"
	command -v debootstrap >/dev/null || { echo "SKIP: package debootstrap is missing"; exit 77; }
	unshare --mount --pid --fork true 2>/dev/null || pkg_host_only "no new mount or process name spaces here"
	mkdir -p "$pkg_room"
}

# "uri suite" for each Debian main archive that apt of this machine uses.
pkg_archives()
{
	apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' 'Origin: Debian' \
		'Component: main' 2>/dev/null | sort -u | grep . && return 0
	# Before the first apt-get update apt does not know origins: take what the suite's name tells.
	apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' 'Component: main' |
		grep " $pkg_suite" | sort -u
}

# pkg_system DIR: lays a fresh minbase system into DIR, by way of an archive that is kept for a day.
pkg_system()
{
	pkg_suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	base=$pkg_room/minbase-$pkg_suite.tar
	pkg_archives >"$pkg_room/archives"
	mirror=$(awk -v s="$pkg_suite" '$2 == s { print $1; exit }' "$pkg_room/archives")
	[ -n "$mirror" ] || pkg_host_only "apt names no archive of $pkg_suite"
	if [ -z "$(find "$base" -mtime -1 2>/dev/null)" ]; then
		rm -rf "$pkg_room/base"
		debootstrap --variant=minbase "$pkg_suite" "$pkg_room/base" "$mirror" \
			>"$pkg_room/debootstrap.log" 2>&1 || {
			tail -n 20 "$pkg_room/debootstrap.log"
			echo "pkg: debootstrap failed"
			exit 1
		}
		tar -C "$pkg_room/base" -cf "$base.new" . && mv "$base.new" "$base"
		rm -rf "$pkg_room/base"
	fi
	mkdir -p "$1"
	tar -C "$1" -xpf "$base"
	# As a container image comes: sources, but no lists. apt's settings for the network are the machine's.
	rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/archives/*.deb
	sed 's/^/deb /; s/$/ main/' "$pkg_room/archives" >"$1/etc/apt/sources.list"
	apt-config dump | grep -E '^(Acquire::(Check-|http|https|Retries|ForceIPv4)|DPkg::Lock)' \
		>"$1/etc/apt/apt.conf.d/90host"
	cp -L /etc/resolv.conf "$1/etc/resolv.conf"
	[ ! -f /etc/hosts ] || cp -L /etc/hosts "$1/etc/hosts"
}

# pkg_in DIR COMMAND...: runs one command in the system, as root, in its own mounts and process ids.
pkg_in()
{
	pkg_dir=$1
	shift
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child --propagation private sh -c '
		root=$1; shift
		mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys" || exit 3
		mkdir -p "$root/dev/shm" "$root/dev/pts"
		mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" || exit 3
		mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" || true
		exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			HOME=/root LANG=C.UTF-8 ${JOBS:+JOBS="$JOBS"} "$@"
	' sh "$pkg_dir" "$@"
}
