#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the problems of the campaign: draw.py LEVEL1/problems.json LEVEL2/problems.json > drawn.txt

Among the problems of KernelBench that `cultivar import` made a task with a cuda seed of, SEED draws 20 of level 1 and 10 of level 2.
Ten more of level 1 and five of level 2 are those with the fewest operations for each byte that were not drawn: where a kernel can
gain by moving less. The draw was committed before any search of these problems; all of them are reported, whatever they give.
"""

import hashlib
import json
import sys

SEED = 35
DRAWN = {1: 20, 2: 10}
MORE = {1: 10, 2: 5}


def lot(level, number):
    """A number of the seed, level and problem alone: it does not depend on which others are tasks."""
    return hashlib.sha256(f"cultivar kernelbench {SEED} {level} {number}".encode()).hexdigest()


def main():
    print(f"# level, problem, how, folder: draw.py with seed {SEED}")
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        level = told["level"]
        possible = [p for p in told["problems"] if "cuda_naive.cu" in p.get("seeds", []) and "example_holdout" in p["sets"]]
        drawn = sorted(possible, key=lambda p: lot(level, p["number"]))[:DRAWN[level]]
        others = [p for p in possible if p not in drawn and p.get("intensity") is not None]
        more = sorted(others, key=lambda p: (p["intensity"], p["number"]))[:MORE[level]]
        for how, chosen in (("drawn", drawn), ("more", more)):
            for p in sorted(chosen, key=lambda p: p["number"]):
                print(level, p["number"], how, p["folder"])


if __name__ == "__main__":
    main()
