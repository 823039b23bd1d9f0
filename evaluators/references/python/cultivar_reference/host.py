# SPDX-License-Identifier: Apache-2.0
"""The reference process: computes what a task's reference.py defines, for a worker that asks.

    host.py FOLDER     (started by evaluators/references/python/python_reference.cpp; not for users)

Standard input and output carry frames (evaluators/system/frame.hpp): a decimal length, a newline, JSON, a newline. Bulk data lies in the memory of file
descriptor 3, which both processes map; places are in bytes from its beginning. What reference.py prints goes to standard error.

    {"do": "open", "threads": 2}                    -> {"torch": "2.11.0", "functions": ["control_without_eps"]}
    {"do": "rows", "function": "exact",             -> {} : the values are at "out", row by row, f64
     "dtype": "f32", "threads": 2,                     of the workload, to which rounded values are rounded
     "numbers": {"R": 4, "eps": 1e-5}, "dtypes": ["f32"],       of all outputs
     "tensors": [{"name": "x", "dtype": "f32", "axes": ["R", "C"], "shape": [4, 8], "at": 0}],  "as": another dtype to convert to
     "outputs": [{"axes": ["R", "C"], "shape": [4, 8], "index": 0}],  of one group of rows; index: among all outputs
     "rows": {"axes": ["R"], "shape": [4], "at": 4096, "count": 2},   the rows asked for, i64
     "out": 8192, "bytes": 16384}                      bytes: of the shared memory
                                                       with "given", a place: there lie rows as at "out", and the function
                                                       is computed with their whole numbers in the place of its choices
    {"do": "right", ... as "rows", for one output,  -> {} : 1.0 (as right as the reference's) or 0.0 for each asked whole
     "asked": {"at": 8192, "count": 3},                number, pairs of a row in the list and an element, i64
     "tolerance": {"factor": 2, "unit": 1e-7, "floor": 1e-5}}
    {"do": "quit"}                                  -> ends

An answer {"error": "..."} says why there is none.
"""

import importlib
import inspect
import json
import math
import mmap
import os
import sys
import traceback

DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
          "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8"}


ROUNDED = {"rounded": False, "rounded_or_overflow": True}  # whether what overflows in a rounding is so in the result


class Refused(Exception):
    """An answer that names the user's file."""


def last_line_of(error, folder):
    """"reference.py:7: message", for the deepest line of the task's own files."""
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(folder + "/"):
            place = "%s:%d: " % (os.path.relpath(frame.filename, folder), frame.lineno)
    text = str(error).strip().splitlines()
    return "%s%s: %s" % (place, type(error).__name__, text[0][:300] if text else "")


class Task:
    def __init__(self, folder):
        self.folder, self.comparisons = folder, 3
        sys.path.insert(0, folder)
        sys.dont_write_bytecode = True
        try:
            self.module = importlib.import_module("reference")
        except BaseException as error:  # SystemExit too: a file must not end the process
            raise Refused(last_line_of(error, folder) if not isinstance(error, SyntaxError)
                          else "%s:%s: %s" % (os.path.basename(error.filename or "reference.py"), error.lineno, error.msg)) from None
        self.compute = getattr(self.module, "compute", None)
        if not callable(self.compute):
            raise Refused("reference.py does not define compute(INPUTS..., *, PARAMETERS...)")
        self.wanted = {name for name, p in inspect.signature(self.compute).parameters.items() if p.kind is p.KEYWORD_ONLY}
        self.functions = [name for name, value in vars(self.module).items() if name.startswith("control_") and callable(value)]

    def run(self, function, inputs, dtype, numbers, dtypes=None, names=()):
        from cultivar_reference import modes
        every = numbers
        numbers = {name: value for name, value in numbers.items() if name in self.wanted}
        if function == "exact":
            return modes.exact(self.compute, inputs, numbers)
        if function in ROUNDED:
            return modes.rounded(self.compute, inputs, dtype, numbers, dtypes=dtypes, overflows=ROUNDED[function])
        if function == "derived":
            derive = getattr(self.module, "derive", None)
            if not callable(derive):
                raise Refused("reference.py does not define derive(INPUTS..., *, PARAMETERS...), which the `derived` of task.yaml needs")
            parameters = inspect.signature(derive).parameters
            unknown = [n for n, p in parameters.items() if n not in (names if p.kind is not p.KEYWORD_ONLY else every)]
            if unknown:
                raise Refused("derive of reference.py takes %s, which is no %s" % (unknown[0], "input, dimension or parameter"))
            return modes.exact(derive, [inputs[names.index(n)] for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY],
                               {n: every[n] for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY})
        name = function[len("control_"):]
        own = getattr(self.module, function, None)
        return modes.exact(own, inputs, numbers) if own else modes.mutant(self.compute, inputs, name, numbers)

    def seen(self, inputs, numbers):
        from cultivar_reference import choices
        return choices.Seen(self.compute, inputs, {name: value for name, value in numbers.items() if name in self.wanted})


