#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the campaign's suites: suites.py DRAWN TASKS OUT [PART]

OUT/TARGET/level1.yaml and level2.yaml have the problems that DRAWN calls drawn, level1_more.yaml and level2_more.yaml the others. With PART,
a suite has at most so many, and the others are in level1_2.yaml and so on: suites can share a card. TASKS is the folder of the tasks as the
suites' file shall name it: absolute, or relative to OUT/TARGET.
"""

import os
import sys

COMMON = """\
  target: {target}
  workloads: {workloads}
  holdout: {holdout}
  seeds: [{seed}]
  contenders: [torch_eager, torch_compile]
  # `tune` tries the values of the tunables that letters bring; letters are answered between the calls of on_card.sh.
  operators: {{tune: 2, mutate: 3, critique_repair: 2, crossover: 1}}
  asking: {{in_flight: 2}}
  models: {{me: {{provider: mailbox, folder: "{{run}}/letters"}}}}
  evaluation: {{depth: 6, max_samples: 40, prepare_deadline: 4m, profile: off}}
  budget: {{wall: 25m, evaluations: 120}}
"""
TARGETS = {"gpu": {"target": "cuda", "workloads": "example", "holdout": "example_holdout", "seed": "cuda_naive"},
           "cpu": {"target": "cpu", "workloads": "cpu_quick", "holdout": "cpu_holdout", "seed": "naive"}}


def main():
    drawn, tasks, out = sys.argv[1:4]
    most = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
    suites = {}
    with open(drawn, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                level, _, how, folder = line.split()
                suites.setdefault(f"level{level}" + ("" if how == "drawn" else f"_{how}"), []).append(folder)
    for target, values in TARGETS.items():
        os.makedirs(os.path.join(out, target), exist_ok=True)
        for level, problems in suites.items():
            for first in range(0, len(problems), most):
                name = level + (f"_{first // most + 1}" if first else "")
                with open(os.path.join(out, target, name + ".yaml"), "w", encoding="utf-8") as file:
                    file.write(f"# Written by suites.py.\nname: {name}\ncommon:\n" + COMMON.format(**values) + "tasks:\n")
                    file.writelines(f"  - {{name: {each}, task: {tasks}/{each}}}\n" for each in problems[first:first + most])


if __name__ == "__main__":
    main()
