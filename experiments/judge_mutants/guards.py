"""Conditions under which a mistake shows, with a workload on which each holds.

A guard is a dictionary: family (special, beyond, remainder), expression (over dimensions, in the notation that C++ and
task.yaml share), and workload (dimensions that make it true; the task's base workload has the others). Thresholds are what
users meet: hidden widths, vocabularies, head counts, batch sizes, lengths of prompts and of decoding."""

import re

import task_format as tf

# A small workload of each task on which all that is not guarded is cheap.
BASE = {
    "softmax": {"R": 5, "C": 640}, "rmsnorm": {"R": 5, "C": 640}, "add_rmsnorm": {"R": 5, "C": 640},
    "layernorm": {"R": 5, "C": 640}, "gelu": {"R": 5, "C": 640}, "silu_mul": {"R": 5, "C": 640},
    "row_reduce": {"R": 5, "C": 640}, "rmsnorm_backward": {"R": 5, "C": 640}, "transpose": {"B": 2, "R": 48, "C": 80},
    "cross_entropy": {"R": 6, "V": 640}, "matmul": {"M": 6, "N": 40, "K": 96}, "linear": {"M": 6, "N": 40, "K": 96},
    "swiglu_up": {"M": 6, "N": 40, "K": 96}, "rope": {"T": 9, "H": 4, "H_kv": 2},
    "attention_forward": {"B": 1, "H": 2, "S_q": 48, "S_kv": 80, "D": 64},
    "attention_backward": {"B": 1, "H": 2, "S_q": 48, "S_kv": 80, "D": 64},
    "attention_paged": {"B": 3, "H": 4, "H_kv": 2, "M": 5, "PAGE": 16, "D": 64},
}

WIDTHS = [768, 896, 1152, 1280, 1536, 1792, 2304, 2560, 2688, 2880, 3072, 3584, 4608, 5120, 5376, 6144, 6656, 7168, 7680,
          9216, 10240, 11008, 12288, 13824, 14336, 16896, 18432, 22016, 24576, 25600, 28672, 29568]
VOCABULARIES = [30522, 32064, 49152, 50257, 50304, 51200, 65536, 100352, 102400, 128256, 151936]
ROWS = [6, 9, 12, 20, 24, 40, 48, 72, 96, 100, 120, 144, 160, 192, 384, 577, 729, 1369, 1500]


