#!/usr/bin/env python3
"""For how much of a search a question was open, and when its best kernel had been measured: open_share.py RUN.DB"""
import sqlite3
import sys

db = sqlite3.connect(sys.argv[1])
start, end = db.execute("SELECT min(at), max(at) FROM events").fetchone()
spans = db.execute("SELECT sent_at, CASE WHEN over_at > 0 THEN over_at ELSE ? END FROM exchanges ORDER BY sent_at", (end,)).fetchall()
first = spans[0][0] if spans else end
covered, until = 0.0, first
for sent, over in spans:
    covered += max(0.0, over - max(sent, until))
    until = max(until, over)
best = db.execute("SELECT individual, at FROM events WHERE kind = 'promoted' ORDER BY number DESC LIMIT 1").fetchone()
measured = best and db.execute("SELECT at FROM events WHERE kind = 'measured' AND individual = ? ORDER BY number LIMIT 1",
                               (best[0],)).fetchone()
total = max(end - first, 1e-9)
print(f"a question was open for {100 * covered / total:.1f} % of {total:.0f} s; {len(spans)} exchanges; the best, "
      f"#{best[0] if best else '-'}, was measured after {measured[0] - start if measured else float('nan'):.0f} s "
      f"and promoted after {best[1] - start if best else float('nan'):.0f} s")
