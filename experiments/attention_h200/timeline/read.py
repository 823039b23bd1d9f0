"""What timeline wrote, summed up:  python3 read.py MARKS...

For each leg from one place to the next (mark.py names them), by team: how often, and cycles; and what a tile of queries takes.
"""
import collections
import statistics
import struct
import sys

EACH = 8192


def clocks(words):
    """(place, clock) of a team, clocks growing beyond 27 bits."""
    result, rounds, before = [], 0, 0
    for word in words:
        if not word:
            break
        rounds += word >> 5 < before
        before = word >> 5
        result.append((word & 31, before + (rounds << 27)))
    return result


for name in sys.argv[1:]:
    data = open(name, "rb").read()
    words = struct.unpack("<%dI" % (len(data) // 4), data)
    legs, tiles = collections.defaultdict(list), collections.defaultdict(list)
    for team in range(len(words) // EACH):
        marks = clocks(words[team * EACH:(team + 1) * EACH])
        for (a, then), (b, now) in zip(marks, marks[1:]):
            legs[team % 2, a, b].append(now - then)
        ends = [i for i, (place, _) in enumerate(marks) if place == 14]
        for i, j in zip(ends, ends[1:]):
            tiles[sum(place in (7, 14) for place, _ in marks[i + 1:j + 1])].append(marks[j][1] - marks[i][1])
    print("== " + name)
    for (team, a, b), cycles in sorted(legs.items()):
        cycles.sort()
        print("team %d  %2d to %2d  n %6d  mean %6.0f  median %5d  90 %% %5d" % (
            team, a, b, len(cycles), statistics.fmean(cycles), cycles[len(cycles) // 2], cycles[len(cycles) * 9 // 10]))
    for steps, cycles in sorted(tiles.items()):
        print("tile of %3d steps  n %4d  median %7d  a step %.0f" % (steps, len(cycles), statistics.median(cycles),
                                                                     statistics.median(cycles) / steps))
