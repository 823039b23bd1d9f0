# SPDX-License-Identifier: Apache-2.0
"""What pages that watch a search cost it: its rate with viewers over its rate without, in turns within one search.

  python3 tests/bench/dashboard_viewers.py BIN [--viewers N] [--pairs N] [--seconds N]

The search is bench-soak, whose evaluations take no time: the engine is the only work, some hundred evaluations a second, so this is the worst that viewers
can do. Windows of a few seconds with and without viewers follow each other as A B B A; a pair of neighbours gives one ratio. Each viewer asks for what an
open overview asks for, as often; it runs on this machine too, behind everything else. Give the machine to this alone. Prints the figure as JSON.
"""
import argparse
import datetime
import http.client
import json
import math
import multiprocessing
import os
import pathlib
import platform
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from served import Served  # noqa: E402

SETTLING = 1.0  # seconds after viewers come or go that do not count


def watch(port, watching, answers):
    """One page: while it watches it hears of news, and asks for its view at most every 1.5 s."""
    while True:
        watching.wait()
        events = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        page = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            events.request("GET", "/events")
            news = events.getresponse()
            while watching.is_set():
                if not news.readline().startswith(b"event"):
                    continue
                for view in ("state", "state", "series"):
                    page.request("GET", "/api/" + view)
                    assert len(page.getresponse().read()) > 100
                    with answers.get_lock():
                        answers.value += 1
                time.sleep(1.5)
        finally:
            events.close()
            page.close()


def watchers(port, count, watching, answers):
    os.nice(19)
    for _ in range(count):
        threading.Thread(target=watch, args=(port, watching, answers), daemon=True).start()
    signal.pause()


def processor_s(pid):
    with open("/proc/%d/stat" % pid) as f:
        return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def interval(logs):
    """The geometric mean of ratios and its 95 % interval, by resampling the pairs."""
    import random
    draw = random.Random(1)
    means = sorted(statistics.fmean(draw.choices(logs, k=len(logs))) for _ in range(4000))
    return math.exp(statistics.fmean(logs)), math.exp(means[100]), math.exp(means[3899])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("programs", type=pathlib.Path)
    arguments.add_argument("--viewers", type=int, default=20)
    arguments.add_argument("--pairs", type=int, default=20)
    arguments.add_argument("--seconds", type=float, default=5.0, help="of a window")
    asked = arguments.parse_args()
    programs = asked.programs.resolve()
    with tempfile.TemporaryDirectory(prefix="cultivar-viewers-", ignore_cleanup_errors=True) as folder:
        folder = pathlib.Path(folder)
        (folder / "config").mkdir()
        search = subprocess.Popen([str(programs / "bench-soak"), "100000000", str(folder)], stdout=subprocess.DEVNULL)
        server = client = None
        try:
            server = Served(programs, folder / "run", "--expect")
            while server.ask("/api/state")[0] != 200:
                assert search.poll() is None, "bench-soak ended"
                time.sleep(0.1)
            watching, answers = multiprocessing.Event(), multiprocessing.Value("q", 0)
            client = multiprocessing.Process(target=watchers, args=(server.port, asked.viewers, watching, answers), daemon=True)
            client.start()
            record = sqlite3.connect("file:%s?mode=ro" % (folder / "run" / "run.db"), uri=True)

            def window(watched):
                (watching.set if watched else watching.clear)()
                time.sleep(SETTLING)
                count = "SELECT value FROM tallies WHERE key = 'evaluations'"
                before, at, used = record.execute(count).fetchone()[0], time.monotonic(), processor_s(search.pid)
                server_used, answered = processor_s(server.process.pid), answers.value
                time.sleep(asked.seconds)
                assert search.poll() is None, "bench-soak ended"
                after, took = record.execute(count).fetchone()[0], time.monotonic() - at
                return {"rate": (after - before) / took, "processor_ms": 1e3 * (processor_s(search.pid) - used) / (after - before),
                        "server": (processor_s(server.process.pid) - server_used) / took, "answers": (answers.value - answered) / took}
            for watched in (True, False, True):  # the index is read, and the search is at its pace
                window(watched)
            rates, costs, served, plain, asked_for = [], [], [], [], []
            for pair in range(asked.pairs):
                found = {watched: window(watched) for watched in ((False, True) if pair % 2 == 0 else (True, False))}
                rates.append(math.log(found[True]["rate"] / found[False]["rate"]))
                costs.append(math.log(found[True]["processor_ms"] / found[False]["processor_ms"]))
                served.append(found[True]["server"])
                asked_for.append(found[True]["answers"])
                assert asked_for[-1] > 0 and found[False]["answers"] == 0, "viewers watch when they should not, or not when they should"
                plain.append(found[False]["rate"])
                print("  pair %2d: %.0f evaluations/s without, %.0f with: %.4f" % (pair + 1, found[False]["rate"], found[True]["rate"], math.exp(rates[-1])), file=sys.stderr, flush=True)
            rate, cost = interval(rates), interval(costs)
            print(json.dumps({
                "date": datetime.date.today().isoformat(), "processor": next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine()),
                "cores": len(os.sched_getaffinity(0)), "viewers": asked.viewers, "pairs": asked.pairs, "window_s": asked.seconds,
                "answers_per_s": round(statistics.fmean(asked_for), 1), "evaluations_per_s": round(statistics.median(plain), 1),
                "rate_with_over_without": round(rate[0], 4), "interval_95": [round(rate[1], 4), round(rate[2], 4)],
                "median": round(math.exp(statistics.median(rates)), 4), "pairs_from": round(math.exp(min(rates)), 4), "pairs_to": round(math.exp(max(rates)), 4),
                "engine_processor_time_ratio": round(cost[0], 4), "engine_processor_interval_95": [round(cost[1], 4), round(cost[2], 4)],
                "dashboard_cores": round(statistics.fmean(served), 3), "dashboard_mib": round(server.resident_mib())}, indent=1))
        finally:
            if client:
                client.kill()
            search.kill()
            search.wait()
            if server:
                server.end()


if __name__ == "__main__":
    main()
