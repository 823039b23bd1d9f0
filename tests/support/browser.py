# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over WebDriver with nothing but Python's standard library."""
import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def missing():
    """Why there is no browser; empty: there is one."""
    absent = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return "" if not absent else "no %s (apt-get install --no-install-recommends chromium chromium-driver)" % " and no ".join(absent)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Browser:
    def __init__(self, width=1440, height=1000, dark=False):
        self.profile = tempfile.mkdtemp(prefix="cultivar-browser-")
        port = free_port()
        self.driver = subprocess.Popen(["chromedriver", "--port=%d" % port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       start_new_session=True)
        self.base = "http://127.0.0.1:%d" % port
        self.session, self.width = None, width
        self._wait_for_driver()
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--no-first-run", "--disable-background-networking", "--disable-component-update",
                     "--user-data-dir=" + self.profile, "--window-size=%d,%d" % (width, height)]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        said = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = "/session/" + said["sessionId"]

    def _wait_for_driver(self):
        for _ in range(200):
            try:
                if self.call("GET", "/status")["ready"]:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError("chromedriver does not answer")

    def call(self, method, path, body=None):
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].split("\n")[0]) from None

    def at(self, method, path, body=None):
        return self.call(method, self.session + path, body)

    def go(self, url):
        self.at("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.at("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def size(self, width, height):
        self.width = width
        self.at("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}})

    def color(self, scheme):
        self.at("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]}})

    def keys(self, text):
        """Types at what has the focus."""
        actions = [{"type": kind, "value": c} for c in text for kind in ("keyDown", "keyUp")]
        self.at("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def find(self, css):
        return self.at("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        self.at("POST", "/element/%s/click" % self.find(css))

    def wait(self, script, seconds=10.0, *arguments):
        """Until the script's value is true; returns it."""
        end = time.monotonic() + seconds
        while True:
            value = self.run("return (" + script + ")", *arguments)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError("in vain for %g s: %s; the page says: %s" % (seconds, script, self.text()[:500]))
            time.sleep(0.05)

    def text(self):
        return self.run("return document.body.innerText")

    def console(self):
        """Errors that the page has logged since the last call."""
        return [entry["message"] for entry in self.at("POST", "/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]

    def picture(self, file, whole=True):
        said = self.at("POST", "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": {
            "format": "png", "captureBeyondViewport": whole}} if whole else {"cmd": "Page.captureScreenshot", "params": {"format": "png"}})
        with open(file, "wb") as out:
            out.write(base64.b64decode(said["data"]))

    def close(self):
        try:
            if self.session:
                self.at("DELETE", "")
        except (RuntimeError, OSError):
            pass
        self.driver.terminate()
        try:
            self.driver.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.driver.pid, 9)
            self.driver.wait()
        shutil.rmtree(self.profile, ignore_errors=True)
