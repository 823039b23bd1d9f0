# SPDX-License-Identifier: Apache-2.0
"""A dashboard of some runs, as its own process, and what it says."""
import http.client
import json
import signal
import subprocess


class Served:
    """A dashboard of these runs."""

    def __init__(self, programs, *words, port=0):
        self.process = subprocess.Popen([str(programs / "cultivar"), "dashboard", *map(str, words), "--json", "--port", str(port)],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        said = ""
        while not said.endswith("}\n"):
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("the dashboard ended with %s" % self.process.wait())
            said += line
        facts = json.loads(said)
        self.url, self.port = facts["url"], facts["port"]

    def ask(self, target, method="GET", headers=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": "127.0.0.1:%d" % self.port, **(headers or {})}.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read().decode("utf-8", "replace")

    def resident_mib(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024

    def end(self):
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the dashboard does not end") from None
        assert code == 0, code
