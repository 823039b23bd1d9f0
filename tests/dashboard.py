# SPDX-License-Identifier: Apache-2.0
"""Goes through the dashboard with a headless Chromium: every view of a finished and of a running search.

  python3 tests/dashboard.py BIN [CASE...] [--pictures FOLDER]

BIN is the folder of the built programs. Exit code 77: there is no Chromium or chromedriver.
"""
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import browser as chromium  # noqa: E402

VIEWS = ["overview", "evaluations", "lineage", "islands", "kernels", "failures", "operators", "devices", "budgets",
         "interventions", "log"]
# What each view of the synthetic run says.
SAYS = {"overview": "Promotions", "evaluations": "By number", "lineage": "on the path", "islands": "Parents on island", "kernels": "Configuration and note",
        "failures": "identifier \"warpgroup_wait\" is undefined", "operators": "crossover", "devices": "NVIDIA H100", "budgets": "Search time",
        "interventions": "no promotion during 40 evaluations", "log": "promoted"}

# Elements without a name for a screen reader; texts whose contrast is below 4.5 (3 if they are large).
NAMELESS = """return [...document.querySelectorAll('a[href], button, select, input, [role=region], svg[tabindex], meter')].filter(e => e.offsetParent !== null || e.tagName === 'svg')
  .filter(e => !(e.getAttribute('aria-label') || (e.labels && e.labels[0] && e.labels[0].textContent.trim()) || e.textContent.trim())).map(e => e.outerHTML.slice(0, 120))"""
FAINT = """
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const rgb = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); const d = canvas.getImageData(0, 0, 1, 1).data; return [...d]; };
const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let n = walker.nextNode(); n; n = walker.nextNode()) {
  const e = n.parentElement;
  if (!n.textContent.trim() || !e.getClientRects().length || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'OPTION'].includes(e.tagName) || e.closest(':disabled, .skip')) continue;
  const style = getComputedStyle(e);
  let at = e, back = [0, 0, 0, 0];
  while (at && back[3] < 255) { back = rgb(getComputedStyle(at).backgroundColor); at = at.parentElement; }
  if (back[3] < 255) back = rgb(matchMedia('(prefers-color-scheme: dark)').matches ? '#14171b' : '#fff');
  const front = rgb(e instanceof SVGElement ? style.fill : style.color), a = light(front), b = light(back);
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05), large = parseFloat(style.fontSize) >= 24;
  if (ratio < (large ? 3 : 4.5)) found.push(ratio.toFixed(2) + ' ' + n.textContent.trim().slice(0, 40));
}
return [...new Set(found)];"""


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


