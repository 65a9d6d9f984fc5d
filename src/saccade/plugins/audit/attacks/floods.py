"""Attacks by floods: gigabytes of text, thousands of figures, pictures too large to hold or with a lying size."""

from __future__ import annotations

from collections.abc import Callable

from saccade.plugins.audit.attacks.attack import Attack, attacks, nothing_more
from saccade.sandbox.result import RunResult

FLOODS = attacks(
    "resources",
    """
== output_flood: print a gigabyte
line = "x" * (1 << 20)
for _ in range(1024): print(line)
== descriptor_flood: write a gigabyte to descriptor 1 and to descriptor 2
block = b"y" * (1 << 20)
for _ in range(1024): os.write(1, block); os.write(2, block)
== output_rewritten, may lose its session: seek, truncate, map and lengthen the file behind stdout
for fd in (1, 2):
    try_quietly(os.ftruncate, fd, 1 << 40)
    try_quietly(os.lseek, fd, 1 << 40, os.SEEK_SET)
    try_quietly(os.write, fd, b"far away")
    try_quietly(os.pwrite, fd, b"z" * 4096, 1 << 30)
    try_quietly(os.posix_fallocate, fd, 0, 1 << 32)
    try_quietly(os.ftruncate, fd, 0)
    import fcntl
    try_quietly(fcntl.fcntl, fd, 1033, 15)  # F_ADD_SEALS: every seal, so that nobody can empty it again
== figure_flood: open 10,000 figures
import matplotlib.pyplot as plt
for _ in range(10_000): plt.figure()
plt.show()
== shown_flood: show 10,000 pictures
from PIL import Image
for i in range(10_000): Image.new("L", (40, 40), i % 256).show()
== huge_picture: show a picture of 30,000 by 30,000 pixels
from PIL import Image
Image.new("L", (30_000, 30_000)).show()
Image.new("RGB", (30_000, 30_000)).show()
== huge_figure: draw a figure of 100,000 by 100,000 pixels
import matplotlib.pyplot as plt
plt.figure(figsize=(1000, 1000), dpi=100)
plt.plot([1])
plt.show()
== decompression_bomb: write PNG files that decode to gigabytes
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for side in (20_000, 200_000, 2**31 - 1):
    body = zlib.compress(bytes(1 << 20), 9) * 4
    with open("bomb%d.png" % side, "wb") as f:
        f.write(bytes([137]) + b"PNG" + bytes([13, 10, 26, 10]))
        f.write(chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)))
        f.write(chunk(b"IDAT", body) + chunk(b"IEND", b""))
== lying_picture: show objects whose size and bytes lie
from PIL import Image
class Liar(Image.Image):
    @property
    def size(self): return (10**6, 10**6)
    @property
    def width(self): return -5
    def tobytes(self, *a, **k): return b"x"
    def convert(self, *a, **k): return self
liar = Liar()
for show in (lambda: display(liar), lambda: liar.show()):
    try_quietly(show)
im = Image.new("RGB", (8, 8))
im._size = (100_000, 100_000)
try_quietly(im.show)
liar
""",
)

# Attacks on resources: memory, disk, CPU time, descriptors, shared memory.

_MAPS = """
_libc.mmap.restype = ctypes.c_void_p
open("m.bin", "wb").write(b"A" * 4096); f = open("m.bin", "r+b")
def map_it(times, kind):
    for i in range(times):
        _libc.mmap(None, ctypes.c_size_t(4096), 1 + 2 * (i & 1), kind, f.fileno(), ctypes.c_long(0))
"""


def _not_kept(result: RunResult) -> str | None:
    return "the call was kept" if result.committed else None


def _many_maps(name: str, kind: int, tries: str, check: Callable[[RunResult], str | None] = nothing_more) -> Attack:
    look = "if keep != 'kept': breach('the state is gone')"
    return Attack(name, "resources", tries, _MAPS + f"map_it(20_000, {kind})", check, after=look, must_look=True)


