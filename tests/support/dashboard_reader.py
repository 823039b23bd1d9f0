# SPDX-License-Identifier: Apache-2.0
"""What someone who reads the dashboard finds, and what stays while it is updated."""
import json
import re
import time

from dashboard_case import SAFE, VIEWS, column


def as_it_is(case, server, best):
    """Each state is said once, and of a search that has ended nothing is in flight."""
    b = case.browser
    for view in VIEWS:
        case.open(server.url, view)
        text = b.run("return document.querySelector('main').innerText").lower()
        assert not [words for words in ("in flight", "proposed\t", "waiting", "not ended", "pending") if words in text and (view, words) != ("islands", "proposed\t")
                    and (view, words) != ("operators", "proposed\t") and (view, words) != ("operators", "in flight")], (view, text)
    case.open(server.url, "overview")
    text = b.run("return document.querySelector('main').innerText")
    assert "3 not evaluated when the search ended" in text and text.count("finished") == 1 and text.count("budget is exhausted") == 1, text[:1500]
    case.open(server.url, "kernels", state="promoted", sort="fitness")
    states = dict(zip(column(b, 1), column(b, 2)))
    assert states.pop("#%d" % best) == "best" and set(states.values()) == {"was best"}, states
    case.open(server.url, "kernels", state="proposed")
    assert column(b, 2) == ["not evaluated"] * 3, column(b, 2)

    # A failed confirmation is found like any other failure.
    case.open(server.url, "failures")
    all_failed = {row["id"] for row in json.loads(server.ask("/api/table?state=expelled&count=500")[2])["rows"]}
    reason = b.run("return [...document.querySelectorAll('main table')[1].querySelectorAll('tbody tr')].find(r => r.cells[1].innerText === 'confirm').cells[2].innerText")
    for row in ("[...document.querySelectorAll('main table')[0].querySelectorAll('tbody tr')].find(r => r.cells[0].innerText === 'confirm')",
                "[...document.querySelectorAll('main table')[1].querySelectorAll('tbody tr')].find(r => r.cells[1].innerText === 'confirm')"):
        case.open(server.url, "failures")
        b.run("(" + row + ").querySelector('a').click()")
        case.ready("kernels")
        assert {int(each[1:]) for each in column(b, 1)} == all_failed and all_failed, (column(b, 1), all_failed)
        assert set(column(b, 2)) == {"failed confirmation"} and all(each.endswith(reason) for each in column(b, 8)), column(b, 8)
    assert json.loads(server.ask("/api/table?text=holdout%20shape&count=500")[2])["all"] == len(all_failed)

    # Device time is what the evaluations took.
    case.open(server.url, "budgets")
    used = next(row for row in json.loads(server.ask("/api/budgets")[2])["rows"] if row["kind"] == "device_hours")["used"]
    assert used > 0.05 and "Device time\t0 s" not in b.text(), b.text()
    case.open(server.url, "devices")
    shares = json.loads(server.ask("/api/devices")[2])["busy"]
    assert 0 < max(shares) <= 1 and "100 %" in b.text(), shares


def downloaded(case):
    """What the download of the kernel's page leaves in a folder: its name and its text."""
    folder = case.folder / "downloads"
    folder.mkdir(exist_ok=True)
    case.browser.at("POST", "/goog/cdp/execute", {"cmd": "Browser.setDownloadBehavior", "params": {"behavior": "allow", "downloadPath": str(folder)}})
    case.browser.click("a[download]")
    end = time.monotonic() + 20
    while not [each for each in folder.iterdir() if each.suffix != ".crdownload"]:
        assert time.monotonic() < end, "no file is downloaded"
        time.sleep(0.05)
    file = next(folder.iterdir())
    name, text = file.name, file.read_text()
    file.unlink()
    return name, text