class Case:
    def __init__(self, programs, pictures):
        self.programs, self.pictures = programs, pictures
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cultivar-dashboard-"))
        self.browser = None

    def make(self, name, *words):
        command = [str(self.programs / "bench-synthetic-run"), str(self.folder / name), *words]
        if "--live" in words:
            process = subprocess.Popen(command)
            while not (self.folder / name / "run.db").exists():
                assert process.poll() is None
                time.sleep(0.05)
            return process
        subprocess.run(command, check=True)
        return self.folder / name

    def open(self, url, view="overview", **values):
        self.browser.go("about:blank")
        self.browser.go(url + "#" + urllib.parse.urlencode({"view": view, **values}))
        self.ready(view)

    def ready(self, view, seconds=10.0):
        self.browser.wait("document.getElementById('main').dataset.ready === arguments[0]", seconds, view)
        self.browser.run("return document.fonts.ready.then(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))))")

    def no_trouble(self, where):
        said = self.browser.console()
        assert not said, (where, said)
        assert self.browser.run("return window.attacked === undefined"), where
        wide = self.browser.run("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], (where, "wider than the window", wide)
        nameless = self.browser.run(NAMELESS)
        assert not nameless, (where, nameless)

    def picture(self, name):
        if self.pictures:
            height = self.browser.run("return document.documentElement.scrollHeight")
            width = self.browser.run("return innerWidth")
            self.browser.size(width, max(500, min(height, 1900)))
            time.sleep(0.2)
            self.browser.picture(self.pictures / (name + ".png"), False)
            self.browser.size(width, 900)

    def through_the_views(self, url, label, run=""):
        values = {"run": run} if run else {}
        for width in (1440, 360):
            self.browser.size(width, 900)
            for view in VIEWS:
                self.open(url, view, **values)
                assert SAYS[view] in self.browser.text(), (label, view, self.browser.text()[:600])
                self.no_trouble((label, view, width))
                order = self.browser.run("const t = document.querySelector('main table, main dl'), f = document.querySelector('main figure'); return !f || !!(t && (t.compareDocumentPosition(f) & 4))")
                assert order, (view, "a chart stands before the table")
                if view in ("overview", "lineage", "kernels", "devices"):
                    self.picture("%s_%s_%d" % (label, view, width))


def finished(case):
    run = case.make("finished", "--individuals", "240", "--hostile")
    server = Served(case.programs, run)
    b = case.browser = chromium.Browser()
    try:
        case.through_the_views(server.url, "finished")
        for scheme in ("light", "dark"):
            b.color(scheme)
            b.size(1440, 900)
            for view in VIEWS + ["variant"]:
                case.open(server.url, view, **({"id": 40} if view == "variant" else {}))
                faint = b.run(FAINT)
                assert not faint, (scheme, view, faint)
            case.picture("finished_variant_dark_1440" if scheme == "dark" else "finished_variant_1440")
        b.color("light")

        # Filter, sort and paging.
        case.open(server.url, "kernels")
        first = b.run("return document.querySelector('tbody td').innerText")
        assert first == "#240", first
        b.click("button[data-key=next]")
        b.wait("document.querySelector('.pages span').innerText === '51 to 100 of 240'")
        b.click("button[data-key=sort-fitness]")
        b.wait("document.querySelector('th[aria-sort=descending] button')?.innerText === 'TFLOPS'")
        values = [float(each) for each in b.run("return [...document.querySelectorAll('tbody td:nth-child(3)')].map(e => e.innerText)")]
        assert values == sorted(values, reverse=True) and len(values) == 50, values
        b.run("const s = document.querySelector('select[name=state]'); s.value = 'rejected'; s.dispatchEvent(new Event('change'))")
        b.wait("(all => all.length > 0 && all.every(e => e.innerText === 'rejected'))([...document.querySelectorAll('tbody td:nth-child(2)')])")
        b.run("document.querySelector('input[name=text]').focus()")
        b.keys("warpgroup_wait\ue007")
        b.wait("(all => all.length > 0 && all.every(e => e.innerText.startsWith('compile')))([...document.querySelectorAll('tbody td:nth-child(8)')])")
        assert b.run("return document.querySelector('input[name=text]').value") == "warpgroup_wait"

        # One kernel: what a model made, beside its parent; coverage, stalls and the roofline of the best ones.
        facts = json.loads(server.ask("/api/table?operator=mutate&state=measured&order=up")[2])["rows"]
        case.open(server.url, "variant", id=facts[0]["id"])
        text = b.text()
        for words in ("Exchange with the model", "Difference from #", "Manifest", "Times by workload, with 95 % intervals", "BLOCK_M"):
            assert words in text, (words, text[:1500])
        assert b.run("return document.querySelectorAll('tr.added').length > 0 && document.querySelectorAll('.hk').length > 3")
        b.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert "Make it faster." in b.text() and "<edit>" in b.text()
        case.no_trouble("variant")
        best = json.loads(server.ask("/api/state")[2])["summary"]["best"]["id"]
        case.open(server.url, "variant", id=best)
        text = b.text()
        for words in ("Confirmed in a fresh process", "beside the contenders", "Blocks that ran under a check: 59 of 61", "Side by side".lower()):
            assert words in text, (words, text[:1500])
        assert b.run("return document.querySelectorAll('tr.unrun').length") == 3
        case.open(server.url, "variant", id=next(id for id in range(40, 241, 40) if json.loads(server.ask("/api/variant?id=%d" % id)[2])["profile"]))
        assert "26 % long_scoreboard" in b.text() and "Roofline" in b.text(), b.text()[:800]

        # With the keyboard alone.
        case.open(server.url, "overview")
        b.keys("\ue004")
        assert b.run("return document.activeElement.id") == "skip"
        b.keys("\ue007")
        b.wait("document.activeElement.id === 'main'")
        b.run("document.querySelector('nav a').focus()")
        b.keys("\ue004\ue004\ue007")
        case.ready("lineage")
        b.run("document.querySelector('button.fold').focus()")
        b.keys("\ue007")
        b.wait("document.querySelector('ul.tree ul.tree li')")
        case.open(server.url, "overview")
        b.run("document.querySelector('svg[tabindex]').focus()")
        b.keys("\ue012")
        b.wait("/^Best #/.test(document.querySelector('figcaption').innerText)")
        b.keys("\ue007")
        case.ready("variant")
        case.no_trouble("keyboard")
    finally:
        b.close()
        server.end()


def suite(case):
    """A suite's table, and the cells of map_elites; with the keyboard alone."""
    folder = case.folder / "suite"
    folder.mkdir()
    html = "<img src=x onerror=window.attacked=1>"
    for name, words in (("alpha", []), ("beta", ["--cells"]), (html, ["--hostile"])):
        case.make("suite/" + name, "--individuals", "150", *words)
    (folder / "table.json").write_text(json.dumps({"suite": "x", "tasks": [{"name": n} for n in ("alpha", "beta", html, "gamma", "../alpha")]}))
    case.make("alone", "--individuals", "20")
    server = Served(case.programs, folder)
    b = case.browser = chromium.Browser()
    try:
        for width in (1440, 360):
            b.size(width, 900)
            case.open(server.url, "suite")
            text = b.text()
            for words in (html, "gamma", "not begun", "Time before and after", "contenders", "cudnn", "All"):
                assert words in text, (words, text[:1500])
            rows = b.run("return document.querySelector('main table').querySelectorAll('tbody tr').length")
            assert rows == 4, rows
            shares = [float(each[:-2]) for each in b.run("return [...document.querySelectorAll('main table')[1].querySelectorAll('tbody tr:not(.sum) td:nth-child(4)')].map(e => e.innerText).filter(t => t.endsWith('%'))")]
            assert len(shares) == 3 and abs(sum(shares) - 100) < 0.5, shares
            case.no_trouble(("suite", width))
            case.picture("suite_%d" % width)
            case.open(server.url, "islands", run="beta")
            assert b.run("return document.querySelectorAll('.heat a').length") == len(json.loads(server.ask("/api/islands?run=beta")[2])["cells"])
            assert "\u2265 65,536" in b.text() and "STAGES" in b.text(), b.text()[:800]
            case.no_trouble(("cells", width))
            case.picture("cells_%d" % width)
        for scheme in ("light", "dark"):
            b.color(scheme)
            for view, values in (("suite", {}), ("islands", {"run": "beta"})):
                case.open(server.url, view, **values)
                faint = b.run(FAINT)
                assert not faint, (scheme, view, faint)
        b.color("light")
        b.size(1440, 900)

        # From the suite to a kernel and through every view of its run, by Tab and Enter.
        def tab_to(what, most=200):
            for _ in range(most):
                b.keys("\ue004")
                if b.run("const e = document.activeElement; return " + what):
                    assert b.run("return document.activeElement.matches(':focus-visible') && getComputedStyle(document.activeElement).outlineStyle !== 'none'"), what
                    return
            raise AssertionError("Tab does not reach " + what)
        case.open(server.url, "suite")
        tab_to("e.closest('main td') && e.innerText === 'alpha'")
        b.keys("\ue007")
        case.ready("overview")
        for view in VIEWS:
            b.run("document.activeElement.blur(); document.getElementById('skip').focus()")
            tab_to("e.closest('nav') && new URLSearchParams(e.hash.slice(1)).get('view') === '%s'" % view)
            b.keys("\ue007")
            case.ready(view)
            assert SAYS[view].split(" \"")[0] in b.text() or view == "failures", (view, b.text()[:400])
        b.run("document.getElementById('skip').focus()")
        tab_to("e.closest('nav') && e.innerText === 'Kernels'")
        b.keys("\ue007")
        case.ready("kernels")
        tab_to("e.name === 'text'")
        b.keys("warps.cu\ue007")
        b.wait("document.querySelectorAll('main tbody tr').length === 1")
        tab_to("e.innerText === '#2'")
        b.keys("\ue007")
        case.ready("variant")
        assert "Kernel #2" in b.text()
        case.no_trouble("keyboard")
    finally:
        b.close()
        server.end()


def restarted(case):
    """A page that is open while the search is stopped and resumed follows it again."""
    run = case.folder / "quick"
    cultivar, home = str(case.programs / "cultivar"), pathlib.Path(__file__).parent.parent
    quiet = {"cwd": home, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    search = subprocess.Popen([cultivar, "run", "configs/quickstart.yaml", "--run-dir", str(run), "--set", "budget.wall=10m"], **quiet)
    count = "Number((document.querySelector('main').innerText.match(/Evaluated\\s+([\\d,]+)/) || ['', '0'])[1].replace(',', ''))"
    server = Served(case.programs, run, "--expect")
    b = case.browser = chromium.Browser()
    try:
        b.go(server.url)
        b.wait("document.getElementById('state').innerText.includes('running')", 60.0)
        b.wait(count + " > 0", 120.0)
        search.send_signal(signal.SIGINT)
        assert search.wait(120) == 130
        b.wait("document.getElementById('state').innerText.includes('stopped')", 30.0)
        before = b.run("return " + count)
        b.console()
        search = subprocess.Popen([cultivar, "resume", str(run)], **quiet)
        b.wait("document.getElementById('state').innerText.includes('running')", 60.0)
        b.wait(count + " > arguments[0]", 120.0, before)
        assert "in 2 sessions" in b.text(), b.text()[:600]
        for view in VIEWS:
            case.open(server.url, view)
            case.no_trouble(("restarted", view))
    finally:
        search.send_signal(signal.SIGINT)
        search.wait(120)
        b.close()
        server.end()


def unanswered(case):
    """A page says so when its dashboard has ended, and goes on when there is one again; no header of another run stays."""
    run = case.make("unanswered", "--individuals", "20")
    server = Served(case.programs, run)
    b = case.browser = chromium.Browser()
    hidden = "document.getElementById('lost').hidden"
    try:
        case.open(server.url, "overview")
        assert b.run("return " + hidden)
        server.end()
        b.wait("!" + hidden, 60.0)
        assert "does not answer" in b.run("return document.getElementById('lost').innerText")
        server = Served(case.programs, run, port=server.port)
        b.wait(hidden, 60.0)
        b.go(server.url + "#run=nope&view=overview")
        b.wait("document.querySelector('main').dataset.ready === 'error'", 30.0)
        assert b.run("return document.getElementById('state').innerText") == ""
    finally:
        b.close()
        server.end()


def running(case):
    writer = case.make("live", "--individuals", "60", "--live", "8")
    case.make("other", "--individuals", "30")
    server = Served(case.programs, case.folder)
    b = case.browser = chromium.Browser()
    count = "Number((document.querySelector('main').innerText.match(/Evaluated\\s+([\\d,]+)/) || ['', '0'])[1].replace(',', ''))"
    try:
        case.open(server.url, "runs")
        assert "other" in b.text() and "live" in b.text()
        case.picture("runs_1440")
        case.through_the_views(server.url, "running", "live")
        b.size(1440, 900)
        case.open(server.url, "overview", run="live")
        before = b.run("return " + count)
        b.wait(count + " > arguments[0] + 8", 15.0, before)

        # Focus, and what is open, survive what is new.
        case.open(server.url, "lineage", run="live")
        b.run("document.querySelector('button.fold').focus(); document.querySelector('button.fold').click()")
        b.wait("document.querySelector('ul.tree ul.tree li')")
        shown = b.run("return document.getElementById('main').dataset.shown")
        b.wait("document.getElementById('main').dataset.shown !== arguments[0]", 15.0, shown)
        b.wait("document.querySelector('ul.tree ul.tree li') && document.activeElement.className === 'fold'")

        # A dashboard that is started again is found again.
        case.open(server.url, "overview", run="live")
        port = server.port
        server.end()
        server = Served(case.programs, case.folder, port=port)
        b.console()
        before = b.run("return " + count)
        b.wait(count + " > arguments[0] + 8", 30.0, before)

        # Twenty tabs.
        for _ in range(19):
            b.at("POST", "/window", {"handle": b.at("POST", "/window/new", {"type": "tab"})["handle"]})
            b.go(server.url + "#run=live&view=overview")
            b.wait(count + " > 0", 20.0)
        before = b.run("return " + count)
        b.wait(count + " > arguments[0]", 20.0, before)
        b.console()

        # The search is killed.
        writer.kill()
        writer.wait()
        b.wait("document.getElementById('state').innerText.includes('stopped')", 25.0)
    finally:
        writer.kill()
        writer.wait()
        b.close()
        server.end()


def one_file(case):
    run = case.make("mailed", "--individuals", "400", "--hostile")
    out = case.folder / "story"
    subprocess.run([str(case.programs / "cultivar"), "report", str(run), "--html", "--csv", "--jsonl", "--out", str(out)], check=True,
                   stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "kernels.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == list(range(1, 401))
    import csv
    with open(out / "kernels.csv", newline="") as f:
        table = list(csv.DictReader(f))
    assert len(table) == 400 and all(row["note"] and row["note"][0] not in "=+-@" for row in table)
    page = out / "report.html"
    b = case.browser = chromium.Browser()
    try:
        case.through_the_views(page.as_uri(), "file")
        case.open(page.as_uri(), "kernels", state="rejected", sort="id", order="up")
        assert b.run("return [...document.querySelectorAll('tbody td:nth-child(2)')].every(e => e.innerText === 'rejected')")
        case.open(page.as_uri(), "variant", id=1)
        assert "Manifest" in b.text()
        case.no_trouble("file variant")
        assert b.run("return performance.getEntriesByType('resource').length") == 0, "the file asks for something"
    finally:
        b.close()


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


def on_a_terminal(command, columns, locale, seconds):
    """What the program writes to a terminal of this width, and the part since it last began at the top, without escapes."""
    import fcntl
    import pty
    import re
    import select
    import struct
    import termios
    pid, at = pty.fork()
    if pid == 0:
        os.environ.update(LC_ALL=locale, TERM="xterm")
        os.execv(command[0], command)
    fcntl.ioctl(at, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    said, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([at], [], [], 0.1)[0]:
            try:
                part = os.read(at, 65536)
            except OSError:
                break
            if not part:
                break
            said += part
    try:
        os.kill(pid, signal.SIGINT)
    except ProcessLookupError:
        pass
    os.waitpid(pid, 0)
    os.close(at)
    text = said.decode("utf-8")
    screen = re.split("\x1b\\[H", text)[-1]
    return text, re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", screen).replace("\r", "")


def terminal(case):
    writer = case.make("live", "--individuals", "120", "--live", "5")
    program = str(case.programs / "cultivar")
    run = str(case.folder / "live")
    try:
        for columns in (80, 200):
            for locale in ("C.UTF-8", "C"):
                text, screen = on_a_terminal([program, "status", run, "--watch"], columns, locale, 5.0)
                lines = screen.rstrip("\n").split("\n")
                assert text.count("\x1b[H") >= 2, text
                assert all(len(line) < columns for line in lines), [len(line) for line in lines]
                for words in ("synthetic: attention_forward on cuda, running", "best ", "evaluated ", "now ", "gate ", "device ", "NVIDIA H100", " of 10 h"):
                    assert words in screen, (columns, locale, words, screen)
                assert screen.isascii() == (locale == "C"), screen
                assert any(c in screen for c in ("\u2588" if locale != "C" else "#")), screen
                if case.pictures:
                    (case.pictures / ("terminal_%d_%s.txt" % (columns, locale))).write_text(screen)
        plain = subprocess.run(["timeout", "-s", "INT", "3", program, "status", run, "--watch"], stdout=subprocess.PIPE, text=True).stdout
        assert "\x1b" not in plain and plain.count("evaluated") >= 1, plain
        # Trees and tables break between words.
        for command in (["lineage", run], ["runs", str(case.folder)], ["show", run, "best"], ["status", run]):
            text, screen = on_a_terminal([program, *command], 80, "C.UTF-8", 6.0)
            told = screen.split("\nSource\n")[0].split("\n")
            long = [line for line in told if len(line) > 80 and " " in line[:80].strip()]
            assert not long, (command, long[:3])
    finally:
        writer.kill()
        writer.wait()


def with_search(case):
    """A real search, with its dashboard in a process of its own."""
    search = subprocess.Popen([str(case.programs / "cultivar"), "run", "configs/quickstart.yaml", "--run-dir", str(case.folder / "quick"), "--dashboard"],
                              cwd=pathlib.Path(__file__).parent.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        url = ""
        while not url:
            line = search.stderr.readline()
            assert line, "the search ended"
            if line.startswith("Dashboard: "):
                url = line.split()[1]
        port = urllib.parse.urlparse(url).port

        def ask(target):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", target)
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())

        assert ask("/api/runs")[0] == 200
        end = time.monotonic() + 60
        while True:
            status, facts = ask("/api/state")
            if status == 200 and facts["summary"]["state"] == "running":
                break
            assert status in (200, 503) and time.monotonic() < end, (status, facts)
            time.sleep(0.2)
        search.send_signal(signal.SIGINT)
        assert search.wait(60) in (130, 1, 0)
        end = time.monotonic() + 5
        while True:
            try:
                ask("/api/runs")
                assert time.monotonic() < end, "the dashboard outlives its search"
            except OSError:
                break
    finally:
        search.kill()
        search.wait()


def large(case):
    """Not part of the suite's default cases: a record of 100,000 individuals, against the clock."""
    began = time.monotonic()
    run = case.make("large", "--individuals", "100000")
    print("record of 100,000 written in %.1f s, %.0f MB" % (time.monotonic() - began, (run / "run.db").stat().st_size / 1e6))
    began = time.monotonic()
    server = Served(case.programs, run)
    b = case.browser = chromium.Browser()
    try:
        started = time.monotonic()
        case.open(server.url, "overview")
        first = time.monotonic() - started
        print("server ready after %.2f s; first view after %.2f s" % (started - began, first))
        slowest = 0.0
        for view in VIEWS + ["variant"]:
            values = {"id": 99998} if view == "variant" else {}
            started = time.monotonic()
            case.open(server.url, view, **values)
            took = time.monotonic() - started
            slowest = max(slowest, took)
            print("  %-14s %.2f s" % (view, took))
        for target in ("/api/table?text=accumulators&sort=fitness", "/api/children?id=0", "/api/series?by=count", "/api/operators", "/api/failures"):
            started = time.monotonic()
            status, _, body = server.ask(target)
            print("  %-45s %.2f s, %d kB" % (target, time.monotonic() - started, len(body) // 1024))
            assert status == 200
        print("server: %.0f MiB" % server.resident_mib())
        assert first <= 1.5 and slowest <= 1.0 and server.resident_mib() <= 300
    finally:
        b.close()
        server.end()
    began = time.monotonic()
    out = case.folder / "story"
    subprocess.run([str(case.programs / "cultivar"), "report", str(run), "--html", "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    page = out / "report.html"
    print("report --html in %.1f s, %.1f MB" % (time.monotonic() - began, page.stat().st_size / 1e6))
    b = case.browser = chromium.Browser()
    try:
        started = time.monotonic()
        case.open(page.as_uri(), "kernels")
        print("the file's table after %.2f s" % (time.monotonic() - started))
    finally:
        b.close()


def watched_by(port, run, viewers, stop):
    """What that many pages with the overview ask for, each at most every 1.5 s, as long as there is news. Behind everything else."""
    import threading
    os.nice(19)

    def watch():
        events = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        events.request("GET", "/events?run=" + run)
        news = events.getresponse()
        page = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while not stop.is_set():
            if not news.readline().startswith(b"event"):
                continue
            for view in ("state", "state", "series"):
                page.request("GET", "/api/%s?run=%s" % (view, run))
                assert len(page.getresponse().read()) > 100
            time.sleep(1.5)
    threads = [threading.Thread(target=watch, daemon=True) for _ in range(viewers)]
    for thread in threads:
        thread.start()
    stop.wait()


def viewers(case):
    """By hand: what 20 viewers cost a search that records hundreds of evaluations a second, and what they cost the dashboard."""
    import multiprocessing
    import re
    evaluations, pairs = 5000, 6
    walls, costs = {0: [], 20: []}, {0: [], 20: []}

    def processor_s(pid):
        with open("/proc/%d/stat" % pid) as f:
            return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    for pair in range(pairs):
        for count in (0, 20) if pair % 2 == 0 else (20, 0):
            folder = case.folder / ("soak_%d_%d" % (pair, count))
            (folder / "config").mkdir(parents=True)
            search = subprocess.Popen([str(case.programs / "bench-soak"), str(evaluations), str(folder)], stdout=subprocess.PIPE, text=True)
            if count:
                server = Served(case.programs, folder / "run", "--expect")
                while server.ask("/api/state")[0] != 200:
                    time.sleep(0.02)
                stop = multiprocessing.Event()
                client = multiprocessing.Process(target=watched_by, args=(server.port, "run", count, stop), daemon=True)
                client.start()
                before, at = processor_s(server.process.pid), time.monotonic()
            said = ""
            while "s in all" not in said:
                line = search.stdout.readline()
                assert line, said
                said += line
            if count:
                used, took = processor_s(server.process.pid) - before, time.monotonic() - at
                print("    dashboard: %.2f s of processor time in %.1f s, %.2f %% of a core for each of %d viewers; %.0f MiB" % (
                    used, took, 100 * used / took / count, count, server.resident_mib()))
                stop.set()
                client.join(5)
                client.kill()
                server.end()
            search.kill()
            search.wait()
            walls[count].append(float(re.search(r"([\d.]+) ms for each evaluation", said)[1]))
            each = [float(x) for x in re.findall(r"processor ([\d.]+) ms each", said)]
            costs[count].append(sum(each) / len(each))
            print("  %2d viewers: %.3f ms for each evaluation, of which %.3f ms of processor time of the engine" % (count, walls[count][-1], costs[count][-1]), flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    for name, values in (("wall", walls), ("processor", costs)):
        ratios = sorted(b / a for a, b in zip(values[0], values[20]))
        print("%s time with viewers / without, by pair: %s; median %.3f" % (name, " ".join("%.3f" % r for r in ratios), (ratios[(len(ratios) - 1) // 2] + ratios[len(ratios) // 2]) / 2))


CASES = {"refused": refused, "finished": finished, "running": running, "suite": suite, "restarted": restarted, "unanswered": unanswered, "one_file": one_file, "terminal": terminal, "with_search": with_search, "large": large, "viewers": viewers}


def main():
    words = sys.argv[1:]
    pictures = None
    if "--pictures" in words:
        at = words.index("--pictures")
        pictures = pathlib.Path(words[at + 1])
        pictures.mkdir(parents=True, exist_ok=True)
        del words[at:at + 2]
    if not words:
        sys.exit(__doc__)
    absent = chromium.missing()
    for name in words[1:] or [name for name in CASES if name not in ("large", "viewers")]:
        if absent and name not in ("refused", "terminal", "with_search", "viewers"):
            print("skipped: " + absent)
            sys.exit(77)
        case = Case(pathlib.Path(words[0]).resolve(), pictures)
        began = time.monotonic()
        try:
            CASES[name](case)
            print("%s: passed in %.1f s" % (name, time.monotonic() - began), flush=True)
        finally:
            shutil.rmtree(case.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
