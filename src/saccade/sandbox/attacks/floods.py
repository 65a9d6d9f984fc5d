"""Attacks by floods: gigabytes of text, thousands of figures, pictures too large to hold or with a lying size."""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack

FLOODS = (
    Attack(
        "output_flood",
        "resources",
        "print a gigabyte",
        'line = "x" * (1 << 20)\nfor _ in range(1024): print(line)\n',
    ),
    Attack(
        "descriptor_flood",
        "resources",
        "write a gigabyte to descriptor 1 and to descriptor 2",
        'block = b"y" * (1 << 20)\nfor _ in range(1024): os.write(1, block); os.write(2, block)\n',
    ),
    Attack(
        "output_rewritten",
        "resources",
        "seek, truncate, map and lengthen the file behind stdout",
        """
for fd in (1, 2):
    try_quietly(os.ftruncate, fd, 1 << 40)
    try_quietly(os.lseek, fd, 1 << 40, os.SEEK_SET)
    try_quietly(os.write, fd, b"far away")
    try_quietly(os.pwrite, fd, b"z" * 4096, 1 << 30)
    try_quietly(os.posix_fallocate, fd, 0, 1 << 32)
    try_quietly(os.ftruncate, fd, 0)
    import fcntl
    try_quietly(fcntl.fcntl, fd, 1033, 15)  # F_ADD_SEALS: every seal, so that nobody can empty it again
""",
        may_lose_session=True,
    ),
    Attack(
        "figure_flood",
        "resources",
        "open 10,000 figures",
        "import matplotlib.pyplot as plt\nfor _ in range(10_000): plt.figure()\nplt.show()\n",
    ),
    Attack(
        "shown_flood",
        "resources",
        "show 10,000 pictures",
        'from PIL import Image\nfor i in range(10_000): Image.new("L", (40, 40), i % 256).show()\n',
    ),
    Attack(
        "huge_picture",
        "resources",
        "show a picture of 30,000 by 30,000 pixels",
        """
from PIL import Image
Image.new("L", (30_000, 30_000)).show()
Image.new("RGB", (30_000, 30_000)).show()
""",
    ),
    Attack(
        "huge_figure",
        "resources",
        "draw a figure of 100,000 by 100,000 pixels",
        "import matplotlib.pyplot as plt\nplt.figure(figsize=(1000, 1000), dpi=100)\nplt.plot([1])\nplt.show()\n",
    ),
    Attack(
        "decompression_bomb",
        "resources",
        "write PNG files that decode to gigabytes",
        """
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for side in (20_000, 200_000, 2**31 - 1):
    body = zlib.compress(bytes(1 << 20), 9) * 4
    with open("bomb%d.png" % side, "wb") as f:
        f.write(bytes([137]) + b"PNG" + bytes([13, 10, 26, 10]))
        f.write(chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)))
        f.write(chunk(b"IDAT", body) + chunk(b"IEND", b""))
""",
    ),
    Attack(
        "lying_picture",
        "resources",
        "show objects whose size and bytes lie",
        """
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
    ),
)
