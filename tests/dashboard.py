# SPDX-License-Identifier: Apache-2.0
"""Goes through the dashboard with a headless Chromium: every view of a finished and of a running search.

  python3 tests/dashboard.py BIN [CASE...] [--pictures FOLDER]

BIN is the folder of the built programs. Exit code 77: there is no Chromium or chromedriver.
"""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import browser as chromium  # noqa: E402
from dashboard_case import FAINT, SAYS, VIEWS, Case, column  # noqa: E402
from dashboard_reader import as_it_is, downloaded, moments_are_of_one_form, source_is_taken_away, what_a_reader_does_stays  # noqa: E402
from dashboard_refused import refused  # noqa: E402
from served import Served  # noqa: E402


def finished(case):
    run = case.make("finished", "--individuals", "240", "--hostile", "--pending", "3")
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
        assert first == "#243", first
        assert "STAGES=" in column(b, 9)[0] and "{" not in "".join(column(b, 9)), column(b, 9)[:3]
        b.click("button[data-key=next]")
        b.wait("document.querySelector('.pages span').innerText === '51 to 100 of 243'")
        b.click("button[data-key=sort-fitness]")
        b.wait("document.querySelector('th[aria-sort=descending] button')?.innerText === 'TFLOPS'")
        values = [float(each) for each in b.run("return [...document.querySelectorAll('tbody td:nth-child(3)')].map(e => e.innerText)")]
        assert values == sorted(values, reverse=True) and len(values) == 50, values
        b.click("button[data-key=sort-fitness]")
        b.wait("document.querySelector('th[aria-sort=ascending] button')?.innerText === 'TFLOPS'")
        values = [float(each) for each in column(b, 3)]  # those that were not measured are last
        assert values == sorted(values), values
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
        for words in ("Confirmed in a fresh process", "beside the contenders", "Blocks that ran under a check: 59 of 61", "Its speed"):
            assert words in text, (words, text[:1500])
        figures = b.run("return [...document.querySelectorAll('main table')[0].querySelectorAll('tbody tr')].map(r => [...r.cells].map(c => c.innerText))")
        assert [row[0] for row in figures] == ["Measured", "Gain in its duel", "Fitness", "Confirmed", "Beside contenders", "Beside the first seed"], figures
        assert all(cell for row in figures for cell in row) and sum(row[4].startswith("20") for row in figures) == 4, figures
        assert b.run("return [...document.querySelectorAll('.tag')].map(e => e.innerText)") == ["best"]
        assert b.run("return document.querySelectorAll('tr.unrun').length") == 3
        b.size(360, 900)
        case.open(server.url, "variant", id=best)
        b.run("document.querySelector('[role=region][aria-label^=\"Times by workload\"] td').textContent = 'B4_H16_S4096_D128_causal_bf16'")
        case.no_trouble("a workload of a long name")
        b.size(1440, 900)
        case.open(server.url, "variant", id=next(id for id in range(40, 241, 40) if json.loads(server.ask("/api/variant?id=%d" % id)[2])["profile"]))
        assert "26 % long_scoreboard" in b.text() and "Roofline" in b.text(), b.text()[:800]

        as_it_is(case, server, best)
        source_is_taken_away(case, server, best)
        moments_are_of_one_form(case, server)

        # With the keyboard alone.
        case.open(server.url, "overview")
        b.keys("\ue004")
        assert b.run("return document.activeElement.id") == "skip"
        b.keys("\ue007")
        b.wait("document.activeElement.id === 'main'")
        b.run("document.querySelector('nav a').focus()")
        b.keys("\ue004\ue004\ue007")
        case.ready("lineage")
        assert b.run("return document.activeElement.innerText") == "Lineage"  # where one is among the views
        b.run("document.querySelector('button.fold').focus()")
        b.keys("\ue007")
        b.wait("document.querySelector('ul.tree ul.tree li')")
        case.open(server.url, "overview")
        b.run("document.querySelector('svg[tabindex]').focus()")
        b.keys("\ue012")
        b.wait("/^Best #/.test(document.querySelector('figcaption').innerText)")
        b.keys("\ue007")
        case.ready("variant")
        b.wait("document.activeElement.tagName === 'H1'")  # what had the focus is gone
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
        # A campaign: what one pass of the model gains.
        table = json.loads((folder / "table.json").read_text())
        table["ranking"] = [{"name": "alpha", "ms": 6.0, "gain_ms": 2.0, "left_ms": 1.0}, {"name": html, "ms": 1.0, "gain_ms": 0.0, "left_ms": 0.5}, {"ms": "x"}, 3]
        (folder / "table.json").write_text(json.dumps(table))
        (case.folder / "profile.json").write_text(json.dumps({"ms": 10.0}))
        b.wait("document.body.innerText && fetch('api/suite?suite=suite').then(r => r.json()).then(v => v.model !== null)", 90.0)
        for width in (1440, 360):
            b.size(width, 900)
            case.open(server.url, "suite")
            cells = b.run("return [...document.querySelectorAll('main table')[0].querySelectorAll('tbody tr')].map(r => [...r.cells].map(c => c.innerText))")
            assert cells == [["alpha", "6 ms", "60 %", "4 ms", "2 ms", "1 ms"], [html, "1 ms", "10 %", "1 ms", "0 us", "500 us"], ["All else", "3 ms", "30 %", "3 ms", "", ""],
                             ["The pass", "10 ms", "100 %", "8 ms (1.25x)", "2 ms", "1.5 ms"]], cells
            case.no_trouble(("campaign", width))
            case.picture("campaign_%d" % width)
        b.size(1440, 900)
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
        said = "document.body.innerText.split('does not answer').length - 1"
        assert b.run("return " + said) == 1, b.text()
        b.run("location.hash = arguments[0]", "#view=log")
        b.wait("document.querySelector('h1').innerText === 'Log'")
        assert b.run("return " + said) == 1 and "fetch" not in b.text(), b.text()
        server = Served(case.programs, run, port=server.port)
        b.wait(hidden, 60.0)
        case.ready("log")
        b.run("unanswered()")
        assert not b.run("return " + hidden)
        assert b.run("news(place.run); return " + hidden), "news of the record leaves the banner"
        boxes = "return show(false).then(() => [...document.querySelectorAll('.error')].filter(e => e.checkVisibility()).map(e => e.innerText))"
        b.go(server.url + "#view=variant&id=99999")
        case.ready("error")
        for _ in range(2):
            assert b.run(boxes) == ["This run has no individual with that number."], b.run(boxes)
        b.go(server.url + "#run=nope&view=overview")
        b.wait("document.querySelector('main').dataset.ready === 'error'", 30.0)
        assert b.run("return document.getElementById('state').innerText") == "" and len(b.run(boxes)) == 1, b.text()
    finally:
        b.close()
        server.end()


