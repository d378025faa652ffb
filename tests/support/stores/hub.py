#!/usr/bin/env python3
"""A hub of models on loopback that does what hubs do, and what they should not: for tests/app/models/test_pull*.c.

    hub.py LOG GOLDEN      GOLDEN: the folder tests/golden

Prints its port and those of a proxy, of the same hub behind TLS, and of one that has a certificate of another name;
whoever fetches files is sent to a server of its own. Serves until stdin ends. Each request is a line of LOG: server,
path, range, token. What a repository does is in its name. LOG.pem is the certificate to trust (made by openssl).
"""
import functools
import hashlib
import http.server
import json
import os
import random
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

log, golden = sys.argv[1:3]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 27 * 1024 * 1024 + 12345
lock = threading.Lock()
counts = {}


def golden_file(name):
    with open(os.path.join(golden, name), "rb") as file:
        return file.read()


def made_up(seed, size):
    return random.Random(seed).randbytes(size)


babbler = {n: golden_file("babbler/" + n) for n in os.listdir(os.path.join(golden, "babbler")) if n != "PROVENANCE"}
large = {"large-Q8_0.gguf": made_up(1, LARGE)}
small = {"small-Q8_0.gguf": made_up(2, 300000)}
REPOSITORIES = {
    "acme/babbler": dict(babbler, **{"README.md": b"# babbler", "onnx/model.safetensors": b"other", ".gitattributes": b"x"}),
    "acme/quants": {
        "q-Q4_K_M.gguf": made_up(3, 40000), "q-Q8_0.gguf": golden_file("models/qwen2.gguf"), "q-IQ2_XS.gguf": made_up(4, 900),
        "q-F16.gguf": made_up(5, 160000), "mmproj-F16.gguf": made_up(6, 700), "config.json": b"{}",
        "Q6_K/q-Q6_K-00001-of-00002.gguf": made_up(7, 50000), "Q6_K/q-Q6_K-00002-of-00002.gguf": made_up(8, 30000)},
    "acme/nothing": {"README.md": b"nothing"},
    "acme/unreadable": {"u-IQ2_XS.gguf": made_up(9, 900)},
    "acme/large": large, "acme/slow": large, "acme/whole": large, "acme/breaking": large,
    "acme/gated": small, "acme/twice": small, "acme/always503": small, "acme/always429": small, "acme/gone": small,
    "acme/endless": small, "acme/short": small, "acme/otherpart": small, "acme/othersize": small, "acme/damaged": small,
    "acme/circle": small, "acme/away": small, "acme/nowhere": small, "acme/forbidden": small, "acme/huge": small,
    "acme/silent": small, "acme/falters": small, "acme/opens": small,
}


