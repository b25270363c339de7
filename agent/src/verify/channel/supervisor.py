# Runs the tests in a child and tells what it reported. Imports nothing from the repository, so that nothing in the
# repository can speak for it. Started as `python3 -I -S -c SOURCE ORDER`; the order is a file that is gone before any
# code of the repository runs, because it holds the word that signs the answer.
import json
import os
import selectors
import signal
import subprocess
import sys
import time

TEXT_BYTES_MAX = 100_000
REPORT_BYTES_MAX = 8_000_000
QUIET_SECONDS = 0.3


def hide():
    """Nobody with the same user id may read this process's memory or open its descriptors (PR_SET_DUMPABLE)."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


class Text:
    """The head and the tail of an output of any length."""

    def __init__(self):
        self.head = b""
        self.tail = b""

    def add(self, data):
        room = TEXT_BYTES_MAX - len(self.head)
        self.head += data[:room]
        self.tail = (self.tail + data[room:])[-TEXT_BYTES_MAX:] if room < len(data) else self.tail

    def whole(self):
        return self.head + self.tail


def place(files):
    """Writes what the child is made of outside of the repository."""
    directory = os.path.join(os.environ.get("TMPDIR", "/tmp"), "cloister-" + os.urandom(8).hex())
    if files:
        os.mkdir(directory, 0o700)
    for name, content in files.items():
        with open(os.path.join(directory, name), "w") as file:
            file.write(content)
    return directory


def clear(directory, files):
    try:
        for name in files:
            os.unlink(os.path.join(directory, name))
        if files:
            os.rmdir(directory)
    except OSError:
        pass


def environment():
    """As npm has it: the programs of installed packages are on the path."""
    own = os.path.join(os.getcwd(), "node_modules", ".bin")
    return {**os.environ, "PATH": own + ":" + os.environ.get("PATH", os.defpath)} if os.path.isdir(own) else None


def run(order):
    """Runs the child to its end or to the deadline: its output, its report, how it ended."""
    secret = os.urandom(16).hex()
    report_read, report_write = os.pipe()
    text_read, text_write = os.pipe()
    files = place(order["files"])
    child = subprocess.Popen(
        [word.replace(order["place"], files) for word in order["argv"]],
        stdin=subprocess.PIPE,
        stdout=text_write,
        stderr=text_write,
        pass_fds=[report_write],
        start_new_session=True,
        env=environment(),
    )
    os.close(report_write)
    os.close(text_write)
    try:
        child.stdin.write((json.dumps([secret, report_write, order["runner"], order["args"]]) + "\n").encode())
        child.stdin.close()
    except OSError:
        pass
    text, report, late = Text(), b"", False
    end = time.monotonic() + order["seconds"]
    with selectors.DefaultSelector() as ready:
        ready.register(report_read, selectors.EVENT_READ)
        ready.register(text_read, selectors.EVENT_READ)
        while ready.get_map():
            events = ready.select(QUIET_SECONDS)
            for key, _ in events:
                data = os.read(key.fd, 65536)
                if not data:
                    ready.unregister(key.fd)
                elif key.fd == text_read:
                    text.add(data)
                else:
                    report += data
            # A grandchild may hold the pipes open for ever.
            if not events and child.poll() is not None:
                break
            late = time.monotonic() > end
            if late or len(report) > REPORT_BYTES_MAX:
                break
    while not late and child.poll() is None:
        late = time.monotonic() > end
        time.sleep(0.01)
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        pass
    clear(files, order["files"])
    return text.whole(), report, secret, None if late else child.wait()


def read(report, secret):
    """What the child said: lines that carry its secret. Any other line was written by somebody else."""
    said, forged = [], 0
    for line in report.split(b"\n"):
        if not line:
            continue
        word, _, rest = line.partition(b" ")
        try:
            if word != secret.encode():
                raise ValueError
            said.append(json.loads(rest))
        except ValueError:
            forged += 1
    return said, forged


def main(path):
    with open(path) as file:
        order = json.load(file)
    try:
        os.unlink(path)
    except OSError:
        # In a directory that may not be written; empty is as good.
        open(path, "w").close()
    hide()
    text, report, secret, status = run(order)
    said, forged = read(report, secret)
    sys.stdout.buffer.write(text.replace(order["nonce"].encode(), b"") + b"\n")
    answer = {"status": status, "forged": forged, "said": said}
    sys.stdout.buffer.write(f"{order['nonce']} {json.dumps(answer)}\n".encode())
    sys.stdout.buffer.flush()
    os._exit(0 if status == 0 else 1)


main(sys.argv[1])
