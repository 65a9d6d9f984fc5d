"""Attacks on files: reading what is outside, writing outside, and escaping by links, paths and devices."""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack

FILES = (
    Attack(
        "read_passwd",
        "files",
        "read /etc/passwd and /etc/shadow",
        """
for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/root/.bashrc"):
    attempt(path, read, path)
""",
    ),
    Attack(
        "list_home",
        "files",
        "list the home folder and read files in it",
        """
# A private root may show the folders on the way to the interpreter, and nothing beside them.
ways = [os.path.realpath(way) + "/" for way in (sys.prefix, sys.base_prefix, sys.executable, *sys.path) if way]
for place in {target["home"], "/root", "/home", os.environ.get("HOME") or "/root"}:
    if os.path.realpath(place) == os.path.realpath(os.getcwd()):
        continue
    for name in try_quietly(os.listdir, place) or ():
        path = os.path.join(os.path.realpath(place), name)
        if not any(way.startswith(path + "/") for way in ways):
            breach("seen: " + path)
    for name in (".bashrc", ".profile", ".ssh/id_rsa", ".ssh/id_ed25519", ".netrc", ".cache", ".config"):
        text = try_quietly(read, os.path.join(place, name))
        if text:
            breach("read: " + os.path.join(place, name))
""",
    ),
    Attack(
        "read_world_readable",
        "files",
        "read a world-readable file outside",
        'attempt("canary", read, target["canary_file"])\n',
    ),
    Attack(
        "write_outside",
        "files",
        "create, change and delete files outside",
        """
folder = target["canary_folder"]
attempt("create", open, folder + "/created", "w")
attempt("append", open, target["canary_file"], "a")
attempt("delete", os.remove, target["canary_file"])
attempt("rename", os.rename, target["canary_file"], folder + "/moved")
attempt("chmod", os.chmod, target["canary_file"], 0o777)
attempt("truncate", os.truncate, target["canary_file"], 0)
attempt("utime", os.utime, target["canary_file"])
attempt("mkdir", os.mkdir, folder + "/made")
for place in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/etc", "/usr", "/"):
    path = place + "/saccade-attack-" + target["token"]
    if try_quietly(open, path, "w"):
        print("created", path)
""",
    ),
    Attack(
        "symlink_escape",
        "files",
        "reach outside through symbolic links",
        """
os.symlink("/", "root")
os.symlink(target["canary_file"], "direct")
os.symlink("../" * 20, "up")
attempt("absolute link", read, "root" + target["canary_file"])
attempt("direct link", read, "direct")
attempt("relative link", read, "up" + target["canary_file"])
attempt("write through a link", open, "direct", "w")
""",
    ),
    Attack(
        "dotdot_escape",
        "files",
        "reach outside through .. and odd spellings",
        """
path = target["canary_file"]
for spelling in ("../" * 30 + path, "/proc/self/root" + path, "/proc/self/cwd/" + "../" * 30 + path,
                 "/proc/1/root" + path, "//" + path, "/." + path, "./../" * 20 + path):
    attempt(spelling[:30], read, spelling)
for spelling in ("\\u2025/" * 8 + path, "\\uff0e\\uff0e/" * 8 + path, "..\\u200b/" * 8 + path, ".. /" * 8 + path):
    attempt(ascii(spelling[:12]), read, spelling)
""",
    ),
    Attack(
        "picture_link",
        "files",
        "have the host decode a picture outside through a link in the workspace",
        """
os.symlink(target["canary_picture"], "mine.png")
try_quietly(os.link, target["canary_picture"], "hard.png")
os.mkfifo("fifo.png") if hasattr(os, "mkfifo") else None
""",
        check=lambda result: "a picture from outside came back" if result.pictures else None,
        wall_seconds=2.0,
    ),
    Attack(
        "hard_links",
        "files",
        "hard-link files from outside into the workspace",
        """
import PIL
for source in (target["canary_file"], sys.executable, PIL.__file__, "/etc/passwd"):
    attempt(source, os.link, source, "linked")
""",
    ),
    Attack(
        "patch_libraries",
        "files",
        "change the interpreter's and libraries' files",
        """
import numpy, PIL
for path in (numpy.__file__, PIL.__file__, os.__file__, sys.executable, numpy.core.__file__
             if hasattr(numpy, "core") else numpy.__file__):
    attempt("append to " + path, open, path, "ab")
    attempt("create beside " + path, open, os.path.dirname(path) + "/saccade_attack.pth", "w")
    attempt("rename " + path, os.rename, path, path + ".moved")
""",
    ),
    Attack(
        "inherited_folders",
        "files",
        "walk up from folders that descriptors still hold open",
        """
flags = os.O_RDONLY | getattr(os, "O_PATH", 0)
for fd in [None, *descriptors()]:
    try:
        if fd is not None and not stat.S_ISDIR(os.fstat(fd).st_mode):
            continue
        base = os.open(".", flags) if fd is None else os.dup(fd)
        inode = None
        for _ in range(40):
            up = os.open("..", flags, dir_fd=base)
            info = os.fstat(up)
            if (info.st_dev, info.st_ino) == inode:
                break
            inode, base = (info.st_dev, info.st_ino), up
        inside = os.open(target["canary_file"].lstrip("/"), os.O_RDONLY, dir_fd=base)
        breach(repr(os.read(inside, 100)))
    except OSError as error:
        print("stopped:", fd, error)
""",
    ),
    Attack(
        "chroot_escape",
        "files",
        "leave the private root by chroot, pivot_root and fchdir",
        """
attempt("chroot", os.chroot, ".")
attempt("chroot by number", raw, "chroot", ctypes.c_char_p(b"."))
attempt("pivot_root", raw, "pivot_root", ctypes.c_char_p(b"."), ctypes.c_char_p(b"."))
attempt("canary", read, target["canary_file"])
""",
    ),
    Attack(
        "open_by_handle",
        "files",
        "open files by handle, past the mount table",
        """
handle = ctypes.create_string_buffer(b"\\x08\\0\\0\\0\\x01\\0\\0\\0\\x02\\0\\0\\0\\0\\0\\0\\0", 128)
base = os.open(".", os.O_RDONLY)
attempt("open_by_handle_at", raw, "open_by_handle_at", base, handle, 0)
""",
    ),
    Attack(
        "mount",
        "files",
        "mount a file system, the old and the new way",
        """
os.mkdir("m")
for kind in (b"proc", b"tmpfs", b"sysfs", b"devtmpfs"):
    attempt("mount " + kind.decode(), raw, "mount", ctypes.c_char_p(b"none"), ctypes.c_char_p(b"m"),
            ctypes.c_char_p(kind), 0, ctypes.c_char_p(None))
attempt("bind", raw, "mount", ctypes.c_char_p(b"/"), ctypes.c_char_p(b"m"), ctypes.c_char_p(None), 4096, 0)
attempt("remount", raw, "mount", ctypes.c_char_p(b"none"), ctypes.c_char_p(b"/"), ctypes.c_char_p(None), 32, 0)
attempt("fsopen", raw, "fsopen", ctypes.c_char_p(b"tmpfs"), 0)
attempt("open_tree", raw, "open_tree", -100, ctypes.c_char_p(b"/"), 1)
""",
    ),
    Attack(
        "device_nodes",
        "files",
        "make and open devices",
        """
attempt("mknod", os.mknod, "disk", stat.S_IFBLK | 0o600, os.makedev(8, 0))
attempt("mknod mem", os.mknod, "mem", stat.S_IFCHR | 0o600, os.makedev(1, 1))
for path in ("/dev/mem", "/dev/kmem", "/dev/sda", "/dev/vda", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/kmsg",
             "/dev/ptmx", "/dev/tty"):
    for mode in (os.O_RDONLY, os.O_RDWR):
        attempt(path, os.open, path, mode | os.O_NONBLOCK)
""",
    ),
    Attack(
        "setuid_files",
        "files",
        "make set-uid files and run set-uid programs",
        """
import shutil
with open("script", "w") as f: f.write("#!/bin/sh\\nid\\n")
os.chmod("script", 0o6755)
for program in ("/usr/bin/su", "/usr/bin/sudo", "/usr/bin/passwd", "/bin/mount", "./script"):
    attempt(program, os.execv, program, [program])
attempt("chown", os.chown, "script", 0, 0) if os.geteuid() else None
""",
    ),
    Attack(
        "kernel_switches",
        "files",
        "write to /proc/sys, /sys and /proc/self",
        """
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches",
             "/proc/sysrq-trigger", "/proc/self/uid_map", "/proc/1/oom_score_adj", "/sys/kernel/uevent_helper",
             "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
    attempt(path, os.open, path, os.O_WRONLY)
""",
    ),
)