MOST_COMPARED = 1 << 22  # elements of the inputs


def require_separable(task, ask, whole, kept, part):
    """Refuses a task whose rows depend on others: what was computed of slices must be the slices of what is computed of all."""
    import torch
    results = task.run(ask["function"], whole, getattr(torch, DTYPES[ask["dtype"]]), ask["numbers"],
                       names=[t["name"] for t in ask["tensors"]])
    for output in ask["outputs"]:
        of_all, of_some = results[output["index"]], part[output["index"]]
        for i, axis in enumerate(output["axes"]):
            if axis in kept:
                of_all = of_all.index_select(i, kept[axis])
        if of_all.shape != of_some.shape:
            continue  # told below
        of_all, of_some = of_all.to(torch.float64), of_some.to(torch.float64)
        finite = of_all.isfinite() & of_some.isfinite()
        apart = (of_all - of_some)[finite].abs()
        if not torch.equal(of_all.isfinite(), of_some.isfinite()) or (
                apart.numel() and apart.max() > 1e-9 * of_all[finite].abs().max()):
            raise Refused("the values along %s depend on other rows too: take %s out of `rows` in task.yaml" % (
                ", ".join(sorted(kept)), ", ".join(sorted(kept))))


class Rows:
    """The rows that are asked for, and the inputs that they need: by `rows` of task.yaml they depend on their own slices alone."""

    def __init__(self, shared, ask):
        import torch
        self.ask, self.shared, self.count = ask, shared, ask["rows"]["count"]
        self.axes, extents = ask["rows"]["axes"], ask["rows"]["shape"]
        rest = self.read("i64", self.count, ask["rows"]["at"])
        self.places = []
        for extent in reversed(extents):
            self.places.insert(0, rest % extent)
            rest = torch.div(rest, extent, rounding_mode="floor")
        self.kept, self.numbers = {}, dict(ask["numbers"])
        if self.count < math.prod(extents):
            for i, axis in enumerate(self.axes):
                some, self.places[i] = torch.unique(self.places[i], return_inverse=True)
                if len(some) < extents[i]:
                    self.kept[axis] = some
                    self.numbers[axis] = len(some)
        self.inputs, self.whole = [], []
        for tensor in ask["tensors"]:
            value = self.read(tensor["dtype"], math.prod(tensor["shape"]), tensor["at"])
            value = value.reshape(tensor["shape"]).to(getattr(torch, DTYPES[tensor.get("as", tensor["dtype"])]))
            self.whole.append(value)
            for i, axis in enumerate(tensor["axes"]):
                if axis in self.kept:
                    value = value.index_select(i, self.kept[axis])
            self.inputs.append(value)
        self.dtype = getattr(torch, DTYPES[ask["dtype"]])
        self.dtypes = [getattr(torch, DTYPES[name]) for name in ask["dtypes"]]

    def read(self, dtype, count, at):
        import torch
        dtype = getattr(torch, DTYPES[dtype])
        return torch.frombuffer(self.shared, dtype=dtype, count=count, offset=at) if count else torch.empty(0, dtype=dtype)

    def write(self, values):
        import torch
        torch.frombuffer(self.shared, dtype=torch.float64, count=values.numel(), offset=self.ask["out"]).copy_(values.reshape(-1))

    def pick(self, output, result):
        """[rows, elements of a row] of an output's tensor."""
        shape = [len(self.kept[axis]) if axis in self.kept else extent for axis, extent in zip(output["axes"], output["shape"])]
        if list(result.shape) != shape:
            raise Refused("output %d of reference.py has the shape %s; by task.yaml it is %s" % (
                output["index"] + 1, list(result.shape), shape))
        order = [output["axes"].index(axis) for axis in self.axes]
        order += [i for i in range(len(shape)) if i not in order]
        result = result.permute(order)
        result = result[tuple(self.places)] if self.axes else result.expand([self.count, *result.shape])
        return result.reshape(self.count, -1)

    def given(self, seen):
        """[(places, values)] of the whole numbers that the question gives, for choices.forced."""
        import torch
        widths = [math.prod(e for axis, e in zip(o["axes"], o["shape"]) if axis not in self.axes) for o in self.ask["outputs"]]
        values = self.read("f64", self.count * sum(widths), self.ask["given"]).reshape(self.count, -1)
        pairs, first = [], 0
        for output, width in zip(self.ask["outputs"], widths):
            places = seen.places[output["index"]]
            if places is not None and not self.dtypes[output["index"]].is_floating_point:
                pairs.append((self.pick(output, places), values[:, first:first + width].to(torch.int64)))
            first += width
        return pairs