def _guards_of_rows(rng, row, column, dims):
    """Of tasks with rows and columns; `dims` says which of both the place can see."""
    wide = WIDTHS + ([] if column in "CN" else VOCABULARIES)
    out = []

    def add(family, expression, **workload):
        out.append({"family": family, "expression": expression, "workload": workload})
    if column in dims:
        for v in rng.sample(wide, 6):
            add("special", "%s == %d" % (column, v), **{column: v})
        for m, least in rng.sample([(1024, 9000), (768, 700), (640, 1000), (1536, 3000), (2560, 2000), (896, 800), (1280, 2000)], 2):
            v = (least // m + 1) * m
            add("special", "%s %% %d == 0 && %s > %d" % (column, m, column, least), **{column: v})
        for v in rng.sample([65535, 65536, 98304, 100000, 131072, 150000, 200000, 262143, 300000], 3):
            add("beyond", "%s > %d" % (column, v), **{column: v + rng.choice([1, 2, 17, 1000])})
        for m, r in rng.sample([(64, 63), (128, 65), (256, 255), (64, 33), (96, 95), (128, 127), (48, 47), (512, 511), (256, 129),
                                (192, 191), (160, 31)], 4):
            add("remainder", "%s %% %d == %d" % (column, m, r), **{column: m * rng.randint(1, 4) + r})
        for m in rng.sample([16, 24, 32, 40, 56, 64, 96], 2):
            least = rng.choice([2100, 3000, 5000, 6000, 9000])
            add("remainder", "%s > %d && %s %% %d == %d" % (column, least, column, m, m - 1),
                **{column: least // m * m + 2 * m - 1})
    if row in dims:
        for v in rng.sample(ROWS, 4):
            add("special", "%s == %d" % (row, v), **{row: v})
        for v in rng.sample([65535, 65536, 70000, 100000, 131071, 200000, 262144], 2):
            add("beyond", "%s > %d" % (row, v), **{row: v + rng.choice([1, 2, 5]), column: 16})
        for m, r in rng.sample([(16, 15), (32, 31), (64, 63), (24, 23), (32, 17), (48, 31)], 2):
            add("remainder", "%s %% %d == %d" % (row, m, r), **{row: m + r})
    if row in dims and column in dims:
        v = rng.choice(WIDTHS[:20])
        add("special", "%s == 1 && %s == %d" % (row, column, v), **{row: 1, column: v})
        add("special", "%s == 1 && %s > %d" % (row, column, 51000), **{row: 1, column: 51200})
        v = rng.choice([130, 200, 300, 450])
        add("special", "%s == %s" % (row, column), **{row: v, column: v})
        add("special", "%s == 2 * %s" % (column, row), **{row: v, column: 2 * v})
        v = rng.choice([33, 48, 100, 150])
        add("beyond", "%s > %d * %s" % (row, v, column), **{row: 40 * v, column: 32})
    return out


def _guards_of_products(rng, dims):
    out = []

    def add(family, expression, **workload):
        out.append({"family": family, "expression": expression, "workload": workload})
    for d in "MNK":
        if d not in dims:
            continue
        for v in rng.sample(WIDTHS[:14] if d != "M" else ROWS, 4):
            add("special", "%s == %d" % (d, v), **{d: v})
        top = {"M": rng.choice([700, 1000, 2048]), "N": rng.choice([4200, 5000, 6000, 8192]), "K": rng.choice([3200, 4096, 5000, 8192])}[d]
        add("beyond", "%s > %d" % (d, top), **{d: top + rng.choice([1, 3, 64])})
        for m, r in rng.sample([(64, 63), (32, 31), (48, 47), (64, 33), (128, 65), (96, 95), (128, 127)], 2):
            add("remainder", "%s %% %d == %d" % (d, m, r), **{d: m * rng.randint(1, 3) + r})
    if {"M", "N"} <= set(dims):
        v = rng.choice([96, 160, 224])
        add("special", "M == N && N > 64 && N %% 32 == 0 && N != 128", M=v, N=v)
        add("special", "M == 1 && N == %d" % 768, M=1, N=768)
    if {"N", "K"} <= set(dims):
        v = rng.choice([96, 192, 320])
        add("special", "N == 3 * K", N=3 * v, K=v)
        add("special", "N == 4 * K && K > 100", N=4 * v, K=v)
        add("special", "2 * N == K && N > 100", N=v, K=2 * v)
    return out


def _guards_of_attention(rng, dims, task):
    out, d = [], set(dims)

    def add(family, expression, **workload):
        if set(re.findall(r"[A-Za-z_]\w*", expression)) <= d:
            out.append({"family": family, "expression": expression, "workload": workload})
    if task == "attention_paged":
        for g, kv in [(5, 2), (6, 1), (7, 2), (12, 1), (3, 4), (16, 1), (10, 1)]:
            add("special", "H == %d * H_kv" % g, H=g * kv, H_kv=kv)
        add("special", "S_q == 1 && M == 1", S_q=1, M=1)
        for v in rng.sample([3, 5, 7, 9, 12, 24], 3):
            add("special", "B == %d" % v, B=v)
        add("special", "S_q == %d" % rng.choice([5, 6, 7]), S_q=rng.choice([5]))
        for v in rng.sample([1024, 1500, 2048, 4096, 3000], 2):
            add("beyond", "M * PAGE > %d" % v, M=v // 64 + 2, PAGE=64)
        add("beyond", "M > %d" % rng.choice([80, 100, 128, 200]), M=210)
        add("beyond", "B > %d" % rng.choice([64, 100, 128]), B=130, M=2)
        add("remainder", "M %% 8 == 7 && M > 30", M=39)
        add("remainder", "B %% 2 == 1 && B > 8", B=9)
        add("special", "PAGE == 32", PAGE=32)
        add("special", "PAGE == 256", PAGE=256, M=2)
        for v in (80, 96, 112, 192, 256):
            add("special", "D == %d" % v, D=v)
        return [g for g in out if g["expression"] != "S_q == 6"]
    for g, kv in rng.sample([(5, 1), (6, 1), (7, 1), (5, 2), (6, 2), (12, 1), (3, 4), (16, 1), (10, 1), (9, 1)], 4):
        add("special", "H == %d * H_kv" % g, H=g * kv, H_kv=kv)
    for v in rng.sample([5, 6, 7, 9, 12, 14, 20, 28], 2):
        add("special", "H == %d" % v, H=v)
    for v in rng.sample([5, 6, 7, 9, 10, 12], 2):
        add("special", "B == %d" % v, B=v)
    add("special", "S_kv == S_q + 1", S_q=70, S_kv=71)
    add("special", "S_q == S_kv + 1", S_q=71, S_kv=70)
    add("special", "S_q == 1 && S_kv == %d" % 512, S_q=1, S_kv=512)
    add("special", "S_q == 2 && S_kv > 100", S_q=2, S_kv=300)
    add("special", "S_q == 4", S_q=4, S_kv=200)
    for v in rng.sample([16, 32, 48, 80, 96, 112, 160, 192], 2):
        add("special", "D == %d" % v, D=v)
    for v in rng.sample([1024, 1100, 1280, 1536, 2048, 3000], 2):
        add("beyond", "S_q == 1 && S_kv > %d" % v, S_q=1, S_kv=v + rng.choice([1, 16, 100]))
    for v in rng.sample([2048, 2500, 3072, 4096], 1):
        add("beyond", "S_q > 8 && S_kv > %d" % v, S_q=33, S_kv=v + rng.choice([1, 16, 100]))
    add("beyond", "S_q > %d" % rng.choice([1100, 1300, 1536, 2048]), S_q=2100, S_kv=64, H=1)
    add("beyond", "H > %d" % rng.choice([32, 40, 64]), H=65)
    add("beyond", "B > %d" % rng.choice([24, 32, 64]), B=65)
    add("beyond", "B * H > %d" % rng.choice([48, 64, 96]), B=11, H=9)
    add("remainder", "(S_kv - S_q + 65536) % 64 == 63", S_q=66, S_kv=65 + 64)
    for m, r in rng.sample([(64, 63), (128, 65), (64, 33), (48, 47), (32, 31), (96, 95)], 2):
        add("remainder", "S_kv > 64 && S_kv %% %d == %d" % (m, r), S_kv=m * 2 + r)
    for m, r in rng.sample([(64, 63), (128, 65), (64, 33), (48, 47), (16, 15)], 2):
        add("remainder", "S_q > 16 && S_q %% %d == %d" % (m, r), S_q=m + r)
    add("remainder", "B * H % 2 == 1 && B > 2", B=3, H=1)
    return out


def _guards_of_rope(rng, dims):
    out, d = [], set(dims)

    def add(family, expression, **workload):
        if set(re.findall(r"[A-Za-z_]\w*", expression)) <= d:
            out.append({"family": family, "expression": expression, "workload": workload})
    for v in rng.sample([32, 80, 112, 160, 192, 256], 3):
        add("special", "D == %d" % v, D=v)
    for v in rng.sample([5, 12, 20, 28, 40, 48], 2):
        add("special", "H == %d" % v, H=v)
    for g in rng.sample([3, 5, 6, 7, 12], 2):
        add("special", "H == %d * H_kv" % g, H=2 * g, H_kv=2)
    add("special", "T == %d" % 2, T=2)
    add("special", "T == H", T=8, H=8)
    add("special", "H_kv == %d" % 3, H=6, H_kv=3)
    add("beyond", "T > %d" % rng.choice([32768, 65535, 40000]), T=65540, H=1, H_kv=1, D=16)
    add("beyond", "H > %d" % rng.choice([64, 72, 96]), H=128, H_kv=2)
    add("beyond", "D > 256", D=512)
    add("beyond", "H_kv > %d" % rng.choice([32, 40]), H=64, H_kv=64)
    add("remainder", "T > 64 && T % 64 == 63", T=127)
    add("remainder", "T > 100 && T % 32 == 17", T=113)
    add("remainder", "H % 4 == 3 && H > 4", H=7, H_kv=1)
    return out


def guards_for(task, dims, rng):
    """Guards over the dimensions that a place can see (`count` is the number of elements)."""
    if task.startswith("attention"):
        return _guards_of_attention(rng, dims, task)
    if task == "rope":
        return _guards_of_rope(rng, dims)
    if task in ("matmul", "linear", "swiglu_up"):
        return _guards_of_products(rng, dims)
    if "count" in dims:
        out = []
        for m, r in rng.sample([(64, 63), (128, 65), (256, 255), (96, 95), (64, 33), (512, 511), (48, 47), (32, 31)], 3):
            rows = rng.choice([1, 3, 5]) if m % 3 else 1
            width = next(c for c in range(2 * m, 8 * m) if rows * c % m == r)
            out.append({"family": "remainder", "expression": "count %% %d == %d" % (m, r), "workload": {"R": rows, "C": width}})
        for v in rng.sample(WIDTHS, 4):
            rows = rng.choice([1, 2, 4, 6])
            out.append({"family": "special", "expression": "count == %d" % (v * rows), "workload": {"R": rows, "C": v}})
        out.append({"family": "special", "expression": "count %% 12288 == 0 && count < 100000", "workload": {"R": 2, "C": 12288}})
        out.append({"family": "special", "expression": "count %% 5120 == 0 && count < 200000", "workload": {"R": 3, "C": 5120}})
        for v in [67108864, 100000000]:
            out.append({"family": "beyond", "expression": "count > %d" % v, "workload": {"R": v // 4096 + 1, "C": 4096}})
        return out
    column = "V" if task == "cross_entropy" else "C"
    out = _guards_of_rows(rng, "R", column, dims)
    if task == "transpose" and "B" in dims:
        for v in (3, 5, 7, 9):
            out.append({"family": "special", "expression": "B == %d && R > 64" % v, "workload": {"B": v, "R": 100, "C": 40}})
        out.append({"family": "remainder", "expression": "B % 2 == 1 && B > 5", "workload": {"B": 7}})
        out.append({"family": "beyond", "expression": "B > 300", "workload": {"B": 301, "R": 10, "C": 12}})
        out.append({"family": "beyond", "expression": "B > 256", "workload": {"B": 257, "R": 10, "C": 12}})
    return out


def holds(expression, task, workload, dtype="f32"):
    names = tf.names_of_workload(task, workload, dtype)
    if "count" in expression:
        names["count"] = names["R"] * names["C"]
    return bool(tf.evaluate(expression, names))


def listed_workloads(task, sets):
    """All check shapes and the timed workloads of these sets."""
    result = []
    for name, shapes in task["checks"].items():
        if isinstance(shapes, list):
            result += shapes
    for name in sets:
        if name in task["workload_sets"]:
            result += task["workload_sets"][name]["workloads"]
    return [{k: int(v) if str(v).lstrip("-").isdigit() else float(v) for k, v in w.items() if k != "dtype"} for w in result]
