"""A kernel of ideas/ with clock readings in it, as a cubin:  python3 mark.py KERNEL.cu OUT.cubin causal=0|1 [marks=0] [KNOB=VALUE...]

The first thread of each team writes "clock << 5 | place" to where the log-sum-exp would go, so the kernel's results are
not to be used. Places: 0 a step begins, 1 K is there, 2 it is the team's turn, 3 the products are issued, 4 the logits are there,
5 they are weights, 6 O is there, 7 the step ends; 10 to 14 the same from logits on where one tile of queries follows another (13: O
has left); 16 to 17 the next queries are sent for; 18 to 19 they are waited for. Without them
(marks=0) timeline tells how fast the kernel is back to back. Needs nvcc and PyYAML.
"""
import re
import subprocess
import sys

import yaml

MARK = '''  mutable u32 marked_ = 0;
  __device__ __forceinline__ void mark(u32 place) const {
    u32 now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
    if (leader() && marked_ < 8192u)
      reinterpret_cast<u32*>(lse_)[(blockIdx.x * 2 + number_) * 8192u + marked_++] = now << 5 | place;
  }
  __device__ __forceinline__ void keep(float x, int at) const { parts_[262144 + (at & 65535)] = x; }
'''
# What is looked for, and what comes before it, and after.
PLACES = [
    ("  __device__ __forceinline__ bool leader()", MARK, ""),
    ("  __device__ __forceinline__ void issue(float (&s)[KEYS / 2], float (&o)[kHead / 2], u32 (&p)[KEYS / 4]) {\n", "", "    mark(0);\n"),
    ("    if (kTurns) named_sync(turn(number_), 256);\n", "    mark(1);\n", "    mark(2);\n"),
    ("    issue_values<true>(o, p);\n", "", "    mark(3);\n"),
    ("    if (!masked) {\n", "    mark(4);\n", ""),
    ("    wait_output(o);\n    if (rows.shrinks) shrink(o, rows.shrink);\n    to_weights(p, s);\n", "    mark(5);\n", "    mark(7);\n"),
    ("    if (rows.shrinks) shrink(o, rows.shrink);\n    to_weights", "    mark(6);\n", ""),
    ("    release_keys();\n    first_softmax(s, p, rows, following);\n", "    mark(10);\n", "    mark(11);\n"),
    ("    finish(view.slot, done, o, ended);\n", "    mark(12);\n", "    mark(13);\n"),
    ("    view = following;\n", "", "    mark(14);\n"),
    ("        if (last > 0) more = fetch();\n", "        if (last > 0) mark(16);\n", "        if (last > 0) mark(17);\n"),
    ("      const u32 done = place_;\n      turn_to_queries();\n", "      mark(18);\n", "      mark(19);\n"),
]


def marked(text):
    for found, before, after in PLACES:
        if text.count(found) != 1:
            sys.exit("mark.py: %d times in the kernel, and not once: %r" % (text.count(found), found))
        text = text.replace(found, before + found + after)
    return re.sub(r"lse_\[\(static_cast<long long>\(tile.b\) \* shape_.H \+ tile.h\) \* shape_.S_q \+ row\] =\n(.*?);",
                  r"keep(\1, tile.b + tile.h + row);", text, count=1, flags=re.S)


def macros(text, settings):
    tunables = yaml.safe_load(re.search(r"/\*--- cultivar\n(.*?)\n---\*/", text, re.S).group(1))["tunables"]
    for name in settings:
        if name not in tunables and name not in ("causal", "marks"):
            sys.exit("mark.py: the kernel has no tunable %s" % name)
        if name in tunables and settings[name] not in map(str, tunables[name]["values"]):
            sys.exit("mark.py: %s is one of %s" % (name, ", ".join(map(str, tunables[name]["values"]))))
    pairs = "PAIRS" if settings["causal"] == "0" else "PAIRS_CAUSAL"
    result = ["D=128", "DTYPE=__nv_bfloat16", "DTYPE_BF16=1", "causal=" + settings["causal"],
              "paired=" + settings.get(pairs, str(tunables[pairs]["default"]))]
    for name, tunable in tunables.items():
        value = settings.get(name, str(tunable["default"]))
        if isinstance(tunable["default"], int):
            result.append("%s=%s" % (name, value))
        else:
            result.append("%s=%s_%s" % (name, name, value))
            result += ["%s_%s=%d" % (name, each, i) for i, each in enumerate(tunable["values"])]
    return ["-D" + each for each in result]


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    text = open(sys.argv[1]).read()
    settings = dict(word.split("=", 1) for word in sys.argv[3:])
    if settings.get("causal") not in ("0", "1"):
        sys.exit("mark.py: say causal=0 or causal=1")
    with open(sys.argv[2] + ".cu", "w") as file:
        file.write(text if settings.get("marks") == "0" else marked(text))
    done = subprocess.run(["nvcc", "-arch=sm_90a", "-std=c++20", "-cubin", "-Xptxas", "-v", "-o", sys.argv[2], sys.argv[2] + ".cu",
                           *macros(text, settings)], capture_output=True, text=True)
    print(*(line for line in done.stderr.splitlines() if re.search("spill|rror|registers", line)), sep="\n")
    sys.exit(done.returncode)


main()
