"""Reads task.yaml and the manifests of variants (a subset of YAML), and evaluates their expressions.

Independent of the program that is measured: nothing here calls it."""

import math
import re


class FormatError(Exception):
    pass


# --- YAML: block maps and lists by indentation, {..} and [..] on one line, quoted and plain scalars, comments. ---

def _without_comment(line):
    quote = None
    for i, ch in enumerate(line):
        if quote:
            if ch == quote:
                quote = None
        elif ch in "\"'":
            quote = ch
        elif ch == "#" and (i == 0 or line[i - 1] in " \t"):
            return line[:i].rstrip()
    return line.rstrip()


class _Flow:
    """One value in the notation of a single line."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def blanks(self):
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1

    def value(self, ends=""):
        self.blanks()
        if self.at >= len(self.text):
            return ""
        ch = self.text[self.at]
        if ch == "{":
            return self.mapping()
        if ch == "[":
            return self.sequence()
        if ch in "\"'":
            end = self.text.index(ch, self.at + 1)
            result = self.text[self.at + 1:end]
            self.at = end + 1
            return result
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in ends:
            if self.text[self.at] == ":" and ":" in ends:
                break
            self.at += 1
        return self.text[start:self.at].strip()

    def sequence(self):
        self.at += 1
        result = []
        while True:
            self.blanks()
            if self.text[self.at] == "]":
                self.at += 1
                return result
            result.append(self.value(",]"))
            self.blanks()
            if self.text[self.at] == ",":
                self.at += 1

    def mapping(self):
        self.at += 1
        result = {}
        while True:
            self.blanks()
            if self.text[self.at] == "}":
                self.at += 1
                return result
            key = self.value(":")
            self.blanks()
            if self.text[self.at] != ":":
                raise FormatError("no ':' in " + self.text)
            self.at += 1
            result[key] = self.value(",}")
            self.blanks()
            if self.text[self.at] == ",":
                self.at += 1


_KEY = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*):(?: +(.*))?$")


def parse_yaml(text):
    lines = []
    for raw in text.split("\n"):
        line = _without_comment(raw)
        if line.strip():
            lines.append((len(line) - len(line.lstrip(" ")), line.strip()))
    value, at = _block(lines, 0, lines[0][0])
    if at != len(lines):
        raise FormatError("cannot read: " + lines[at][1])
    return value


def _block(lines, at, indent):
    if lines[at][1].startswith("- ") or lines[at][1] == "-":
        result = []
        while at < len(lines) and lines[at][0] == indent and lines[at][1].startswith("-"):
            rest = lines[at][1][1:].lstrip()
            if _KEY.match(rest) and not rest.startswith("{"):
                inner = indent + len(lines[at][1]) - len(rest)
                lines[at] = (inner, rest)
                value, at = _block(lines, at, inner)
            else:
                value, at = _Flow(rest).value(), at + 1
            result.append(value)
        return result, at
    result = {}
    while at < len(lines) and lines[at][0] == indent:
        match = _KEY.match(lines[at][1])
        if not match:
            raise FormatError("cannot read: " + lines[at][1])
        key, rest = match.group(1), match.group(2)
        at += 1
        if rest:
            # A list or map may go on in the next lines.
            while rest.count("[") > rest.count("]") or rest.count("{") > rest.count("}"):
                rest += " " + lines[at][1]
                at += 1
            result[key] = _Flow(rest).value()
        elif at < len(lines) and (lines[at][0] > indent or (lines[at][0] == indent and lines[at][1].startswith("-"))):
            result[key], at = _block(lines, at, lines[at][0])
        else:
            result[key] = ""
    return result, at


# --- Expressions ---

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][-+]?\d+)?)|([A-Za-z_]\w*)|(==|!=|<=|>=|&&|\|\||[-+*/%^<>!?:(),]))")

_FUNCTIONS = {
    "ceil_div": lambda a, b: math.ceil(a / b),
    "floor_div": lambda a, b: math.floor(a / b),
    "round_up": lambda a, b: math.ceil(a / b) * b,
    "floor": math.floor, "ceil": math.ceil, "min": min, "max": max, "sqrt": math.sqrt, "abs": abs,
    "log2": math.log2,
}


class _Expression:
    def __init__(self, text, names):
        self.tokens, at = [], 0
        text = str(text).strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if not match:
                raise FormatError("cannot read the expression " + text)
            self.tokens.append(match.group(0).strip())
            at = match.end()
        self.at, self.names, self.text = 0, names, text

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, token=None):
        got = self.peek()
        if token and got != token:
            raise FormatError("'" + token + "' is missing in " + self.text)
        self.at += 1
        return got

    # Every level returns a function without arguments, so that what does not matter is not evaluated.
    def choice(self):
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take()
        yes = self.choice()
        self.take(":")
        no = self.choice()
        return lambda: yes() if condition() else no()

    _LEVELS = [["||"], ["&&"], ["==", "!="], ["<", "<=", ">", ">="], ["+", "-"], ["*", "/", "%"]]

    def binary(self, level):
        if level == len(self._LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in self._LEVELS[level]:
            left = self.joined(left, self.take(), self.binary(level + 1))
        return left

    @staticmethod
    def joined(a, operator, b):
        return {
            "||": lambda: 1 if a() or b() else 0, "&&": lambda: 1 if a() and b() else 0,
            "==": lambda: 1 if a() == b() else 0, "!=": lambda: 1 if a() != b() else 0,
            "<": lambda: 1 if a() < b() else 0, "<=": lambda: 1 if a() <= b() else 0,
            ">": lambda: 1 if a() > b() else 0, ">=": lambda: 1 if a() >= b() else 0,
            "+": lambda: a() + b(), "-": lambda: a() - b(), "*": lambda: a() * b(), "/": lambda: a() / b(),
            "%": lambda: a() % b(),
        }[operator]

    def unary(self):
        if self.peek() == "-":
            self.take()
            value = self.unary()
            return lambda: -value()
        if self.peek() == "!":
            self.take()
            value = self.unary()
            return lambda: 0 if value() else 1
        base = self.primary()
        if self.peek() == "^":
            self.take()
            exponent = self.unary()
            return lambda: base() ** exponent()
        return base

    def primary(self):
        token = self.take()
        if token == "(":
            value = self.choice()
            self.take(")")
            return value
        if token and (token[0].isdigit()):
            number = float(token) if any(c in token for c in ".eE") else int(token)
            return lambda: number
        if token in _FUNCTIONS and self.peek() == "(":
            self.take()
            args = []
            while self.peek() != ")":
                args.append(self.choice())
                if self.peek() == ",":
                    self.take()
            self.take(")")
            return lambda: _FUNCTIONS[token](*[a() for a in args])
        if token in self.names:
            value = self.names[token]
            return lambda: value
        raise FormatError("'" + token + "' is unknown in " + self.text)


def evaluate(text, names):
    expression = _Expression(text, names)
    value = expression.choice()
    if expression.peek():
        raise FormatError("cannot read the expression " + expression.text)
    result = value()
    return int(result) if isinstance(result, float) and result.is_integer() else result


# --- Tasks and manifests ---

BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4}
_DTYPES = {d: i for i, d in enumerate(["f64", "f32", "f16", "bf16", "e4m3", "e5m2", "i64", "i32", "i16", "i8"])}


def read_manifest(source):
    begin, end = source.index("/*--- cultivar") + len("/*--- cultivar"), source.index("---*/")
    return parse_yaml(source[begin:end])


def names_of_workload(task, workload, dtype):
    """All dimensions, parameters and lets of a workload, by name."""
    names = dict(_DTYPES)
    names["dtype"], names["element_bytes"] = _DTYPES[dtype], BYTES[dtype]
    for group in ("dimensions", "parameters"):
        for name, entry in (task.get(group) or {}).items():
            if name in workload:
                names[name] = workload[name]
            elif "default" in entry:
                names[name] = evaluate(entry["default"], names)
            else:
                raise FormatError("the workload has no " + name)
    for name, text in (task.get("let") or {}).items():
        names[name] = evaluate(text, names)
    return names


def parameters_named(manifest_text, task):
    """Optional parameters that a manifest does not name have their default in what it claims."""
    return [p for p, entry in (task.get("parameters") or {}).items()
            if entry.get("optional") == "true" and not re.search(r"\b" + p + r"\b", manifest_text)]


def tunable_values(manifest, chosen):
    values = {}
    for name, entry in (manifest.get("tunables") or {}).items():
        listed = [str(v) for v in entry["values"]]
        value = str(chosen.get(name, entry["default"]))
        if value not in listed:
            raise FormatError(name + " has no value " + value)
        if all(re.fullmatch(r"\d+", v) for v in listed):
            values[name] = int(value)
        else:
            values[name] = listed.index(value)
            for i, v in enumerate(listed):
                values[name + "_" + v] = i
    return values


def macros_of(manifest, task, names, chosen, dtype, target):
    """What the compiler defines, as NAME=TEXT."""
    result = []
    for name, entry in (manifest.get("tunables") or {}).items():
        listed = [str(v) for v in entry["values"]]
        value = str(chosen.get(name, entry["default"]))
        if all(re.fullmatch(r"\d+", v) for v in listed):
            result.append(name + "=" + value)
        else:
            result += [name + "=" + name + "_" + value] + [name + "_" + v + "=" + str(i) for i, v in enumerate(listed)]
    for name in manifest.get("specialize") or []:
        if name == "dtype":
            types = {"f32": "float", "f16": "_Float16" if target == "cpu" else "__half",
                     "bf16": "unsigned short" if target == "cpu" else "__nv_bfloat16"}
            result += ["DTYPE=" + types[dtype], "DTYPE_" + dtype.upper() + "=1"]
        elif (task.get("parameters") or {}).get(name, {}).get("type") == "f32":
            result.append("%s=%.9gf" % (name, names[name]))
        else:
            result.append("%s=%d" % (name, names[name]))
    return result