def blob_id(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@functools.lru_cache(None)
def digests(repository, name):
    data = REPOSITORIES[repository][name]
    return blob_id(data), hashlib.sha256(data).hexdigest()


def siblings(repository):
    for name, data in REPOSITORIES[repository].items():
        git, sha256 = digests(repository, name)
        entry = {"rfilename": name, "size": len(data), "blobId": git}
        if name.endswith((".gguf", ".safetensors")):
            entry["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 130}
        if repository == "acme/huge":
            entry["lfs"]["size"] = 1 << 43
        yield entry
    yield {"rfilename": "../../../../escaped.gguf", "size": 3, "blobId": blob_id(b"bad")}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def count(self, what):
        with lock:
            counts[what] = counts.get(what, 0) + 1
            return counts[what]

    def do_GET(self):
        token = self.headers.get("Authorization", "-")
        with lock, open(log, "a") as file:
            print(self.server.name, self.path, self.headers.get("Range", "-"), token, file=file)
        role = {"secure": "hub", "stranger": "hub", "sealed": "files"}.get(self.server.name, self.server.name)
        try:
            path = urllib.parse.unquote(self.path)
            if role == "proxy":  # which is asked for whole addresses
                role, path = ("files" if ":%d/" % files.server_port in path else "hub"), "/" + path.split("/", 3)[3]
            if role == "files":
                self.reply(400, b"this token is not for me") if token != "-" else self.file(path)
            elif path.startswith("/api/models/"):
                self.list(path[len("/api/models/"):].split("/revision/"), token)
            else:
                self.resolve(path, token)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def list(self, parts, token):
        repository, revision = parts[0], parts[1].split("?")[0]
        if repository == "acme/gated" and token != "Bearer secret":
            return self.reply(401 if token == "-" else 403)
        if repository == "acme/forbidden":
            return self.reply(403)
        if repository == "acme/always429":
            return self.reply(429, Retry_After=0)
        if repository == "acme/always503" or (repository == "acme/twice" and self.count("list") <= 2):
            return self.reply(503, Retry_After=0)
        if repository == "acme/badlist":
            return self.reply(200, b"<html>")
        if repository == "acme/nolist":
            return self.reply(200, b'{"sha": 3}')
        if repository == "acme/endlesslist":
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b"[" * 1000000)
        if repository not in REPOSITORIES or revision not in ("main", "v1", COMMIT):
            return self.reply(404)
        self.reply(200, json.dumps({"sha": COMMIT, "siblings": list(siblings(repository))}).encode())

    def resolve(self, path, token):
        org, name, resolve, commit, rest = path[1:].split("/", 4)
        repository = org + "/" + name
        if repository == "acme/gated" and token != "Bearer secret":
            return self.reply(401)
        if repository == "acme/gone" or resolve != "resolve" or commit != COMMIT:
            return self.reply(404)
        if repository == "acme/circle":
            return self.reply(302, Location=self.path)
        if repository == "acme/away":
            return self.reply(302, Location="file:///etc/passwd")
        if repository == "acme/nowhere":
            return self.reply(302)
        secure = self.server.name == "secure" and repository != "acme/opens"
        base = "https://127.0.0.1:%d" % sealed.server_port if secure else "http://127.0.0.1:%d" % files.server_port
        self.reply(302, Location="%s/%s?sign=%s" % (base, urllib.parse.quote(path[1:]), "x" * 40))

    def file(self, path):
        org, name, _, _, rest = path[1:].split("?")[0].split("/", 4)
        repository = org + "/" + name
        data = REPOSITORIES[repository][rest]
        if repository == "acme/twice" and self.count("file") <= 2:
            return self.reply(500)
        if repository == "acme/damaged" and self.count("damaged") == 1:
            data = data[:-1] + b"?"
        wanted = self.headers.get("Range")
        if repository == "acme/whole" or not wanted:
            return self.reply(200, data)
        first, last = (int(n) for n in wanted[len("bytes="):].split("-"))
        part = data[first:last + 1]
        self.send_response(206)
        shift = repository == "acme/otherpart"
        size = len(data) + (repository == "acme/othersize")
        self.send_header("Content-Range", "bytes %d-%d/%d" % (first + shift, last + shift, size))
        if repository == "acme/endless":
            self.end_headers()
            while True:
                self.wfile.write(part)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if repository == "acme/silent" or (repository == "acme/falters" and self.count("falter") == 1):
            time.sleep(60)
        elif repository == "acme/short":
            self.close_connection = True
        elif repository == "acme/breaking" and self.count("break") % 2:
            self.wfile.write(part[:len(part) // 2])
            self.close_connection = True
        elif repository == "acme/slow":
            for at in range(0, len(part), 200000):
                self.wfile.write(part[at:at + 200000])
                time.sleep(0.02)
        else:
            self.wfile.write(part)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # those who leave in the middle are why this is here


def certificate(path, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=hub of tests", "-addext", "subjectAltName=" + name,
                    "-keyout", path, "-out", path + ".cert"], check=True, stderr=subprocess.DEVNULL)
    with open(path + ".cert", encoding="ascii") as cert, open(path, "a", encoding="ascii") as file:
        file.write(cert.read())
    return path


def serve(name, pem=None):
    server = Server(("127.0.0.1", 0), Handler)
    if pem:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.name, server.daemon_threads = name, True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


hub, files, proxy = serve("hub"), serve("files"), serve("proxy")
own = certificate(log + ".pem", "IP:127.0.0.1")
secure, sealed = serve("secure", own), serve("sealed", own)
stranger = serve("stranger", certificate(log + ".other.pem", "DNS:hub.example"))
print(hub.server_port, proxy.server_port, secure.server_port, stranger.server_port, flush=True)
sys.stdin.read()
