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

    def run(self, function, inputs, dtype, numbers, dtypes=None):
        from cultivar_reference import modes
        numbers = {name: value for name, value in numbers.items() if name in self.wanted}
        if function == "exact":
            return modes.exact(self.compute, inputs, numbers)
        if function == "rounded":
            return modes.rounded(self.compute, inputs, dtype, numbers, dtypes=dtypes)
        name = function[len("control_"):]
        own = getattr(self.module, function, None)
        return modes.exact(own, inputs, numbers) if own else modes.mutant(self.compute, inputs, name, numbers)


MOST_COMPARED = 1 << 22  # elements of the inputs


def require_separable(task, ask, whole, kept, part):
    """Refuses a task whose rows depend on others: what was computed of slices must be the slices of what is computed of all."""
    import torch
    results = task.run("exact", whole, getattr(torch, DTYPES[ask["dtype"]]), ask["numbers"])
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
            raise Refused("the outputs along %s depend on other rows too: take %s out of `rows` in task.yaml" % (
                ", ".join(sorted(kept)), ", ".join(sorted(kept))))


def rows_of(task, shared, ask):
    """Computes the asked rows and writes their values."""
    import torch
    count, out = ask["rows"]["count"], ask["out"]
    axes, extents = ask["rows"]["axes"], ask["rows"]["shape"]
    asked = torch.frombuffer(shared, dtype=torch.int64, count=count, offset=ask["rows"]["at"])
    places, rest = [], asked
    for extent in reversed(extents):
        places.insert(0, rest % extent)
        rest = torch.div(rest, extent, rounding_mode="floor")
    # Only what the asked rows need: the task says that they depend on their own slices of the inputs alone.
    kept, numbers = {}, dict(ask["numbers"])
    if count < math.prod(extents):
        for i, axis in enumerate(axes):
            some, places[i] = torch.unique(places[i], return_inverse=True)
            if len(some) < extents[i]:
                kept[axis] = some
                numbers[axis] = len(some)
    inputs, whole = [], []
    for tensor in ask["tensors"]:
        dtype = getattr(torch, DTYPES[tensor["dtype"]])
        elements = math.prod(tensor["shape"])
        value = torch.frombuffer(shared, dtype=dtype, count=elements, offset=tensor["at"]) if elements else torch.empty(0, dtype=dtype)
        value = value.reshape(tensor["shape"]).to(getattr(torch, DTYPES[tensor.get("as", tensor["dtype"])]))
        whole.append(value)
        for i, axis in enumerate(tensor["axes"]):
            if axis in kept:
                value = value.index_select(i, kept[axis])
        inputs.append(value)
    dtypes = [getattr(torch, DTYPES[name]) for name in ask["dtypes"]]
    results = task.run(ask["function"], inputs, getattr(torch, DTYPES[ask["dtype"]]), numbers, dtypes)
    if len(results) != len(dtypes):
        raise Refused("reference.py returns %d tensors; task.yaml has %d outputs" % (len(results), len(dtypes)))
    if kept and ask["function"] == "exact" and task.comparisons and sum(t.numel() for t in whole) <= MOST_COMPARED:
        task.comparisons -= 1
        require_separable(task, ask, whole, kept, results)
    columns = []
    for output in ask["outputs"]:
        shape = [len(kept[axis]) if axis in kept else extent for axis, extent in zip(output["axes"], output["shape"])]
        result = results[output["index"]]
        if list(result.shape) != shape:
            raise Refused("output %d of reference.py has the shape %s; by task.yaml it is %s" % (
                output["index"] + 1, list(result.shape), shape))
        order = [output["axes"].index(axis) for axis in axes]
        order += [i for i in range(len(shape)) if i not in order]
        result = result.to(torch.float64).permute(order)
        result = result[tuple(places)] if axes else result.expand([count, *result.shape])
        columns.append(result.reshape(count, -1))
    values = torch.cat(columns, 1) if len(columns) > 1 else columns[0]
    torch.frombuffer(shared, dtype=torch.float64, count=values.numel(), offset=out).copy_(values.reshape(-1))
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
                answer = rows_of(task, shared, ask)
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