def rows_of(task, shared, ask):
    """Computes the asked rows and writes their values."""
    import torch
    rows, function = Rows(shared, ask), ask["function"]
    if function == "exact" and "given" in ask or function in ROUNDED and (
            "given" in ask or not all(d.is_floating_point for d in rows.dtypes)):
        from cultivar_reference import choices
        seen = task.seen(rows.inputs, rows.numbers)
        given = rows.given(seen) if "given" in ask else ()
        results = choices.exact(seen, given) if function == "exact" else choices.rounded(
            seen, rows.dtype, rows.dtypes, given, ROUNDED[function])
    else:
        results = task.run(function, rows.inputs, rows.dtype, rows.numbers, rows.dtypes, [t["name"] for t in ask["tensors"]])
    if len(results) != len(rows.dtypes):
        raise Refused("%s returns %d tensors; task.yaml has %d %s" % (
            "derive of reference.py" if function == "derived" else "reference.py", len(results), len(rows.dtypes),
            "derived inputs" if function == "derived" else "outputs"))
    if rows.kept and function in ("exact", "derived") and "given" not in ask and task.comparisons and \
            sum(t.numel() for t in rows.whole) <= MOST_COMPARED:
        task.comparisons -= 1
        require_separable(task, ask, rows.whole, rows.kept, results)
    columns = [rows.pick(output, results[output["index"]].to(torch.float64)) for output in ask["outputs"]]
    rows.write(torch.cat(columns, 1) if len(columns) > 1 else columns[0])
    return {}


def right_of(task, shared, ask):
    """Writes of each asked index 1.0 if it is as right as the reference's, otherwise 0.0."""
    import torch
    from cultivar_reference import choices
    rows = Rows(shared, ask)
    seen = task.seen(rows.inputs, rows.numbers)
    output = ask["outputs"][0]
    places = seen.places[output["index"]]
    asked = rows.read("i64", 2 * ask["asked"]["count"], ask["asked"]["at"]).reshape(-1, 2)
    if places is None:
        rows.write(torch.zeros(len(asked), dtype=torch.float64))
        return {}
    verdicts = choices.right(seen, rows.given(seen), rows.dtype, ask["tolerance"])
    rows.write(verdicts[rows.pick(output, places)[asked[:, 0], asked[:, 1]]].to(torch.float64))
    return {}


def main():
    folder = sys.argv[1]
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what the user's code prints must not be taken for an answer
    import torch
    task = shared = None
    while True:
        length = incoming.readline()
        if not length:
            return
        ask = json.loads(incoming.read(int(length) + 1))
        if ask["do"] == "quit":
            return
        try:
            if ask["do"] == "open":
                torch.set_num_threads(ask["threads"])
                task = Task(folder)
                answer = {"torch": torch.__version__, "functions": task.functions}
            else:
                if shared is None or len(shared) < ask["bytes"]:
                    shared = mmap.mmap(3, ask["bytes"])
                if torch.get_num_threads() != ask["threads"]:
                    torch.set_num_threads(ask["threads"])
                answer = right_of(task, shared, ask) if ask["do"] == "right" else rows_of(task, shared, ask)
        except Refused as error:
            answer = {"error": str(error)}
        except MemoryError:
            answer = {"error": "the memory for the reference does not suffice"}
        except BaseException as error:  # whatever the user's code raises
            answer = {"error": last_line_of(error, folder)}
        data = json.dumps(answer).encode()
        outgoing.write(b"%d\n%s\n" % (len(data), data))
        outgoing.flush()


if __name__ == "__main__":
    main()
