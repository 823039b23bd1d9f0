#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the campaign's suites: suites.py DRAWN TASKS OUT

OUT/TARGET/level1.yaml and level2.yaml have the problems that DRAWN calls drawn, level1_more.yaml and level2_more.yaml the others. TASKS
is the folder of the tasks as the suites' file shall name it: absolute, or relative to OUT/TARGET.
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
  asking: {{in_flight: 3}}
  models: {{me: {{provider: mailbox, folder: "{{run}}/letters"}}}}
  evaluation: {{depth: 6, max_samples: 40, prepare_deadline: 4m, profile: off}}
  budget: {{wall: 25m, evaluations: 120}}
"""
TARGETS = {"gpu": {"target": "cuda", "workloads": "example", "holdout": "example_holdout", "seed": "cuda_naive"},
           "cpu": {"target": "cpu", "workloads": "cpu_quick", "holdout": "cpu_holdout", "seed": "naive"}}


def main():
    drawn, tasks, out = sys.argv[1:4]
    suites = {}
    with open(drawn, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                level, _, how, folder = line.split()
                suites.setdefault(f"level{level}" + ("" if how == "drawn" else f"_{how}"), []).append(folder)
    for target, values in TARGETS.items():
        os.makedirs(os.path.join(out, target), exist_ok=True)
        for name, folders in suites.items():
            with open(os.path.join(out, target, name + ".yaml"), "w", encoding="utf-8") as file:
                file.write(f"# Written by suites.py.\nname: {name}\ncommon:\n" + COMMON.format(**values) + "tasks:\n")
                file.writelines(f"  - {{name: {each}, task: {tasks}/{each}}}\n" for each in folders)


if __name__ == "__main__":
    main()
