# SPDX-License-Identifier: Apache-2.0
"""Who may read the dashboard, and that nobody keeps others out."""
import gzip
import socket

from served import Served


def said_by(port, words):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as at:
        at.sendall(words)
        return at.recv(1000)


def refused(case):
    run = case.make("plain", "--individuals", "20")
    server = Served(case.programs, run)
    own = "127.0.0.1:%d" % server.port
    try:
        ask = server.ask
        status, headers, _ = ask("/")
        assert status == 200 and "script-src 'self'" in headers["Content-Security-Policy"] and headers["X-Content-Type-Options"] == "nosniff"
        assert ask("/", "HEAD")[0] == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "PATCH"):
            assert ask("/api/state", method)[0] == 405, method
        assert ask("/api/state", "POST", body=b"x" * 1000)[0] == 405
        for host in ("evil.example", "evil.example:%d" % server.port, "127.0.0.1.evil.example", "", None, "localhost.", "[::1", "127.0.0.1:80x"):
            assert ask("/api/state", headers={"Host": host})[0] in (421, 400) or host == "localhost.", host
        for host in ("localhost:%d" % server.port, own, "LOCALHOST"):
            assert ask("/api/state", headers={"Host": host})[0] == 200, host
        assert ask("/api/state", headers={"Origin": "http://evil.example"})[0] == 403
        assert ask("/api/state", headers={"Origin": "null"})[0] == 403
        assert ask("/api/state", headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert ask("/api/state", headers={"Origin": "http://" + own, "Sec-Fetch-Site": "same-origin"})[0] == 200
        for path in ("/../run.db", "/..%2frun.db", "/%2e%2e/%2e%2e/etc/passwd", "/api/../../run.db", "//etc/passwd", "/run.db", "/api/state/../x", "/api/%00"):
            status, _, text = ask(path)
            assert status in (400, 404) and "root:" not in text and "SQLite" not in text, (path, status)
        for name in ("../plain", "/etc", "..", "plain%2f..", "%00"):
            assert ask("/api/state?run=" + name)[0] == 404, name
        assert ask("/api/state?run=" + "x" * 5000)[0] == 400
        assert ask("/api/variant?id=999999")[0] == 404 and ask("/api/variant?id=-1")[0] == 404
        assert ask("/api/table?from=99999999999999999999&count=abc")[0] == 200
        for twice in (b"Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n", b"Host: 127.0.0.1\r\nhost: evil.example\r\n", b"Host: 127.0.0.1\r\nOrigin: null\r\nOrigin: http://127.0.0.1\r\n"):
            assert said_by(server.port, b"GET /api/state HTTP/1.1\r\n" + twice + b"\r\n").startswith(b"HTTP/1.1 400"), twice
        whole = sum(len(gzip.compress(ask(path)[2].encode())) for path in ("/", "/style.css", "/app.js"))
        assert 5000 < whole <= 250_000, whole

        # Silent and half-sent requests keep nobody out, and end.
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
        for each in silent:
            try:
                each.sendall(b"GET /api/state HTTP/1.1\r\nHost: 127.0")
            except OSError:
                pass  # closed already, for the next one
        for _ in range(3):
            assert ask("/api/state")[0] == 200
        streams = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
        for each in streams:
            try:
                each.sendall(b"GET /events?run=plain HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            except OSError:
                pass
        assert ask("/api/state")[0] == 200
        for each in silent:
            each.settimeout(60)
            try:
                assert each.recv(1) == b""
            except ConnectionError:
                pass
        for each in silent + streams:
            each.close()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as slow:  # its head never ends
            slow.sendall(b"GET /api/state HTTP/1.1\r\n")
            assert slow.recv(1) == b""
        assert ask("/api/state")[0] == 200
    finally:
        server.end()
    token = case.folder / "token"
    token.write_text("0123456789abcdef0123\n")
    server = Served(case.programs, run, "--token-file", token)
    try:
        ask = server.ask
        assert "token=0123456789abcdef0123" in server.url
        for target in ("/", "/api/state", "/events?run=plain", "/app.js"):
            assert ask(target)[0] == 401, target
        assert ask("/?token=0123456789abcdef0124")[0] == 401
        status, headers, _ = ask("/?token=0123456789abcdef0123")
        assert status == 303 and headers["Location"] == "/" and "HttpOnly" in headers["Set-Cookie"] and "SameSite=Strict" in headers["Set-Cookie"]
        cookie = headers["Set-Cookie"].split(";")[0]
        assert ask("/api/state", headers={"Cookie": "a=b; " + cookie})[0] == 200
        assert ask("/api/state", headers={"Cookie": cookie[:-1]})[0] == 401
        assert ask("/api/state", headers={"Authorization": "Bearer 0123456789abcdef0123"})[0] == 200
        assert ask("/api/state", "POST", headers={"Cookie": cookie})[0] == 405
    finally:
        server.end()