def early(case):
    """A record of an early version, which lacks the device time and the ratios that its search would have gone by."""
    run = case.make("early", "--individuals", "120")
    with contextlib.closing(sqlite3.connect(run / "run.db")) as db, db:
        db.execute("DELETE FROM tallies WHERE key = 'device_ms'")
        db.execute("UPDATE decisions SET body = json_extract(body, '$.verdict') WHERE kind = 'duel' AND body LIKE '{%'")
        db.execute("UPDATE duels SET report = json_set(report, '$.decision.log_ratio', 0.2)")
    status = subprocess.run([str(case.programs / "cultivar"), "status", str(run)], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "device time not recorded" in status, status
    server = Served(case.programs, run)
    b = case.browser = chromium.Browser()

    def number(text):
        return float(text.replace(",", ""))
    try:
        for width in (1440, 360):
            b.size(width, 900)
            case.open(server.url, "islands")
            best = json.loads(server.ask("/api/state")[2])["summary"]["best"]
            cells = b.run("return [...document.querySelectorAll('main table')].slice(1).flatMap(t => [...t.querySelectorAll('tbody tr')]).map(r => [...r.cells].map(c => c.innerText)).filter(c => c[0] === arguments[0])", "#%d" % best["id"])
            assert cells and all(number(row[1]) > 1.2 * number(row[2]) for row in cells) and "In the search" in b.text(), cells
            assert all(abs(number(row[1]) / best["fitness"] - 1.0) < 1e-3 for row in cells), (cells, best)
            case.no_trouble(("early islands", width))
            case.open(server.url, "devices")
            assert "of evaluations alone" in b.text() and "Busy share" not in b.text() and "with duels and confirmations" not in b.text(), b.text()[:600]
            case.no_trouble(("early devices", width))
            case.open(server.url, "budgets")
            assert "Device time of evaluations alone" in b.text(), b.text()[:600]
            case.no_trouble(("early budgets", width))
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

        what_a_reader_does_stays(case, server)

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
        # It finds what the served page finds.
        server = Served(case.programs, run / "run.db")
        try:
            for text in ("running maximum", "STAGES=3", "stages 3 -> 4", "holdout", "large", "onerror", "\u202e", "nothing of the kind"):
                case.open(page.as_uri(), "kernels", text=text)
                found = b.run("return document.querySelector('.pages span').innerText").split(" of ")[-1].replace("None fit.", "0")
                assert int(found) == json.loads(server.ask("/api/table?" + urllib.parse.urlencode({"text": text}))[2])["all"], (text, found)
            for order in ("up", "down"):
                case.open(page.as_uri(), "kernels", sort="fitness", order=order)
                own = [int(each[1:]) for each in column(b, 1)]
                served = json.loads(server.ask("/api/table?sort=fitness&order=" + order)[2])["rows"]
                assert own == [row["id"] for row in served], (order, own)
        finally:
            server.end()
        case.open(page.as_uri(), "kernels", state="expelled", stage="confirm")
        assert set(column(b, 2)) == {"failed confirmation"}, column(b, 2)
        case.open(page.as_uri(), "variant", id=1)
        assert "Manifest" in b.text()
        name, text = downloaded(case)
        assert name.endswith("_1.cu") and "__global__" in text, (name, text[:200])
        b.click("button[data-key=copy]")
        b.wait("document.querySelector('#part-source [role=status]').innerText !== ''")
        case.no_trouble("file variant")
        assert b.run("return performance.getEntriesByType('resource').length") == 0, "the file asks for something"
    finally:
        b.close()


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


CASES = {"refused": refused, "finished": finished, "running": running, "suite": suite, "restarted": restarted, "unanswered": unanswered, "early": early, "one_file": one_file, "terminal": terminal, "with_search": with_search, "large": large}


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
    for name in words[1:] or [name for name in CASES if name != "large"]:
        if absent and name not in ("refused", "terminal", "with_search"):
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
