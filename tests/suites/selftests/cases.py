# SPDX-License-Identifier: BSD-3-Clause
"""What selftests/run.py builds and runs.

PROGRAMS: name and source below tools/testing/selftests. CASES: shell text, run by bash in a folder of its own inside a
fresh network namespace; $T stands before each program that is to be accelerated (empty, or taut run --), $FILE is a
file of 3 MB.
The text's exit code is the verdict.
"""

PROGRAMS = {
    name: f"net/{name}.c"
    for name in (
        "cmsg_sender",
        "ip_defrag",
        "msg_zerocopy",
        "nettest",
        "reuseaddr_conflict",
        "reuseaddr_ports_exhausted",
        "reuseport_addr_any",
        "reuseport_bpf",
        "reuseport_dualstack",
        "rxtimestamp",
        "sk_bind_sendto_listen",
        "sk_connect_zero_addr",
        "so_netns_cookie",
        "socket",
        "stress_reuseport_listen",
        "tcp_fastopen_backup_key",
        "tcp_inq",
        "tcp_mmap",
        "txtimestamp",
        "udpgso",
        "udpgso_bench_rx",
        "udpgso_bench_tx",
    )
}
PROGRAMS["mptcp_connect"] = "net/mptcp/mptcp_connect.c"
PROGRAMS["epoll_wakeup_test"] = "filesystems/epoll/epoll_wakeup_test.c"
# Edits by sed before it is compiled: threads of epoll59 and epoll60 spin for each other, hopeless on two busy cores.
EDITS = {"epoll_wakeup_test": "s/i < 100*;/i < 100;/; s/i < 300;/i < 10;/"}
LIMITS_S = {"epoll_wakeup_test": 90}  # others: 30

CASES = {
    name: f"$T {name}"
    for name in (
        "reuseaddr_conflict",
        "reuseport_addr_any",
        "reuseport_bpf",
        "reuseport_dualstack",
        "sk_bind_sendto_listen",
        "sk_connect_zero_addr",
        "so_netns_cookie",
        "epoll_wakeup_test",
    )
}
# It tries a test again if the time stamp came late, and says so.
CASES["rxtimestamp"] = "$T rxtimestamp 2>&1 | tail -n 1"
# socket tries families too, and `socket` alone would be glib's.
CASES["socket"] = "$T $(dirname $FILE)/socket"
CASES["reuseaddr_ports_exhausted"] = """
sysctl -qw net.ipv4.ip_local_port_range='32768 32768' net.ipv4.ip_autobind_reuse=1
$T reuseaddr_ports_exhausted
"""
CASES["stress_reuseport_listen"] = """
sysctl -qw net.ipv6.ip_nonlocal_bind=1
ulimit -n 24100 2>/dev/null
$T stress_reuseport_listen 100 80
"""
for flags in ("-4 -C", "-4 -C -s", "-6 -C", "-6 -C -s", "-4 -c", "-4 -C -m", "-6 -C -m"):
    CASES["udpgso" + flags.replace(" ", "")] = f"ip link set lo mtu 1500; $T udpgso {flags}"
for family in ("-4", "-6"):
    CASES[f"tcp_inq{family}"] = f"$T tcp_inq {family}"
    for flags in ("", "s", "r", "sr"):
        CASES[f"tcp_fastopen_backup_key{family}{flags}"] = f"""
            sysctl -qw net.ipv4.tcp_fastopen=3
            $T tcp_fastopen_backup_key {family}{flags}
            code=$?
            nstat -az | awk '/TcpExtTCPFastOpenPassiveFail/ && $2 != 0 {{ print "fast open failed" }}'
            exit $code
            """
    CASES[f"ip_defrag{family}"] = f"""
        sysctl -qw net.ipv4.ipfrag_high_thresh=9000000 net.ipv4.ipfrag_low_thresh=7000000 net.ipv4.ipfrag_time=1
        sysctl -qw net.ipv6.ip6frag_high_thresh=9000000 net.ipv6.ip6frag_low_thresh=7000000 net.ipv6.ip6frag_time=1
        $T ip_defrag {family}
        """
