# SPDX-License-Identifier: Apache-2.0
"""Makes a task folder from a file: the steps in order, and what it says about them."""

import math
import os
import re
import shutil
import sys
import time

import torch

from . import kernelbench_model, plan, probe, shapes, write
from .probe import PURE, choices, modes
from .refusal import Refusal, brief
from .source import Source
from .subject import DTYPES, Subject, identifier, load_reference

ELEMENT = {"i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "f32": 4, "f64": 8}


class Import:
    def __init__(self, file, program=None, out=None, name=None, memory_factor=1.0, say=None, seconds=30.0, training=None,
                 own_dtype=False, architecture=None):
        """`own_dtype`: the task has f32 and the dtype of the example, not all in which the program runs. `architecture`: of the GPU
        for which torch.compile generates a seed; None: it does not."""
        self.architecture = architecture
        self.own_dtype = own_dtype
        self.say = say or (lambda text: print(text, file=sys.stderr, flush=True))
        self.begin = time.perf_counter()
        self.file, self.out, self.memory_factor = file, out, memory_factor
        self.assumed, self.to_check, self.seconds = [], [], seconds
        self.say(f"reading {file}")
        self.source = Source(file, program)
        self.source_name = f"{os.path.basename(file)}:{self.source.name}"
        self.name = identifier(name or self._own_name())
        self.training = training

    def _own_name(self):
        if self.source.name != "Model":
            return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.source.name).lower()
        stem = os.path.splitext(os.path.basename(self.file))[0]
        return re.sub(r"__+", "_", identifier(stem)).lower().strip("_")

    def run(self):
        self.subject = Subject(self.source, self.training)
        self.subject.copy_files(self.out)
        self.without, self.flatten, self.booleans, self.gain = {}, False, [], False
        self.fields, self.changed, self.added, self.in_place = [], [], [], {}
        self.inputs = self.subject.inputs
        if not any(i.floating for i in self.inputs):
            raise Refusal("None of the inputs is floating point.", "Tasks of whole numbers only cannot be imported.")
        module = self.subject.module
        shapes.real_first = module is not None and any(isinstance(m, torch.nn.RNNBase) for m in module.modules())
        self._trace()
        self.say(f"dimensions: {', '.join(f'{k} {v}' for k, v in self.dims.free.items())[:300]}")
        try:
            self._probe()
            idle = probe.without_influence(self.runner, self.middle)
            if idle:
                self._drop(idle)
            self._rest()
        except modes.DrawsRandomNumbers as error:
            raise Refusal(f"The program draws random numbers ({str(error).split('(')[-1].rstrip(')')}).",
                          "Make it a function of its inputs: pass random tensors in, or call self.eval() in the constructor "
                          "of a module with dropout.") from None
        self._write()
        return self

    # The program

    def _write_reference(self):
        text = self.subject.reference(self.name, self.flatten, self.without, self.booleans, self.changed, self.added)
        with open(os.path.join(self.out, "reference.py"), "w", encoding="utf-8") as file:
            file.write(text)

    def _load(self):
        try:
            return load_reference(self.out)
        except Exception as error:
            raise Refusal(f"The program cannot be loaded apart from its file: {brief(error)}.",
                          "Make the file independent of where it lies.") from None

    def _trace(self):
        self._write_reference()
        compute = self._load()
        every = [list(i.shape) for i in self.inputs]
        try:
            structure = self._structure(compute, every)
        except Refusal:
            raise
        except modes.DrawsRandomNumbers:
            raise
        except Exception as error:
            raise self._not_running(error) from None
        nested = structure == "nested"
        if nested or self.booleans or self.changed:
            self.flatten = self.flatten or nested
            self._write_reference()
            compute = self._load()
        numbers = self.source.named_numbers()
        try:
            if shapes.real_first:
                raise ValueError("a recurrent module")
            self.dims = shapes.analyse(compute, self.inputs, numbers)
        except Exception as error:
            self.say(f"sizes are traced one by one, because symbols do not pass: {brief(error, 120)}")
            compute = self._load()
            try:
                with shapes.limit(40):
                    self.dims = shapes.fixed_dimensions(compute, self.inputs, numbers)
            except shapes.TooLong:
                raise Refusal("Tracing its sizes takes too long.", "Import a part of the program.") from None
            except Exception as error:
                raise self._not_running(error) from None
            self.to_check.append("sizes were found by trials, not by a trace with symbols: see dimensions and where")
        self.fills = {item.name: self._fill(item) for item in self.inputs}
        self.compute = self._load()
        self.runner = probe.Runner(self.compute, self.inputs, self.dims, self.fills)

    def _not_running(self, error):
        kind = type(error).__name__
        if "DataDependent" in kind or "DynamicOutputShape" in kind or "GuardOnDataDependent" in kind:
            return Refusal("A shape in the program depends on values of its inputs.", "Use operations whose shapes follow from shapes.")
        return Refusal(f"The program does not run on its example inputs: {brief(error)}.", "Check the example inputs.")

    def _structure(self, compute, every):
        """Looks at what the program returns. "flat" or "nested"; refuses what no task can have."""
        result, changed, returned = None, [], {}

        def look(*tensors):
            nonlocal result, changed, returned
            before = [t._version for t in tensors]
            result = compute(*tensors)
            flat = shapes.leaves(result)
            changed = [k for k, t in enumerate(tensors) if t._version != before[k]]
            returned = {n: k for n, r in enumerate(flat) for k in changed
                        if r is tensors[k] or (torch._C._is_alias_of(r, tensors[k]) and r.shape == tensors[k].shape)}
            return [*flat, *(tensors[k] for k in changed if k not in returned.values())]

        got = shapes.run_shapes(look, self.inputs, every)
        flat = torch.utils._pytree.tree_leaves(result)
        self._changes([self.inputs[k] for k in changed], {n: self.inputs[k] for n, k in returned.items()}, len(shapes.leaves(result)))
        if not got:
            what = type(result).__name__
            raise Refusal(f"{self.source.name} returns a {what}, not a tensor.", "Return a tensor or a tuple of tensors.")
        fields = list(result) if isinstance(result, dict) else list(getattr(result, "_fields", ()))
        if len(fields) == len(flat) and all(isinstance(f, str) for f in fields):
            self.fields = fields
        strange = [v for v in flat if v is not None and not isinstance(v, torch.Tensor)]
        if strange:
            raise Refusal(f"{self.source.name} returns a {type(strange[0]).__name__} beside its tensors.", "Return tensors only.")
        for k, (shape, dtype) in enumerate(got):
            if dtype.is_complex:
                raise Refusal(f"{self.source.name} returns complex numbers, which tasks do not have.",
                              "Return real and imaginary parts as tensors of their own.")
            if dtype not in DTYPES:
                raise Refusal(f"{self.source.name} returns {str(dtype)[6:]}, which tasks do not have.", "Return another dtype.")
            if math.prod(shape) == 0:
                raise Refusal(f"Output {k} of {self.source.name} is empty.", "Return tensors with elements.")
        self.booleans = [k for k, (_, dtype) in enumerate(got) if dtype == torch.bool]
        plain = isinstance(result, torch.Tensor) or (isinstance(result, (tuple, list)) and all(
            isinstance(v, torch.Tensor) for v in result))
        return "flat" if plain else "nested"

    def _changes(self, changed, returned, count):
        """Inputs that the program changes are outputs that may have their memory."""
        kept = next((i for i in changed if i.origin != "example"), None)
        if kept:
            raise Refusal(f"{self.source.name} changes its {kept.origin} {kept.path}: it keeps state from call to call.", PURE)
        self.changed = [i.name for i in changed]
        self.added = [i.name for i in changed if i not in returned.values()]  # outputs that it does not return
        self.in_place = {n: i.name for n, i in returned.items()}
        self.in_place.update({count + n: name for n, name in enumerate(self.added)})
        if changed:
            self.assumed.append(f"{', '.join(self.changed)}: changed in place, so the new value is an output, which may have the memory of the "
                                "input (in_place); a kernel must be right with memory of its own for it, too")

    # Fills

    def _fill(self, item):
        v = item.values
        if v.note:
            self.assumed.append(f"{item.name} is filled with {v.kind if v.kind != 'unknown' else 'normal'} values: in the example it is "
                                f"{v.note}")
        if not item.floating:
            if v.kind == "permutation":
                return {"kind": "permutation", "a": v.a, "axis": -1}
            if v.kind == "arange":
                return {"kind": "permutation", "a": 0, "axis": -1}
            if v.kind == "offsets":
                return {"kind": "offsets", "a": 0, "b": self._bound(item, int(v.a)), "axis": 0}
            if v.kind == "constant":
                return {"kind": "integers", "a": 0, "b": max(2, int(v.a) + 1)}
            low, high = (int(v.a), int(v.b)) if v.kind == "integers" else (0, 2)
            return {"kind": "integers", "a": low, "b": self._bound(item, high)}
        if item.weight is not None:
            own = item.weight.shape
            fan = math.prod(own[1:])
            if v.kind == "normal" and abs(v.b * math.sqrt(3 * fan) - 1) < 0.02 and abs(v.a) < 0.01 * v.b:
                index = next((k for k, i in enumerate(self.inputs) if i is item.weight), None)
                if index is not None:
                    sizes = self.dims.shapes[index][1:]
                    constant = math.prod(s for s in sizes if isinstance(s, int))
                    names = [s for s in sizes if not isinstance(s, int)]
                    if self.gain and item is item.weight:
                        return {"kind": "normal", "a": 0, "b": f"sqrt(2 / ({' * '.join([str(constant)] + names)}))"}
                    constant *= 3
                    return {"kind": "normal", "a": 0, "b": f"1 / sqrt({' * '.join([str(constant)] + names)})" if names else v.b}
        if v.kind == "uniform":
            if v.b - v.a < 1e-12:
                return {"kind": "normal", "a": v.a, "b": max(0.25, abs(v.a) / 4)}
            return {"kind": "uniform", "a": float(f"{v.a:.3g}"), "b": float(f"{v.b:.3g}")}
        if v.kind == "constant":
            return {"kind": "normal", "a": float(f"{v.a:.3g}"), "b": float(f"{max(0.25 * abs(v.a), 0.25 if v.a == 0 else 0):.3g}")}
        if v.kind == "normal":
            return {"kind": "normal", "a": float(f"{v.a:.3g}"), "b": float(f"{v.b if v.b > 0 else 1.0:.3g}")}
        return {"kind": "normal", "a": 0, "b": 1}

    def _bound(self, item, high):
        """The dimension whose size bounds whole numbers, where one has it; otherwise the number."""
        if high <= 2:
            return high
        own = self.dims.shapes[self.inputs.index(item)]
        found = []
        for other, row in zip(self.inputs, self.dims.shapes):
            if other is not item:
                for axis, entry in enumerate(row):
                    if isinstance(entry, str) and self.dims.free.get(entry) == high and entry not in own:
                        found.append((not other.floating, axis != len(row) - 1 and axis != 0, entry, other.name))
        if not found:
            return high
        best = min(found)
        self.assumed.append(f"the whole numbers in {item.name} are below {best[2]} (a size of {best[3]})")
        return best[2]

    # Probing

    def _probe(self):
        try:
            self._probe_once()
        except probe.Constant:
            deep = sum(i.origin == "parameter" and len(i.shape) > 1 for i in self.inputs) >= 6
            if self.gain or not deep:
                raise
            # With the usual initial weights a signal fades from layer to layer, until biases are all that is left.
            self.gain = True
            self.fills = self.runner.fills = {item.name: self._fill(item) for item in self.inputs}
            self._probe_once()
            self.assumed.append("weights are filled with a larger deviation, sqrt(2 / inputs of a unit), than the constructor's: with "
                                "that the inputs have no visible influence through so many layers")

    def _probe_once(self):
        self.say("probing on small inputs, in f64")
        self.sizes = plan.Sizes(self.runner, self.seconds)
        self.sizes.small()
        for one, other in self.sizes.relate():
            self.assumed.append(f"the sizes {one} and {other} are one dimension, because the program works only with equal ones")
        self.fills = self.runner.fills = {item.name: self._fill(item) for item in self.inputs}
        self.middle = self.sizes.smoke()
        name, sizes = self.source.name, self.sizes

        def check(assignment, seconds):
            probe.check_function(self.runner, assignment, name, self._load())
            probe.check_alive(self.runner, assignment, 12 if seconds < 0.05 else 4 if seconds < 0.3 else 2, name)

        try:
            check(self.middle, sizes.middle_seconds)
        except probe.Constant as constant:
            for trial in sizes.larger(0.2, 2e6):
                try:
                    check(trial, 0.1)
                except probe.Constant as another:
                    constant = another
                    continue
                except Exception:
                    continue
                if sizes.take(trial):
                    self.middle = trial
                    break
            else:
                raise constant
        self._check_example_sizes()

    def _check_example_sizes(self):
        """Refuses outputs that are constant at sizes nearer to the example's, with parameters as the constructor makes them."""
        sizes, runner = self.sizes, self.runner
        trial = None
        for trial in sizes.larger(0.7):
            pass
        if trial is None:
            return
        fills = {}
        for item in self.inputs:
            v = item.initial
            if v is not None and v.kind in ("constant", "uniform"):
                fills[item.name] = {"kind": v.kind, "a": v.a, "b": v.b}
                if v.kind == "uniform" and isinstance(self.fills[item.name].get("b"), str):
                    fills[item.name] = self.fills[item.name]  # the deviation follows the sizes
        runs = []
        try:
            for seed in (1, 2, 3):
                tensors = runner.draw(trial, 1, fills)
                other = runner.draw(trial, seed, fills)
                tensors = [o if i.origin == "example" else t for i, t, o in zip(self.inputs, tensors, other)]
                runs.append(runner.exact(tensors))
        except modes.DrawsRandomNumbers:
            raise
        except Exception:
            return
        for k in range(len(runs[0])):
            if not runs[0][k].is_floating_point():
                continue
            stacked = torch.stack([r[k] for r in runs])
            size = float(stacked.square().mean().sqrt())
            spread = float((stacked - stacked.mean(0)).square().mean().sqrt())
            at = ", ".join(f"{n} {v}" for n, v in trial.items())
            if not math.isfinite(size):
                continue
            if size < 1e-12 or spread <= 1e-6 * size:
                raise probe.Constant(f"Output {k} of {self.source.name} is constant: at {at}, with the parameters of its constructor, it is "
                              f"{'zero' if size < 1e-12 else 'the same up to rounding'} whatever the inputs are.",
                              "A kernel that ignores them would be right; change the program, its parameters or its example inputs.")
            if spread < 1e-3 * size:
                self.to_check.append(f"at {at}, output {k} varies by only {spread / size:.1e} of its value between random inputs")

    def _drop(self, idle):
        users = [i.name for i in self.inputs if i.name in idle and i.origin == "example"]
        kept = [i for i in self.inputs if i.name not in idle]
        if not any(i.floating for i in kept):
            raise Refusal("The outputs do not depend on any floating input.", "Return what depends on the inputs.")
        self.assumed.append(f"no output depends on {', '.join(idle)}: "
                            f"{'it is' if len(idle) == 1 else 'they are'} no input of the task")
        if users:
            self.to_check.append(f"is it intended that {', '.join(users)} has no influence?")
        for item, row in zip(self.inputs, self.dims.shapes):
            if item.name in idle:
                texts = []
                for entry in row:
                    text = str(item.shape[len(texts)])
                    if isinstance(entry, str):
                        for other, other_row in zip(self.inputs, self.dims.shapes):
                            if other.name not in idle and entry in other_row:
                                text = f"{other.name}.shape[{other_row.index(entry)}]"
                                break
                    texts.append(text)
                self.without[item.name] = texts
        self.inputs = kept
        self._trace()
        self._probe()

    def _rest(self):
        runner, sizes = self.runner, self.sizes
        self.smoke = self.middle
        self.slow = sizes.middle_seconds > 0.05
        for name, least in sizes.bound_below():
            self.assumed.append(f"{name} is at least {least}: the program does not run with a smaller one")
        if together := sizes.bound_together():
            self.assumed.append(f"{', '.join(together[:-1])} and {together[-1]} are not all 1: the program does not run then")
        self.sweep, self.stress_shapes, self.edge = sizes.checks()
        self.dtypes = probe.dtypes_of(runner, self.middle)
        if self.own_dtype:
            self.dtypes = [d for d in self.dtypes if d in ("f32", self._example_dtype())]
        self.say("rows, mistakes, stress cases")
        odd = next((s for s in self.sweep if all(v > 1 for v in s.values())), self.middle)
        self.rows_of = probe.separable(runner, odd)
        first = max(self.rows_of, key=len)
        self.rows = first
        probe.check_fresh(runner, [self.middle] + self.sweep[:2], self.source.name, self._load())
        told, missed, count = probe.mistakes(runner, [self.middle] + self.sweep[:1 if self.slow else 2])
        hidden = [m for m, why in missed if why == "hidden"]  # less than f32 resolves is no laxity: those are only listed
        serious = next((m for m in hidden if m.serious or m.name.startswith("fp8_")), None)
        if serious:
            raise Refusal(f"A wrong kernel would pass: with this mistake the outputs change by less than their permitted error: {serious.about} "
                          f"({serious.name}).", "Choose example inputs on which this operation matters.")
        if not told and count:
            raise Refusal("No mistake in the program could be told from it on its check shapes.",
                          "Choose example inputs on which its operations matter.")
        for mistake, why in [m for m in missed if m[1] != "equal"][:4] + [m for m in missed if m[1] == "equal"][:4]:
            self.to_check.append(f"the checks do not notice this mistake, which on the check shapes changes "
                                 f"{'nothing' if why == 'equal' else 'less than the permitted error'}: {mistake.about} ({mistake.name})")
        self.mistakes_tried = count
        self.unruled = self._unruled()
        self.stress = self._stress()
        self.controls = self._controls(told)
        self._sets()
        self.more_dimensions = []
        self.no_trace = self._trace_for_seeds()
        self._cost()
        self._output_names()

    def _controls(self, told):
        by_kind = {}
        for mistake in told:
            by_kind.setdefault(mistake.name.split("_")[0], []).append(mistake)
        chosen, kinds = [], [k for k in ("without", "biasless", "cut", "scaled", "fp8") if k in by_kind]
        while len(chosen) < 12 and any(by_kind[k] for k in kinds):
            for k in kinds:
                if by_kind[k] and len(chosen) < 12:
                    chosen.append(by_kind[k].pop(0))
        others = self.sweep + self.edge + self.stress_shapes
        if self.slow:
            others = []
        cases = [self._case(assignment) for assignment in others]
        stressed = [self._case(assignment, fills) for assignment in self.stress_shapes for _, _, fills in self.stress if others]
        result = []
        for mistake in chosen:
            shown, hidden = [self.middle], []
            for case in cases:
                (shown if self._shows(mistake, *case[1:]) else hidden).append(case[0])
            when = "" if hidden and any(self._shows(mistake, *case[1:]) for case in stressed) else self._when(shown, hidden)
            if when is not None:
                result.append((mistake, when))
        return result

    def _case(self, assignment, fills=None):
        """Inputs, the exact outputs, and for each of these a difference that a kernel may have."""
        tensors = self.runner.draw(assignment, 3, fills)
        right = self.runner.exact(tensors)
        return assignment, tensors, right, probe.permitted(self.runner, tensors, right)

    def _shows(self, mistake, tensors, right, limits):
        try:
            wrong = modes.mutant(self.runner.compute, tensors, mistake.name)
            return any(a.shape != b.shape or float((a.double() - b.double()).abs().nan_to_num(nan=math.inf).max()) > 2 * l
                       for a, b, l in zip(wrong, right, limits))
        except Exception:
            return False

    def _when(self, shown, hidden):
        """A condition on one or two dimensions that holds where a mistake shows; "" for always; None if there is none."""
        if not hidden:
            return ""
        low = [n for n in self.dims.free if any(h[n] == 1 for h in hidden) and self.middle[n] > 1]
        if low and all(any(h[n] == 1 for n in low) for h in hidden):
            # Without the dimensions that are 1 also where the mistake shows.
            needed = [n for n in low if not any(s[n] == 1 for s in shown)]
            if not all(any(h[n] == 1 for n in needed) for h in hidden):
                needed = low
            return " && ".join(f"{n} > 1" for n in needed)
        for name in self.dims.free:
            most = max(h[name] for h in hidden)
            if all(h[name] < min(s[name] for s in shown) for h in hidden):
                return f"{name} > {most}"
        limits = {n: min(s[n] for s in [self.middle]) for n in self.dims.free}
        names = [n for n in self.dims.free if any(h[n] < limits[n] for h in hidden)]
        if all(any(h[n] < limits[n] for n in names) for h in hidden):
            return " && ".join(f"{n} >= {limits[n]}" for n in names)
        return None

    def _unruled(self):
        """The outputs of whole numbers that are no indices that topk, sort or argmax chose."""
        seen = choices.Seen(self.compute, self.runner.draw(self.middle, 1))
        whole = [k for k, d in enumerate(self.dims.output_dtypes) if not d.is_floating_point]
        ruled = [k for k in whole if seen.places[k] is not None]
        if ruled:
            self.assumed.append(f"{self._outputs(ruled)} indices that are chosen by scores: another index is as right if its score in f64 differs by "
                                "at most the permitted error")
        unruled = [k for k in whole if k not in ruled]
        if unruled:
            self.to_check.append(f"{self._outputs(unruled)} whole numbers that are compared exactly: kernels that take another of equal or "
                                 "nearly equal values are refused")
        return unruled

    def _outputs(self, numbers):
        texts = [self.fields[n] if n < len(self.fields) else str(n) for n in numbers]
        return f"output {texts[0]} has" if len(texts) == 1 else f"the outputs {', '.join(texts[:-1])} and {texts[-1]} have"

    def _stress(self):
        targets = [i for i in self.inputs if i.origin == "example" and i.floating and len(i.shape)][:3] or [
            i for i in self.inputs if i.floating and len(i.shape)][:1]
        found = []
        sizes_late = self.sizes.late

        def scale(item):
            v = self.fills[item.name]
            a, b = (float(probe.evaluate(v.get(k, d), self.dims.values(self.middle)) if isinstance(v.get(k, d), str) else v.get(k, d))
                    for k, d in (("a", 0), ("b", 1)))
            return (b if v["kind"] == "uniform" else abs(a) + abs(b)) or 1.0

        def rank(item):
            return len(item.shape)

        positive = [self.fills[i.name]["kind"] == "uniform" and self.fills[i.name].get("a", 0) >= 0 for i in targets]
        r3 = lambda x: float(f"{x:.3g}")
        cases = [
            ("zeros", "every element zero", lambda i: {"kind": "constant", "a": 0}),
            ("identical", "large and all equal", lambda i: {"kind": "constant", "a": r3(4 * scale(i))}),
            ("large", "sixteen times as large as usual", lambda i: {"kind": "normal", "a": 0, "b": r3(16 * scale(i))}),
            ("small", "a thousandth of the usual size", lambda i: {"kind": "normal", "a": 0, "b": r3(1e-3 * scale(i))}),
            ("rising", "values that grow along the last axis", lambda i: {"kind": "rising", "a": r3(8 * scale(i)), "b": r3(0.25 * scale(i)),
                                                                        "axis": rank(i) - 1}),
            ("outliers", "one line in a hundred is 30 times as large", lambda i: {"kind": "outliers", "a": r3(scale(i)), "b": 30, "axis": 0}),
            ("extreme_range", "many orders of magnitude", lambda i: {"kind": "spread", "a": r3(scale(i)), "b": 3}),
            ("peaked", "one element of each line along the last axis", lambda i: {"kind": "one_hot", "a": 0, "b": r3(16 * scale(i)),
                                                                                 "axis": rank(i) - 1}),
            ("equal_rows", "all rows equal", lambda i: {"kind": "same_rows", "a": 0, "b": r3(scale(i)), "axis": 0}),
            ("large_positive", "positive and sixteen times as large", lambda i: {"kind": "uniform", "a": 0, "b": r3(16 * scale(i))}),
            ("small_positive", "positive and a thousandth of the usual size", lambda i: {"kind": "uniform", "a": r3(1e-4 * scale(i)),
                                                                                     "b": r3(1e-3 * scale(i))}),
            ("offset", "a mean that is hundreds of deviations from zero", lambda i: {"kind": "normal", "a": r3(200 * scale(i)),
                                                                                    "b": r3(scale(i))}),
            ("near_equal", "values that hardly differ", lambda i: {"kind": "normal", "a": r3(scale(i)), "b": r3(0.01 * scale(i))}),
        ]
        cases.insert(2, cases.pop(next(k for k, case in enumerate(cases) if case[0] == "offset")))
        if self.unruled:
            # Of whole numbers that are no chosen indices, only the reference's are right, also where values are equal.
            cases = [case for case in cases if case[0] not in ("zeros", "identical", "equal_rows")]
        for name, about, make in cases:
            if len(found) >= (3 if self.slow else 8) or (sizes_late() and len(found) >= 3):
                break
            if "positive" in name and not any(positive):
                continue
            fills = {i.name: make(i) for i in targets}
            good = True
            for assignment in self.stress_shapes:
                try:
                    tensors = self.runner.draw(assignment, 1, fills)
                    exactly, given = self.runner.exact(tensors), self.runner.eager(tensors)
                    for e, g in zip(exactly, given):
                        if e.is_floating_point():
                            good = good and bool(e.isfinite().all()) and bool(g.isfinite().all()) and float(e.abs().max()) < 1e30
                            size = float(e.square().mean().sqrt())
                            good = good and float((g.double() - e).square().mean().sqrt()) <= 0.02 * size
                except Exception:
                    good = False
                if not good:
                    break
            if good:
                found.append((name, about, fills))
        return found

    def _example_dtype(self):
        floats = [i.dtype for i in self.inputs if i.floating]
        return {torch.bfloat16: "bf16", torch.float16: "f16"}.get(floats[0], "f32")

    def _sets(self):
        sizes = self.sizes
        quick, quick_holdout = sizes.for_cpu()
        example, neighbours, holdout = sizes.for_gpu(self.memory_factor)
        own = self._example_dtype() if self._example_dtype() in self.dtypes else "f32"
        lower = "bf16" if "bf16" in self.dtypes else own
        kinds = own if own == lower else f"[{own}, {lower}]"
        self.sets = [("cpu_quick", "a few milliseconds on two cores", "f32", quick)]
        taken = [sizes._key(w) for w in quick]
        quick_holdout = [w for w in quick_holdout if sizes._key(w) not in taken]
        if quick_holdout:
            self.sets.append(("cpu_holdout", "sizes that a cpu search uses only for confirmation", "f32", quick_holdout))
        self.sets.append(("example", "the sizes of the example", own, [example]))
        self.sets.append(("gpu", "the sizes of the example and neighbours of them", kinds, [example] + neighbours))
        if holdout:
            self.sets.append(("holdout", "sizes that a search uses only for confirmation", kinds, holdout))
            self.sets.append(("example_holdout", "the same in the dtype of the example", own, holdout))

    def input_dtype(self, item):
        return None if item.floating else DTYPES[item.dtype]

    def output_dtype(self, k):
        dtype = self.dims.output_dtypes[k]
        if dtype.is_floating_point:
            return None
        return DTYPES[dtype]

    def _cost(self):
        tensors = [(s, None if i.floating else ELEMENT[DTYPES[i.dtype]]) for i, s in zip(self.inputs, self.dims.shapes)]
        tensors += [(s, None if d.is_floating_point else ELEMENT[DTYPES[d]]) for s, d in zip(self.dims.outputs, self.dims.output_dtypes)]
        self.bytes = write.bytes_text(tensors)
        self.flops, self.rate = None, "time"
        self.intensity = None  # operations for each byte at the example's sizes, in f32
        if self.traced is not None and self.traced.flops not in ("", "0"):
            self.flops = self.traced.flops
            values = self.dims.values(self.dims.free)
            try:
                each = probe.evaluate(self.bytes, {**values, "element_bytes": 4})
                many = float(probe.evaluate(self.flops.replace("^", "**"), values)) / max(1, each)
                self.rate = "flops" if many > 16 else "bytes"
                self.intensity = float(f"{many:.3g}")
            except Exception:
                self.flops = None

    def _output_names(self):
        taken = {i.name for i in self.inputs} | set(self.dims.free) | set(self.dims.derived) | {d.name for d in self.more_dimensions}
        count = len(self.dims.outputs)
        self.output_names = []
        for k in range(count):
            if k < len(self.fields):
                base = self.fields[k]
            elif k in self.in_place:
                base = f"{self.in_place[k]}_out"
            elif self.traced is not None:
                base = self.traced.outputs[k].name
            else:
                base = ("y" if "y" not in taken and "Y" not in taken else "out_") if count == 1 else f"y{k}"
            named = self.traced is not None and base == self.traced.outputs[k].name and base not in taken
            name = base if named else identifier(base, taken)
            taken.add(name)
            self.output_names.append(name)
        if self.traced is not None:
            for output, name in zip(self.traced.outputs, self.output_names):
                output.name = name

    # Files

    def _seeds(self):
        folder = os.path.join(self.out, "seeds")
        os.makedirs(folder, exist_ok=True)
        self.seeds, why = [], self.no_trace
        if self.traced is not None:
            from . import seeds
            try:
                with shapes.limit(25):
                    why = self._derive(seeds, folder)
            except shapes.TooLong:
                why = "deriving them takes too long"
            except Exception as error:
                why = f"deriving them failed: {brief(error, 200)}"
        if not self.seeds:
            with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
                file.write(f"# Seeds of {self.name}\n\nNo kernel could be derived from the program: {why}.\n\nWrite the first one: `cultivar "
                           f"new seed {self.name}` writes a frame. It gets the inputs {', '.join(i.name for i in self.inputs)} and writes "
                           f"{', '.join(self.output_names)}; `reference.py` says what it computes.\n")
            self.to_check.append(f"there is no seed: {why}")
        self.not_compiled = ""
        if self.architecture:
            self.say("kernels that torch.compile generates")
            self._compiled_seeds(folder)

    def _compiled_seeds(self, folder):
        from .inductor import Inexpressible
        own = next(i.dtype for i in self.inputs if i.floating)
        own = own if own in (torch.bfloat16, torch.float16) else torch.float32

        def dtype(one):
            return str(own if one.is_floating_point else torch.uint8 if one == torch.bool else one)[6:]

        try:
            if self.in_place:
                raise Inexpressible("an output may have the memory of an input")
            from . import inductor_seed
            outputs = [(name, None if d.is_floating_point else dtype(d)) for name, d in zip(self.output_names, self.dims.output_dtypes)]
            sizes = self.dims.values(self.dims.free)
            timed = [self.dims.values(w) for name, _, _, many in self.sets if not name.startswith("cpu") for w in many]
            texts = inductor_seed.seeds_of(
                self.name, self.out, [(i.name, row, dtype(i.dtype)) for i, row in zip(self.inputs, self.dims.shapes)], outputs, sizes,
                str(own)[6:], timed,
                [*sizes, *(d.name for d in self.more_dimensions), *(i.name for i in self.inputs), *self.output_names], self.architecture)
            for file, text in texts.items():
                with open(os.path.join(folder, file), "w", encoding="utf-8") as opened:
                    opened.write(text)
                self.seeds.append(file)
        except Inexpressible as error:
            self.not_compiled = str(error)
        except Exception as error:
            self.not_compiled = f"reading them failed: {brief(error, 200)}"

    def _trace_for_seeds(self):
        """The program as the seeds' tracer sees it, with the dimensions of this import; adopts its names for outputs. Says why not."""
        self.traced = None
        try:
            from .trace import trace
        except ImportError:
            return "this version derives no seeds"
        try:
            tensors = self.runner.draw(self.middle, 1)
            hint = {i.name: list(row) for i, row in zip(self.inputs, self.dims.shapes)}
            with shapes.limit(25):
                traced = trace(self._load(), tensors, [i.name for i in self.inputs], hint)
        except shapes.TooLong:
            return "tracing its operations takes too long"
        except Exception as error:
            return f"its operations cannot be traced: {brief(error, 200)}"
        if len(traced.outputs) != len(self.dims.outputs):
            return "the trace has other outputs"
        for mine, its in zip(self.dims.shapes, traced.inputs):
            for a, (one, other) in enumerate(zip(mine, its.shape)):
                if isinstance(one, str) and one in self.dims.free and one != other:
                    return f"the trace fixes the size {one} of {its.name} (dynamic axes: {traced.dynamic})"
        renamed = {}
        for mine, its in zip(self.dims.outputs, traced.outputs):
            for one, other in zip(mine, its.shape):
                if isinstance(one, str) and isinstance(other, str) and one != other and one in self.dims.derived:
                    renamed[one] = other
        taken = set(self.dims.free) | {i.name for i in self.inputs}
        for one, other in renamed.items():
            if other in taken or list(renamed.values()).count(other) > 1:
                return f"the trace calls {one} {other}"
        self.dims.derived = {renamed.get(k, k): e for k, e in self.dims.derived.items()}
        self.dims.outputs = [[renamed.get(d, d) for d in row] for row in self.dims.outputs]
        self.dims.shapes = [[renamed.get(d, d) for d in row] for row in self.dims.shapes]
        known = set(self.dims.free) | set(self.dims.derived)
        for d in traced.dimensions:  # sizes that only the trace names
            if d.name not in known and d.default is not None:
                self.more_dimensions.append(d)
            elif d.name not in known:
                return f"the trace has a size {d.name} of its own"
        self.traced = traced
        return ""

    def _derive(self, seeds, folder):
        made = seeds.derive(self.traced, self.name, set(self.changed))
        for target, file, text in (("cpu", "naive.cpp", made.cpu), ("cuda", "cuda_naive.cu", made.cuda)):
            if text:
                with open(os.path.join(folder, file), "w", encoding="utf-8") as opened:
                    opened.write(text)
                self.seeds.append(file)
        return made.why

    def _write(self):
        doc = (self.source.program.__doc__ or "").strip().splitlines() if self.source.kind != "instance" else []
        doc = doc[0].strip().rstrip(".") if doc else ""
        what = "forward of the module" if self.subject.module is not None else "the function"
        mode = "" if self.subject.module is None or not self._mode_matters() else (
            ", in training mode" if self.subject.training else ", in evaluation mode")
        self.summary = f"{doc + ': ' if doc else ''}{what} {self.source.name} of model.py{mode}, as reference.py computes it"[:400]
        self._seeds()
        with open(os.path.join(self.out, "task.yaml"), "w", encoding="utf-8") as file:
            self.yaml = write.task_yaml(self)
            file.write(write.composed(self.yaml))
        if self.source.is_kernelbench:
            kernelbench_model.write(self)
        folder = os.path.join(self.out, "contenders")
        os.makedirs(folder, exist_ok=True)
        for name, compiled in (("torch_eager", False), ("torch_compile", True)):
            with open(os.path.join(folder, name + ".py"), "w", encoding="utf-8") as file:
                file.write(write.contender(self, compiled))
        shutil.rmtree(os.path.join(self.out, "__pycache__"), ignore_errors=True)

    def _mode_matters(self):
        kinds = (torch.nn.modules.batchnorm._NormBase, torch.nn.modules.dropout._DropoutNd)
        return any(isinstance(m, kinds) for m in self.subject.module.modules())

    def report(self):
        """What was assumed and what to check, in words."""
        subject = self.subject
        lines = [f"{self.name}: {self.source_name} is taken as {'a model' if subject.module is not None else 'a function'}"
                 + ("" if subject.module is None else f" ({'training' if subject.training else 'evaluation'} mode)") + "."]
        for item, shape in zip(self.inputs, self.dims.shapes):
            if len(self.inputs) <= 24 or item.origin == "example":
                what = "" if item.origin == "example" else f" ({item.origin} {item.path})"
                lines.append(f"  input {item.name} [{', '.join(map(str, shape))}]{what}: {write.fill_text(self.fills[item.name])}")
        if len(self.inputs) > 24:
            lines.append(f"  and {sum(i.origin != 'example' for i in self.inputs)} parameters and buffers as inputs")
        for name, shape, rows in zip(self.output_names, self.dims.outputs, self.rows_of):
            lines.append(f"  output {name} [{', '.join(map(str, shape))}], rows: [{', '.join(rows)}]")
        fixed = sorted({s for row in self.dims.shapes for s in row if isinstance(s, int) and s > 1})
        lines.append(f"Dimensions: {', '.join(f'{k} = {v}' for k, v in self.dims.free.items())}"
                     + (f"; fixed sizes: {', '.join(map(str, fixed[:12]))}" if fixed else "") + ".")
        relations = self.dims.relations()
        if relations:
            lines.append(f"Relations: {'; '.join(relations[:8])}{' ...' if len(relations) > 8 else ''}.")
        lines.append(f"Dtypes: {', '.join(self.dtypes)}. Mistakes tried: {self.mistakes_tried}; controls: {len(self.controls)}. "
                     f"An exact run of the smoke check takes {1e3 * self.sizes.middle_seconds:.1f} ms.")
        generated = " (triton_inductor: generated by torch.compile)" if "triton_inductor.py" in self.seeds else ""
        lines.append(f"Seeds: {', '.join(self.seeds) or 'none'}{generated}.")
        if self.not_compiled:
            lines.append(f"What torch.compile generates is no seed: {self.not_compiled}.")
        if self.assumed + subject.notes:
            lines += ["Assumed:"] + [f"  - {t}" for t in dict.fromkeys(self.assumed + subject.notes)]
        if self.to_check:
            lines += ["To check:"] + [f"  - {t}" for t in dict.fromkeys(self.to_check)]
        return "\n".join(lines)