def source_is_taken_away(case, server, id):
    b = case.browser
    source = json.loads(server.ask("/api/variant?id=%d" % id)[2])["source"]
    status, headers, body = server.ask("/api/source?id=%d" % id)
    assert status == 200 and body == source and headers["Content-Type"] == "text/plain; charset=utf-8", headers
    name = headers["Content-Disposition"].split('"')[1]
    assert headers["Content-Disposition"].startswith("attachment") and name.endswith("_%d.cu" % id) and set(name) <= SAFE, name
    assert server.ask("/api/source?id=99999")[0] == 404
    case.open(server.url, "variant", id=id)
    assert downloaded(case) == (name, source)
    b.at("POST", "/goog/cdp/execute", {"cmd": "Browser.grantPermissions", "params": {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}})
    for way in ("clipboard", "command"):
        case.open(server.url, "variant", id=id)
        b.run("window.clips = navigator.clipboard; return window.clips.writeText('nothing')")
        if way == "command":
            b.run("Object.defineProperty(navigator, 'clipboard', {value: {writeText: () => Promise.reject(new Error('no'))}})")
        b.click("button[data-key=copy]")
        b.wait("document.querySelector('#part-source [role=status]').innerText === 'Copied.'")
        assert b.run("return document.activeElement.dataset.key") == "copy"
        assert b.run("return window.clips.readText()") == source, way


def moments_are_of_one_form(case, server):
    """Points in time are said with their zone and for programs, and nowhere otherwise."""
    b = case.browser
    for view in VIEWS + ["variant"]:
        case.open(server.url, view, **({"id": 1} if view == "variant" else {}))
        for words, at in b.run("return [...document.querySelectorAll('time')].map(e => [e.innerText, e.dateTime])"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC([+-]\d+(:\d\d)?)?", words) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", at), (view, words, at)
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "", b.run("return document.querySelector('main').innerText"))
        assert not re.search(r"\d\d?/\d\d?/\d{4}|\d:\d\d:\d\d|\d (AM|PM)\b|\d\.\d+ (h|d|min)\b", text), (view, text)
    case.open(server.url, "overview")
    for words in ("Started", "ended ", "found "):
        assert words in b.text(), words
    assert b.run("return document.querySelectorAll('.tiles time').length") == 3


def what_a_reader_does_stays(case, server):
    """What is selected, unfolded, typed, scrolled and focused is the same after the page has been updated."""
    b = case.browser

    def after_news(times=2):
        shown = int(b.run("return document.getElementById('main').dataset.shown"))
        b.wait("Number(document.getElementById('main').dataset.shown) >= arguments[0]", 20.0, shown + times)
    best = json.loads(server.ask("/api/state?run=live")[2])["summary"]["best"]["id"]
    b.size(360, 900)
    case.open(server.url, "variant", run="live", id=best)
    b.run("document.querySelectorAll('details').forEach(d => { d.open = true; });"
          "const cell = [...document.querySelectorAll('td')].find(e => e.innerText === 'B4_H16_S4096_D128_causal_bf16'); getSelection().selectAllChildren(cell);"
          "cell.closest('.wide').scrollLeft = 30; window.marked = cell")
    unfolded = b.run("return document.querySelectorAll('details[open]').length")
    after_news()
    assert b.run("return getSelection().toString().trim()") == "B4_H16_S4096_D128_causal_bf16"
    assert b.run("return [window.marked.isConnected, window.marked.closest('.wide').scrollLeft, document.querySelectorAll('details[open]').length]") == [True, 30, unfolded]
    b.size(1440, 900)

    case.open(server.url, "kernels", run="live")
    b.run("document.querySelector('input[name=text]').focus()")
    b.keys("no filter ye")
    newest = column(b, 1)[0]
    after_news()
    assert column(b, 1)[0] != newest
    b.keys("t")
    assert b.run("return [document.activeElement.name, document.activeElement.value]") == ["text", "no filter yet"]
    link = column(b, 1)[0]
    b.run("document.querySelector('main tbody a').focus()")
    after_news()
    assert b.run("return document.activeElement.innerText") == link and column(b, 1)[0] != link

    case.open(server.url, "evaluations", run="live")
    b.run("document.querySelector('svg[tabindex]').focus()")
    b.keys("\ue012")
    said = b.run("return document.querySelector('figcaption').innerText")
    assert said.startswith("Best #"), said
    after_news()
    assert b.run("return [document.activeElement.tagName, document.querySelector('figcaption').innerText]") == ["svg", said]

    # Another view: the same link among the views, or the new view's head.
    b.run("[...document.querySelectorAll('nav a')].find(e => e.innerText === 'Failures').focus()")
    b.keys("\ue007")
    case.ready("failures")
    after_news()
    assert b.run("return document.activeElement.innerText") == "Failures"
    b.run("document.querySelector('main tbody a').focus()")
    b.keys("\ue007")
    case.ready("kernels")
    b.wait("document.activeElement.tagName === 'H1'")
    after_news()
    assert b.run("return document.activeElement.tagName") == "H1"
    case.no_trouble("what a reader did")
