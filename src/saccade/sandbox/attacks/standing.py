"""More attacks on rollback: the folder a session stands in, the descriptors it was born with, doubles, holes, links."""

from __future__ import annotations

from saccade.sandbox.attacks.rollback import trace

_HOME = "\nos.chdir(os.environ['TMPDIR'])"

STANDING = (
    trace(
        "current_folder_elsewhere",
        "be put back into the workspace from a folder outside of it",
        "os.chdir('/usr'); was = os.getcwd()",
        "os.chdir('/')",
        "if os.getcwd() != was: breach(f'it stands in {os.getcwd()}')" + _HOME,
    ),
    trace(
        "current_folder_that_is_gone",
        "stand in a folder that was removed, so that nothing can go back there",
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
        "open('x', 'w').close()",
        "if os.listdir('.') != ['keep.txt']: breach(f'it stands among {os.listdir()}')" + _HOME,
    ),
    trace(
        "current_folder_of_another_name",
        "rename the folder in which the session stands, and put another in its place",
        "os.mkdir('here'); open('here/x', 'w').close(); os.chdir('here')",
        "os.rename('../here', '../there'); os.mkdir('../here')",
        "if os.listdir('.') != ['x']: breach(f'it stands among {os.listdir()}')" + _HOME,
    ),
    trace(
        "position_in_standard_input",
        "put a file in the place of descriptor 0 and move its position",
        "fd = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(fd, b'0123456789'); os.dup2(fd, 0); os.close(fd)\n"
        "os.lseek(0, 2, 0)",
        "os.lseek(0, 5, 0)",
        "if os.lseek(0, 0, 1) != 2: breach(f'the position is {os.lseek(0, 0, 1)}')",
    ),
    trace(
        "position_in_standard_output",
        "put a file in the place of descriptor 1 and write to it",
        "fd = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(fd, b'kept'); os.dup2(fd, 1); os.close(fd)",
        "os.write(1, b'left')",
        "if os.lseek(1, 0, 1) != 4: breach(f'the position is {os.lseek(1, 0, 1)}')",
    ),
    trace(
        "name_taken_from_standard_input",
        "put a file in the place of descriptor 0 and remove it",
        "fd = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(fd, b'0123456789'); os.dup2(fd, 0); os.close(fd)",
        "os.remove('f.txt')",
        "if os.fstat(0).st_ino != os.stat('f.txt').st_ino: breach('it is another file')",
    ),
    trace(
        "position_in_the_workspace",
        "read part of the workspace by the runtime's own descriptor of it",
        "mine = [fd for fd in descriptors() if os.path.samestat(os.fstat(fd), os.stat('.'))]\n"
        "at = [os.lseek(fd, 1, 0) for fd in mine]",
        "for fd in mine: os.listdir(fd)",
        "now = [os.lseek(fd, 0, 1) for fd in mine]\nif now != at: breach(f'{at} became {now}')",
    ),
    trace(
        "doubles_of_a_removed_file",
        "take the name from a file that two descriptors of one opening stand for",
        "one = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(one, b'0123456789'); two = os.dup(one)",
        "os.remove('f.txt'); open('f.txt', 'w').close()",
        "os.lseek(one, 3, 0)\nif os.lseek(two, 0, 1) != 3: breach('they have come apart')",
    ),
    trace(
        "space_of_a_hole",
        "take up the disk by looking at the holes of a file through a mapping, which leaves no time",
        "import mmap\nf = open('h.bin', 'w+b'); f.truncate(4 << 20); taken = os.stat('h.bin').st_blocks",
        "with mmap.mmap(f.fileno(), 0) as m: sum(m[at] for at in range(0, 4 << 20, 4096))",
        "now = os.stat('h.bin').st_blocks\nif now != taken: breach(f'{taken} blocks became {now}')",
    ),
    trace(
        "times_of_a_link",
        "change the times of a symbolic link",
        "os.symlink('keep.txt', 'link'); os.utime('link', (5, 6), follow_symlinks=False)",
        "os.utime('link', (7, 8), follow_symlinks=False)",
        "if os.lstat('link').st_mtime != 6: breach(f'the time is {os.lstat(\"link\").st_mtime}')",
    ),
    trace(
        "mapping_of_a_closed_file",
        "remove a mapped file that nobody may write to any more",
        "import mmap\nopen('m.bin', 'wb').write(b'A' * 4096); f = open('m.bin', 'r+b'); m = mmap.mmap(f.fileno(), 0)\n"
        "os.chmod('m.bin', 0o400)",
        "os.remove('m.bin')",
        "m[:4] = b'BBBB'\nif open('m.bin', 'rb').read(4) != b'BBBB': breach('they have come apart')",
    ),
    trace(
        "mapping_in_a_closed_folder",
        "remove a mapped file of a folder that nobody may enter any more",
        "import mmap\nos.mkdir('d'); open('d/m.bin', 'wb').write(b'A' * 4096); f = open('d/m.bin', 'r+b')\n"
        "m = mmap.mmap(f.fileno(), 0); os.chmod('d', 0)",
        "os.chmod('d', 0o700); os.remove('d/m.bin')",
        "mode = os.stat('d').st_mode & 0o777; os.chmod('d', 0o700); m[:4] = b'BBBB'\n"
        "if mode or open('d/m.bin', 'rb').read(4) != b'BBBB': breach('they have come apart')",
    ),
    trace(
        "private_pages_of_a_file",
        "write to a file that an array shows, which was changed for this session alone",
        "import numpy as np\nnp.save('a.npy', np.arange(4000)); a = np.load('a.npy', mmap_mode='c'); a[:2] = 77",
        "open('a.npy', 'r+b').write(b'left' * 3000)",
        "if list(a[:3]) != [77, 77, 2] or a[-1] != 3999: breach(f'the array holds {a}')",
    ),
)
