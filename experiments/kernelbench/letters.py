#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The letters of a call of on_card.sh: letters.py RUNS.tar.gz FOLDER

Writes each letter that waits for an answer to FOLDER/SUITE/TASK/ID.md. Who answers writes the answer alone to
answers/SUITE/TASK/ID.md beside on_card.sh; the next call reads it.
"""

import os
import re
import sys
import tarfile


def main():
    runs, out = sys.argv[1:3]
    count = 0
    with tarfile.open(runs) as tar:
        for member in tar:
            found = re.fullmatch(r"runs/([\w.-]+)/([\w.-]+)/letters/requests/([\w.-]+\.md)", member.name)
            if not found or not member.isfile():
                continue
            path = os.path.join(out, *found.groups())
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(tar.extractfile(member).read())
            count += 1
    print(f"{count} letters in {out}")


if __name__ == "__main__":
    main()