RESOURCES = (
    _many_maps(
        "shared_mappings",
        1,
        "keep thousands of shared mappings of a file, which the sandbox looks at one by one",
        _not_kept,
    ),
    _many_maps("private_mappings", 2, "keep thousands of private mappings of a file, and go on"),
    *attacks(
        "resources",
        r"""
== memory_bomb: use several times the memory limit
hoard, size = [], 0
while size < 4 * target["memory"]:
    hoard.append(bytearray(b"x") * (1 << 24))
    size += 1 << 24
breach("%d MiB of memory were written" % (size >> 20))
== memory_by_mmap: reserve and touch memory by mmap, shared and private
import mmap
size = 4 * target["memory"]
for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE, mmap.MAP_SHARED | 0x4000):
    area = try_quietly(mmap.mmap, -1, size, flags | mmap.MAP_ANONYMOUS)
    if area is not None:
        for place in range(0, size, 4096):
            area[place] = 1
        breach("mmap of %d MiB with flags %x was written" % (size >> 20, flags))
== memory_by_processes, 3.0 s: pass the memory limit with many processes together
import time
children = 0
for _ in range(8):
    try:
        if os.fork() == 0:
            area = bytearray(b"x") * (target["memory"] // 2)
            time.sleep(1)
            os._exit(0)
        children += 1
    except OSError as error:
        print("stopped:", error)
        break
time.sleep(1)
== memory_by_memfd: hide memory in memory files
total, files, block = 0, [], b"x" * (1 << 22)
try:
    while total < 4 * target["memory"]:
        fd = os.memfd_create("hoard")
        files.append(fd)
        for _ in range(8):
            total += os.write(fd, block)
    breach("%d MiB in memory files" % (total >> 20))
except (OSError, MemoryError) as error:
    print("stopped:", total >> 20, "MiB", error)
== shared_memory_that_stays: leave SysV shared memory and message queues behind
segment = try_quietly(raw, "shmget", target["sysv_new_key"], 1 << 20, 0o1666)
if segment is not None:
    print("segment", segment)
try_quietly(raw, "msgget", target["sysv_new_key"], 0o1666)
try_quietly(raw, "semget", target["sysv_new_key"], 1, 0o1666)
try_quietly(raw, "mq_open", ctypes.c_char_p(b"saccade-attack"), 0o102, 0o600, 0)
try_quietly(open, "/dev/shm/saccade-attack-" + target["token"], "w")
== shared_memory_past_rollback: keep a shared mapping that survives the rollback of a failed call
import mmap
area = mmap.mmap(-1, 4096)
area[:4] = b"kept"
keep = "changed"
raise RuntimeError("roll me back")
== disk_fill: fill the disk through the workspace and everywhere else
written = 0
block = b"x" * (1 << 20)
for place in (".", "/tmp", "/dev/shm", "/var/tmp", target["canary_folder"]):
    try:
        for number in range(2 * target["workspace_bytes"] // target["file_bytes"] + 4):
            with open(place + "/fill-%d-%s" % (number, target["token"]), "wb") as f:
                for _ in range(max(1, target["file_bytes"] >> 20)):
                    written += f.write(block)
    except OSError as error:
        print("stopped:", place, written >> 20, "MiB", error)
if written > 2 * target["workspace_bytes"]:
    breach("%d MiB were written" % (written >> 20))
== large_file: write a file larger than the limit, plainly and by growing it
size = target["file_bytes"] + (1 << 20)
def grow(name, how):
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    try:
        how(fd)
    finally:
        os.close(fd)
    if os.stat(name).st_size < size: raise OSError("the file stayed small")
attempt("pwrite", grow, "a", lambda fd: os.pwrite(fd, b"x", size - 1))
attempt("ftruncate", grow, "b", lambda fd: os.ftruncate(fd, size))
attempt("fallocate", grow, "c", lambda fd: os.posix_fallocate(fd, 0, size))
attempt("sendfile", grow, "d", lambda fd: [os.sendfile(fd, os.open("/dev/zero", os.O_RDONLY), None, 1 << 20)
                                          for _ in range((size >> 20) + 1)])
== sparse_files: huge sparse files and a file of many holes
for power in (40, 50, 62):
    try_quietly(lambda: open("s%d" % power, "wb").truncate(1 << power))
    if os.path.exists("s%d" % power) and os.stat("s%d" % power).st_size > target["file_bytes"]:
        breach("a sparse file of 2**%d bytes" % power)
f = open("holes", "wb")
for place in range(0, target["file_bytes"] - 4096, 65536):
    f.seek(place); f.write(b"x")
f.close()
== many_files, 3.0 s: create 100,000 files
made = 0
try:
    for number in range(100_000):
        os.close(os.open("f%d" % number, os.O_CREAT | os.O_WRONLY))
        made += 1
    breach("100,000 files were made")
except OSError as error:
    print("stopped:", made, error)
== strange_files: fill the workspace with FIFOs, link loops, deep folders and odd names
for number in range(20):
    try_quietly(os.mkfifo, "fifo%d.png" % number)
    try_quietly(os.symlink, "loop%d" % ((number + 1) % 20), "loop%d" % number)
try_quietly(os.symlink, ".", "self.png")
try_quietly(os.symlink, "/proc/self/fd/0", "stdin.png")
here = os.getcwd()
try:
    for _ in range(100):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
except OSError as error:
    print("stopped:", error)
os.chdir(here)
for name in (b"\xff\xfe.png", "\u202egnp.exe".encode(), b"new\nline.png", b" .png", b"-rf", b"a" * 255):
    try_quietly(lambda: os.close(os.open(name, os.O_CREAT | os.O_WRONLY)))
os.mkdir("locked"); open("locked/x.png", "w").close(); os.chmod("locked", 0)
s = try_quietly(socket.socket, socket.AF_UNIX)
if s: try_quietly(s.bind, "sock.png")
== picture_swapped_while_read: swap a picture file for something else while it is being captured
import threading
from PIL import Image
Image.new("RGB", (50, 50)).save("a.png")
Image.new("RGB", (50, 50)).save("b.png")
def swap():
    while True:
        try_quietly(os.rename, "a.png", "c.png"); try_quietly(os.symlink, target["canary_picture"], "a.png")
        try_quietly(os.remove, "a.png"); try_quietly(os.rename, "c.png", "a.png")
threading.Thread(target=swap, daemon=True).start()
== many_descriptors: open descriptors without end
made = []
try:
    for _ in range(100_000):
        made.append(os.open("/dev/null", os.O_RDONLY))
    breach("100,000 descriptors were opened")
except OSError as error:
    print("stopped:", len(made), error)
== video_bomb: decode small videos that announce huge frames
import resource, struct
import decord
size, body = 16_000, bytes(4000)
frame = struct.pack("<I", 16 | len(body) // 2 << 5)[:3] + b"\x9d\x01\x2a" + struct.pack("<HH", size, size) + body
head = struct.pack("<4sHH4sHHIIII", b"DKIF", 0, 32, b"VP80", size, size, 25, 1, 1, 0)
with open("bomb.ivf", "wb") as f:
    f.write(head + struct.pack("<IQ", len(frame), 0) + frame)
attempt("the reader", decord.VideoReader, "bomb.ivf")
try:
    import av
except ImportError:
    raise SystemExit("stopped: there is no PyAV")
hoard = []
for _ in range(4 * target["memory"] // (size * size) + 4):
    video = av.open("bomb.ivf")
    hoard.append(video)
    try_quietly(lambda: hoard.append(list(video.decode(video=0))))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    if used > 2 * target["memory"] + (512 << 20):
        breach("%d MiB were used" % (used >> 20))
        break
== regular_expression, 0.5 s: a regular expression that backtracks for ever
import re
re.match(r"(a|a)*$", "a" * 60 + "b")
== numpy_for_minutes, 0.7 s: numpy in one C call for minutes
import numpy as np
a = np.ones((5000, 5000), np.float32)
for _ in range(1000): np.linalg.inv(a @ a)
== python_in_c, 0.5 s: a loop inside one C call that never checks for signals
sum(iter(int, 1))
== huge_number, 0.5 s: arithmetic with numbers of a billion digits
x = 7 ** (10 ** 9)
== raise_limits: raise the own resource limits and priority
import resource
for name in ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_CPU", "RLIMIT_CORE"):
    which = getattr(resource, name)
    soft, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        attempt(name, resource.setrlimit, which, (hard + 1, hard + 1))
        attempt(name + " infinite", resource.setrlimit, which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    try_quietly(resource.prlimit, os.getppid(), which, (0, 0))
    attempt("limit of the host", resource.prlimit, target["canary_pid"], which, (0, 0))
attempt("nice", os.nice, -5)
attempt("scheduler", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50))
attempt("oom score", lambda: open("/proc/self/oom_score_adj", "w").write("-1000"))
""",
    ),
)

