#!/usr/bin/env python3
"""Tokens of letters by section, estimated as the program does (bytes / 3): sections.py FOLDER_OF_LETTERS...

Reads requests/*.json and requests/closed/*.json. A section is a heading of one or two marks; source and profile are told apart
from the headings around them."""
import collections
import json
import pathlib
import re
import sys

BYTES_A_TOKEN = 3.0


def sections(text):
    name, out = "opening", collections.OrderedDict()
    for line in text.split("\n"):
        head = re.match(r"^(#{1,2}) (.*)$", line)
        if head and not line.startswith("# include"):
            name = head.group(2)
        out[name] = out.get(name, 0) + len(line.encode()) + 1
    return out


def kind(name):
    for start, short in (("The format", "format"), ("The complete format", "format"), ("The task", "task and oracle"),
                         ("The device", "device"), ("The kernel", "kernel and its measurements"),
                         ("The fittest", "kernel and its measurements"), ("The first kernel", "kernel and its measurements"),
                         ("The second", "second kernel"), ("What each does", "comparison"),
                         ("Its bottlenecks", "profile"), ("The evidence", "evidence"), ("How ", "standing"),
                         ("Other kernels", "other kernels"), ("What was tried", "lineage"), ("Recent failures", "failures"),
                         ("Ideas", "ideas"), ("The search so far", "trajectory"), ("Notes", "notes"),
                         ("What to do", "what to do, answer"), ("What this search", "insights"), ("opening", "opening")):
        if name.startswith(start):
            return short
    return None


def main():
    for folder in sys.argv[1:]:
        letters = []
        for file in sorted(pathlib.Path(folder).rglob("requests/**/*.json")):
            request = json.loads(file.read_text())
            if len(request["messages"]) > 1:
                continue  # goes on with a dialogue
            system = request.get("system", "")
            system = system if isinstance(system, str) else "".join(p["text"] for p in system)
            user = request["messages"][0]
            user = user["text"] if "text" in user else user["content"]
            by_kind, last = collections.Counter(), "opening"
            for part in (system, user):
                for name, size in sections(part).items():
                    last = kind(name) or last
                    by_kind[last] += size
            letters.append((file.stem.rsplit("-", 1)[0], by_kind))
        if not letters:
            continue
        total = sum(sum(c.values()) for _, c in letters) / len(letters)
        print(f"{folder}: {len(letters)} first letters, {total / BYTES_A_TOKEN:.0f} tokens each")
        every = collections.Counter()
        for _, c in letters:
            every.update(c)
        for name, size in every.most_common():
            mean = size / len(letters)
            print(f"  {mean / BYTES_A_TOKEN:6.0f}  {100 * mean / total:4.1f} %  {name}")


main()
