#!/usr/bin/env python3
"""Writes the space of the seed attention_forward/cuda_wgmma on the workloads `quick` as a file of bench-tune-spaces.

    python3 experiments/tuner_spaces/attention_wgmma.py experiments/attention_h200/run.db.gz SPACE.json.gz

Refusals and duplicates are those of the compiler (README.md): ptxas serializes wgmma with three consumers and tiles of
96 keys; BLOCK_N_WIDE is for heads of 256, and SECTION_MB has no effect on so few heads, so that 16 settings are one
kernel. Times are a model: ridge regression of the logarithm of the times that the record holds for this source on
`avo_mha` (159 settings), on every value, and pairs of values of the tunables that matter most.
"""
import gzip
import itertools
import json
import math
import pathlib
import sqlite3
import sys
import tempfile

KEYS = [64, 80, 96, 112, 128, 144, 160, 176, 192]
KNOBS = {
    "CONSUMERS": [2, 3], "BLOCK_N": KEYS, "BLOCK_N_CAUSAL": KEYS, "BLOCK_N_WIDE": [32, 48, 64, 80],
    "STAGES": [2, 3, 4], "OVERLAP": [0, 1], "PING_PONG": [0, 1], "RESCALE": ["always", "needed"],
    "SCHEDULE": ["single", "strided", "ticket"], "EPILOGUE": ["tma", "direct"], "SECTION_MB": [8, 16, 32, 64]}
INERT = ["BLOCK_N_WIDE", "SECTION_MB"]
PAIRS = [("OVERLAP", "PING_PONG"), ("OVERLAP", "BLOCK_N"), ("OVERLAP", "BLOCK_N_CAUSAL"), ("SCHEDULE", "EPILOGUE"),
         ("CONSUMERS", "STAGES"), ("OVERLAP", "RESCALE")]
SHARED_MEMORY = 232448


def feasible(v):
    for heads, keys, teams in ((128, v["BLOCK_N"], v["CONSUMERS"]), (128, v["BLOCK_N_CAUSAL"], v["CONSUMERS"]),
                               (64, v["BLOCK_N"], v["CONSUMERS"]), (64, v["BLOCK_N_CAUSAL"], v["CONSUMERS"]),
                               (256, v["BLOCK_N_WIDE"], 2)):
        if (64 * teams + 2 * v["STAGES"] * keys) * heads * 2 + 1536 > SHARED_MEMORY:
            return False
        if 3 * keys / 4 + heads / 2 + 24 > (240 if teams == 2 else 160):
            return False
    return True


def refused(v):
    return v["CONSUMERS"] == 3 and 96 in (v["BLOCK_N"], v["BLOCK_N_CAUSAL"])


def features(v):
    one_hot = [(k, v[k]) for k in KNOBS if k not in INERT]
    return [("", "")] + one_hot + [(a, v[a], b, v[b]) for a, b in PAIRS]


def solve(matrix, right):
    n = len(right)
    for i in range(n):
        p = max(range(i, n), key=lambda r: abs(matrix[r][i]))
        matrix[i], matrix[p], right[i], right[p] = matrix[p], matrix[i], right[p], right[i]
        for r in range(i + 1, n):
            factor = matrix[r][i] / matrix[i][i]
            if factor:
                for c in range(i, n):
                    matrix[r][c] -= factor * matrix[i][c]
                right[r] -= factor * right[i]
    for i in reversed(range(n)):
        right[i] = (right[i] - sum(matrix[i][c] * right[c] for c in range(i + 1, n))) / matrix[i][i]
    return right


def fit(record):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "run.db"
        file.write_bytes(gzip.open(record).read())
        rows = sqlite3.connect(file).execute(
            "SELECT configuration, fitness FROM individuals JOIN sources ON source = number "
            "WHERE stage = 'measure' AND fitness > 0 AND text LIKE '%name: attention_wgmma%'").fetchall()
    samples = [(json.loads(c), -math.log(f)) for c, f in rows]
    names = {}
    for v, _ in samples:
        for name in features(v):
            names.setdefault(name, len(names))
    n = len(names)
    mean = sum(y for _, y in samples) / len(samples)
    matrix, right = [[0.0] * n for _ in range(n)], [0.0] * n
    for v, y in samples:
        at = [names[f] for f in features(v)]
        for i in at:
            right[i] += y - mean
            for j in at:
                matrix[i][j] += 1
    for i in range(n):
        matrix[i][i] += 1.0
    weights = solve(matrix, right)
    cost = lambda v: math.exp(mean + sum(weights[names[f]] for f in features(v) if f in names))
    error = math.sqrt(sum((math.log(cost(v)) - y) ** 2 for v, y in samples) / len(samples))
    print(f"{len(samples)} settings, rms error of the model {100 * error:.1f} %", file=sys.stderr)
    return cost


def main(record, out):
    cost = fit(record)
    cache, failed = {}, 0
    for values in itertools.product(*KNOBS.values()):
        v = dict(zip(KNOBS, values))
        if not feasible(v):
            continue
        failed += refused(v)
        kernel = ",".join(str(v[k]) for k in KNOBS if k not in INERT)
        cache[",".join(map(str, values))] = {**v, "time": "serialized" if refused(v) else cost(v), "kernel": kernel}
    print(f"{len(cache)} settings, {failed} refused, {len({r['kernel'] for r in cache.values()})} kernels", file=sys.stderr)
    with gzip.open(out, "wt", compresslevel=1) as file:
        json.dump({"tune_params_keys": list(KNOBS), "tune_params": KNOBS, "cache": cache}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
