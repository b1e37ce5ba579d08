"""A small real server with bad manners: `python -I -S bad_server.py PORT MANNER...`.

It speaks just enough HTTP for a trial: GET /health, POST /completion as a stream. Manners are words; several may be
given.
"""

import os
import signal
import socket
import struct
import sys
import threading
import time

TOKEN = b'data: {"content":"x","tokens":[7],"stop":false}\n\n'
FINAL = b'data: {"content":"","tokens":[],"stop":true}\n\n'


def crash() -> None:
    """A real SIGSEGV, core and all."""
    import ctypes

    ctypes.string_at(8)


def daemon(clear: bool) -> None:
    """A grandchild in a session of its own that ignores SIGTERM and holds every descriptor open.

    With `clear` it has no environment either, and can only be known by its name: the trial's.
    """
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if clear:
                os.execve("/bin/sleep", [os.environ["STILLRUNS_TRIAL"], "600"], {})
            time.sleep(600)
        os._exit(0)
    os.wait()  # it is there before we go on: nobody can see us ready, or dead, without it


def write_down_sigterm() -> None:
    """As good as ignored, and a file tells that it came. A handler would run only when the main thread next runs
    Python: never, where the signal comes right before a blocking call."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def work() -> None:
        signal.sigwait({signal.SIGTERM})
        os.close(os.open("sigterm", os.O_CREAT))

    threading.Thread(target=work, daemon=True).start()


def request(peer: socket.socket) -> bytes:
    """A whole request, body and all: a process that ends with bytes unread is heard of as a reset."""
    data, wanted = b"", None
    while wanted is None or len(data) < wanted:
        piece = peer.recv(65536)
        if not piece:
            break
        data += piece
        head, end, _ = data.partition(b"\r\n\r\n")
        if end:
            lengths = [
                line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
            ]
            wanted = len(head) + len(end) + int(lengths[0] if lengths else 0)
    return data


def send(peer: socket.socket, body: bytes) -> None:
    peer.sendall(b"%x\r\n%s\r\n" % (len(body), body))


def answer(peer: socket.socket, manners: set[str]) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    if "hang_first" in manners:
        time.sleep(600)
    if "drip_headers" in manners:
        for byte in head:
            peer.sendall(bytes([byte]))
            time.sleep(0.2)
    if "fail" in manners:
        peer.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 26\r\n\r\n" + b'{"error":"it is broken"}  ')
        return
    if "unframed" in manners:  # the end of the connection is the end of the answer: a kill looks clean
        peer.sendall(head + b"Connection: close\r\n\r\n" + TOKEN * 2)
        if "reset" in manners:  # as where bytes were left unread
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if "killed" in manners:
            os.kill(os.getpid(), signal.SIGKILL)
        peer.sendall(FINAL)
        peer.close()
        return
    peer.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
    send(peer, TOKEN)
    send(peer, TOKEN)
    if "crash_token" in manners:
        time.sleep(0.05)
        crash()
    if "die_held" in manners:
        daemon(False)
        os._exit(3)
    if "hang_token" in manners:
        while True:
            send(peer, b":\n\n")  # a keep-alive comment is no token
            time.sleep(0.05)
    if "error_event" in manners:
        send(peer, b'data: {"error":{"code":500,"message":"Compute error."}}\n\n')
    elif "no_final" not in manners:
        send(peer, FINAL)
    peer.sendall(b"0\r\n\r\n")


def main() -> None:
    port, manners = int(sys.argv[1]), set(sys.argv[2:])
    if "ignore_term" in manners:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "early_daemon" in manners:
        daemon(False)
    if "clean_daemon" in manners:
        daemon(True)
    if "forks" in manners:
        for _ in range(30):
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(600)
    if "flood" in manners:
        block = b"0123456789abcde\n" * 65536
        for _ in range(96):
            os.write(1, block)
        os.write(1, b"the last line\n")
    if "binary" in manners:
        os.write(2, bytes(range(256)) * 16 + b"\n\xff\xfe no end of line")
    if "close_streams" in manners:
        os.close(1)
        os.close(2)
    if "stop" in manners:
        os.kill(os.getpid(), signal.SIGSTOP)
    if "crash_load" in manners:
        crash()
    if "exit_load" in manners:
        os.write(2, b"error loading model\n")
        os._exit(1)
    if "hang_load" in manners:
        time.sleep(600)
    if "deaf" in manners:
        write_down_sigterm()
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", port))
    except OSError:
        os.write(2, b"couldn't bind HTTP server socket, hostname: 127.0.0.1\n")
        os._exit(1)
    listener.listen(8)
    rude = 3 if "rude_health" in manners else 0
    while True:
        peer, _ = listener.accept()
        while True:
            data = request(peer)
            if not data:
                break
            if data.startswith(b"GET") and rude:
                rude -= 1
                if rude == 1:
                    time.sleep(1.5)
                break
            if data.startswith(b"GET"):
                status = b"503 Loading" if "never_ready" in manners else b"200 OK"
                peer.sendall(b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n{}" % status)
                if "mute_health" in manners:
                    time.sleep(600)
            else:
                answer(peer, manners)
                break
        peer.close()


main()