for proto, flags in {"tcp": "", "udp": "-u"}.items():
    for family, address in {"-4": "127.0.0.1", "-6": "::1"}.items():
        CASES[f"txtimestamp-{proto}{family}"] = f"$T txtimestamp {family} {flags} -t 2000000 -L {address}"
        CASES[f"msg_zerocopy-{proto}{family}"] = f"""
            $T msg_zerocopy {family} -t 3 -C 0 -S {address} -D {address} -r {proto} >received 2>&1 &
            listening 8000 {proto[0]}
            $T msg_zerocopy {family} -t 1 -C 1 -S {address} -D {address} -z {proto} >sent 2>&1 || exit 1
            wait $! || exit 2
            grep -q '^rx=[1-9]' received && grep -q '^tx=[1-9]' sent && echo both moved
            """
        CASES[f"udpgso_bench-{proto}{family}"] = f"""
            $T udpgso_bench_rx {'-4' if family == '-4' else ''} {'-t' if proto == 'tcp' else ''} >received 2>&1 &
            rx=$!
            listening 8000 {proto[0]}
            $T udpgso_bench_tx {family} -D {address} -l 1 {'-t' if proto == 'tcp' else ''} >sent 2>&1
            code=$?
            kill -INT $rx 2>/dev/null
            wait $rx
            grep -q '[1-9][0-9]* MB/s' sent && echo sent
            exit $code
            """
        # cmsg_sender prints the time stamps, or nothing; the receiver is there so that no error comes back.
        CASES[f"cmsg_sender{family}"] = f"""
            socat -u UDP{family[1]}-RECV:1234 /dev/null &
            listening 1234 u
            for options in '' '-f 1' '-F 1' '-t' '-s' {"'-c 10' '-C 10' '-l 5' '-L 5'" if family == '-6' else ''}; do
                $T cmsg_sender {family} -p u $options {address} 1234
                echo "$options: $?"
            done
            kill $!
            """
        CASES[f"nettest-{proto}{family}"] = f"""
            $T nettest -s {family if family == '-6' else ''} {'-D' if proto == 'udp' else ''} -l {address} -p 12345 -t 20 &
            listening 12345 {proto[0]}
            $T nettest {family if family == '-6' else ''} {'-D' if proto == 'udp' else ''} -r {address} -p 12345 -t 5 || exit
            wait $!
            """
# It would send 32 GB and serve for ever: two seconds of it, and the server says that it received.
for flags in ("", "-z"):
    CASES[f"tcp_mmap{flags}"] = f"""
        $T stdbuf -oL tcp_mmap -s {flags} >received 2>&1 &
        listening 8787
        timeout 2 $T tcp_mmap -H ::1 {flags}
        for n in $(seq 200); do
            grep -q 'received [1-9]' received && break
            sleep 0.05
        done
        kill $!
        grep -o 'received [1-9]' received
        """

MPTCP_OPTIONS = {
    "poll": "-m poll",
    "mmap": "-m mmap",
    "sendfile": "-m sendfile",
    "peek-with": "-P saveWithPeek",
    "peek-after": "-P saveAfterPeek",
    "small-buffers": "-R 8192 -S 8192",
    "slow": "-r 4096",
}
for name, options in MPTCP_OPTIONS.items():
    for family, address in {"4": "127.0.0.1", "6": "::1"}.items():
        six = "-6" if family == "6" else ""
        CASES[f"mptcp_connect-{name}-{family}"] = f"""
            head -c {60000 if name == 'slow' else 3000001} $FILE >one
            tail -c 700000 $FILE >two
            [ {name} = slow ] && truncate -s 40000 two
            $T mptcp_connect -s TCP {six} -t 20000 -l -p 10000 {options} {address} <one >two.got &
            listening 10000
            $T mptcp_connect -s TCP {six} -t 20000 -p 10000 {options} {address} <two >one.got || exit 1
            wait $! || exit 2
            cmp one one.got && cmp two two.got
            """
CASES["mptcp_connect-reconnect"] = """
    head -c 500000 $FILE >one
    tail -c 300000 $FILE >two
    $T mptcp_connect -s TCP -t 20000 -l -p 10000 -I 3 -i one 127.0.0.1 >two.got &
    listening 10000
    $T mptcp_connect -s TCP -t 20000 -p 10000 -I 3 -i two 127.0.0.1 >one.got || exit 1
    wait $! || exit 2
    cmp one.got <(cat one one one) && cmp two.got <(cat two two two)
    """

GLIB_CASES = {
    f"glib-{name}": f"$T /usr/libexec/installed-tests/glib/{name} --tap"
    for name in ("socket", "socket-listener", "socket-service", "gsocketclient-slow", "pollable", "socket-address")
}