# Attacks on the network: sockets of every family, loopback, abstract and file sockets, descriptors as cargo.

NETWORK = attacks(
    "network",
    r"""
== connect_out, 3.0 s: connect to the internet and look up a name
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        s.connect(address)
# Addresses reserved for documentation: nobody is there.
attempt("IPv4", connect, socket.AF_INET, ("192.0.2.1", 80))
attempt("IPv6", connect, socket.AF_INET6, ("2001:db8::1", 80))
attempt("lookup", socket.gethostbyname, "example.invalid")
== connect_loopback, 4.0 s: connect to a service on the loopback interface
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
== listen: offer a service to the network
def listen():
    with socket.socket() as s:
        s.bind(("0.0.0.0", target["free_port"]))
        s.listen()
        import time
        time.sleep(0.3)
try_quietly(listen)  # in a network of its own nobody can reach it; the host tries
== unix_file_socket: connect to a Unix socket of the host in the file system
def connect(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
attempt("file socket", connect, target["unix_path"])
for path in ("/var/run/docker.sock", "/run/systemd/private", "/run/dbus/system_bus_socket", "/dev/log"):
    attempt(path, connect, path)
== abstract_socket: connect to an abstract Unix socket of the host
def connect(kind):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.connect("\0" + target["abstract"])
        s.send(b"attack")
attempt("stream", connect, socket.SOCK_STREAM)
attempt("datagram", connect, socket.SOCK_DGRAM)
attempt("packets", connect, socket.SOCK_SEQPACKET)
== raw_sockets: open raw, packet, netlink, vsock, kernel-crypto and Bluetooth sockets
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
== descriptors_over_the_wire, may lose its session: send open files and sockets to the host over the session's own
==   socket
import array
pair = try_quietly(socket.socketpair)
fds = array.array("i", [os.open(".", os.O_RDONLY)] * 100 + [os.open("/dev/null", os.O_RDWR)] * 100)
for s in sockets():
    for _ in range(30):
        try_quietly(s.sendmsg, [b'{"op":"ready","pid":1}'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
""",
)
