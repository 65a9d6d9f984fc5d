"""Attacks on the network: sockets of every family, loopback, abstract and file sockets, descriptors as cargo."""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack

NETWORK = (
    Attack(
        "connect_out",
        "network",
        "connect to the internet and look up a name",
        """
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        s.connect(address)
# Addresses reserved for documentation: nobody is there.
attempt("IPv4", connect, socket.AF_INET, ("192.0.2.1", 80))
attempt("IPv6", connect, socket.AF_INET6, ("2001:db8::1", 80))
attempt("lookup", socket.gethostbyname, "example.invalid")
""",
        wall_seconds=3.0,
    ),
    Attack(
        "connect_loopback",
        "network",
        "connect to a service on the loopback interface",
        """
def connect(kind, address):
    with socket.socket(socket.AF_INET, kind) as s:
        s.settimeout(1)
        s.connect(address)
        s.send(b"attack")
attempt("TCP", connect, socket.SOCK_STREAM, ("127.0.0.1", target["port"]))
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"attack", ("127.0.0.1", target["udp_port"]))
try_quietly(datagram)  # may succeed into an empty network; the host knows whether it arrived
import urllib.request
attempt("HTTP", urllib.request.urlopen, "http://127.0.0.1:" + str(target["port"]), timeout=1)
""",
        wall_seconds=4.0,
    ),
    Attack(
        "listen",
        "network",
        "offer a service to the network",
        """
def listen():
    with socket.socket() as s:
        s.bind(("0.0.0.0", target["free_port"]))
        s.listen()
        import time
        time.sleep(0.3)
try_quietly(listen)  # in a network of its own nobody can reach it; the host tries
""",
    ),
    Attack(
        "unix_file_socket",
        "network",
        "connect to a Unix socket of the host in the file system",
        """
def connect(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
attempt("file socket", connect, target["unix_path"])
for path in ("/var/run/docker.sock", "/run/systemd/private", "/run/dbus/system_bus_socket", "/dev/log"):
    attempt(path, connect, path)
""",
    ),
    Attack(
        "abstract_socket",
        "network",
        "connect to an abstract Unix socket of the host",
        """
def connect(kind):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.connect("\\0" + target["abstract"])
        s.send(b"attack")
attempt("stream", connect, socket.SOCK_STREAM)
attempt("datagram", connect, socket.SOCK_DGRAM)
attempt("packets", connect, socket.SOCK_SEQPACKET)
""",
    ),
    Attack(
        "raw_sockets",
        "network",
        "open raw, packet, netlink, vsock, kernel-crypto and Bluetooth sockets",
        """
families = dict(packet=17, netlink=16, vsock=40, alg=38, bluetooth=31, can=29, key=15, rds=21, tipc=30, xdp=44, x25=9)
for name, family in families.items():
    for kind in (1, 2, 3, 5):
        try:
            fd = raw("socket", family, kind, 0)
        except OSError as error:
            print("stopped:", name, kind, error)
        else:
            breach("a socket of family " + name)
attempt("raw IPv4", raw, "socket", 2, 3, 1)
attempt("raw IPv4 by module", socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
""",
    ),
    Attack(
        "descriptors_over_the_wire",
        "network",
        "send open files and sockets to the host over the session's own socket",
        """
import array
pair = try_quietly(socket.socketpair)
fds = array.array("i", [os.open(".", os.O_RDONLY)] * 100 + [os.open("/dev/null", os.O_RDWR)] * 100)
for s in sockets():
    for _ in range(30):
        try_quietly(s.sendmsg, [b'{"op":"ready","pid":1}'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
""",
        may_lose_session=True,
    ),
)
