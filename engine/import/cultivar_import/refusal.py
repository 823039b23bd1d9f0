# SPDX-License-Identifier: Apache-2.0
"""What ends an import: a reason and a remedy, in words for the user."""


class Refusal(Exception):
    def __init__(self, reason, remedy=""):
        super().__init__(f"{reason} {remedy}".strip())
        self.reason, self.remedy = reason, remedy


def brief(error, most=300):
    """An exception as one short line."""
    text = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, (Refusal, RuntimeError)):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= most else text[: most - 3] + "..."
