# SPDX-License-Identifier: Apache-2.0
"""One case of tests/dashboard.py: its records, its browser, and what holds for every view."""
import pathlib
import subprocess
import tempfile
import time
import urllib.parse

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


SAFE = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


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
        wide = self.browser.run("return document.documentElement.scrollWidth")  # a phone's innerWidth grows with it
        assert wide <= self.browser.width, (where, "wider than the window", wide)
        unsaid = self.browser.run("return [...document.querySelectorAll('.wide')].filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 2 && "
                                  "!/more column/.test(e.previousSibling.innerText)).map(e => e.getAttribute('aria-label'))")
        assert not unsaid, (where, "hides columns without a word", unsaid)
        tall = self.browser.width > 400 or self.browser.run("return [...document.querySelectorAll('.wide tbody tr')].filter(r => !r.closest('.code') && "
                                                            "r.getBoundingClientRect().height > 90).map(r => r.innerText.slice(0, 100))")
        assert tall is True or not tall, (where, "rows of many lines", tall)
        beyond = self.browser.run("return [...document.querySelectorAll('.wide td:not(.brief)')].filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)"
                                  ".map(e => e.innerText.slice(0, 100))")
        assert not beyond, (where, "text that prints over the next cell", beyond)
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


def column(b, number):
    return b.run("return [...document.querySelectorAll('main tbody tr')].map(r => r.cells[arguments[0] - 1]?.innerText)", number)
