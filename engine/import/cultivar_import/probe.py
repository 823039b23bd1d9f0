# SPDX-License-Identifier: Apache-2.0
"""Runs the program on small inputs: whether it is a function of its inputs, which rows are separable, which mistakes show."""

import math
import os
import sys
import time
import warnings

import torch

from .refusal import Refusal, brief


class Constant(Refusal):
    """An output that does not vary at these sizes; it may at larger ones."""


try:
    from cultivar_reference import choices, modes
except ImportError:
    sys.path.append(os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "evaluators", "references",
                                                  "python")))
    from cultivar_reference import choices, modes  # noqa: F401

EPS = 2.0**-23
STATE = "{} gives other values in another call with the same inputs: it keeps state from call to call, or draws random numbers."
PURE = "Make it a function of its inputs (pass the state in, and return it)."


def drawn(fill, shape, dtype, generator, dims):
    """A tensor with the values of a fill of task.yaml (a dict)."""
    kind = fill["kind"]

    def number(key, default):
        value = fill.get(key, default)
        return float(evaluate(value, dims)) if isinstance(value, str) else float(value)

    if kind in ("integers", "permutation", "lengths", "offsets"):
        a = number("a", 0)
        if kind == "integers":
            low, high = int(a), max(int(a) + 1, int(number("b", 2)))
            return torch.randint(low, high, shape, generator=generator).to(dtype)
        axis = fill.get("axis", -1)
        if kind == "permutation":
            return (torch.rand(shape, generator=generator, dtype=torch.float64).argsort(axis) + int(a)).to(dtype)
        extent = shape[axis]
        steps = torch.rand(shape, generator=generator, dtype=torch.float64).sort(axis).values * number("b", 1)
        steps = steps.round()
        steps.select(axis, 0).zero_()
        steps.select(axis, extent - 1).fill_(number("b", 1))
        return (steps.diff(dim=axis, append=steps.select(axis, -1).unsqueeze(axis)) if kind == "lengths" else steps).to(dtype)
    a, b = number("a", 0.0), number("b", 1.0)
    normal = torch.randn(shape, generator=generator, dtype=torch.float32)
    axis = fill.get("axis", 0)
    rank = len(shape)
    axis = axis % rank if rank and isinstance(axis, int) else 0

    def along(values):  # one value for each index of axis
        view = [1] * rank
        if rank:
            view[axis] = shape[axis]
        return values.reshape(view) if rank else values.reshape(())

    if kind == "normal":
        values = a + b * normal
    elif kind == "uniform":
        values = a + (b - a) * torch.rand(shape, generator=generator)
    elif kind == "constant":
        values = torch.full(shape, a)
    elif kind == "spread":
        values = torch.sign(normal) * a * torch.exp((2 * torch.rand(shape, generator=generator) - 1) * b)
    elif kind == "rising":
        extent = shape[axis] if rank else 1
        values = b * normal + along(a * torch.arange(extent, dtype=torch.float32) / extent)
    elif kind in ("outliers", "hot"):
        values = a * normal
        extent = shape[axis] if rank else 1
        hot = torch.zeros(extent)
        hot[torch.randperm(extent, generator=generator)[: max(1, extent // 100)]] = 1
        values = torch.where(along(hot) > 0, values * b, values)
    elif kind == "one_hot":
        values = torch.full(shape, a)
        if rank:
            index = torch.rand(shape, generator=generator).argmax(axis, keepdim=True)
            values.scatter_(axis, index, b)
    elif kind == "same_rows":
        row = list(shape)
        if rank:
            row[axis] = 1
        values = (a + b * torch.randn(row, generator=generator)).expand(shape).contiguous()
    else:
        raise ValueError(kind)
    return values.to(dtype)


def evaluate(text, dims):
    return eval(text, {"__builtins__": {}, "sqrt": math.sqrt, "floor_div": lambda a, b: a // b, "max": max, "min": min, "abs": abs,
                       "ceil_div": lambda a, b: -(-a // b)}, dims)


class Runner:
    """compute of the task folder, at sizes of its dimensions."""

    def __init__(self, compute, inputs, dims, fills):
        self.compute, self.inputs, self.dims, self.fills = compute, inputs, dims, fills

    def shapes(self, assignment):
        values = self.dims.values(assignment)
        return [self.dims.concrete(s, values) for s in self.dims.shapes]

    def draw(self, assignment, seed=1, fills=None, dtype=torch.float32, only=None, shapes=None):
        values = self.dims.values(assignment)
        tensors = []
        for k, (item, shape) in enumerate(zip(self.inputs, shapes or self.shapes(assignment))):
            fill = (fills or {}).get(item.name) or self.fills[item.name]
            own = torch.Generator().manual_seed(seed * 7919 + k + (104729 if only is not None and only == item.name else 0))
            kind = dtype if item.floating else (torch.uint8 if item.dtype == torch.bool else item.dtype)
            tensors.append(drawn(fill, shape, kind, own, values))
        return tensors

    def exact(self, tensors):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return modes.exact(self.compute, tensors)

    def eager(self, tensors):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return modes.eager(self.compute, tensors)

    def rounded(self, tensors, exactly, dtype=torch.float32):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return modes.rounded(self.compute, tensors, dtype, exactly=exactly)

    def valid(self, assignment, seed=1, accurate=True, forced=False):
        """Seconds of an exact run, or None if the program fails at this size or its values are bad there. Sets self.why."""
        self.why = None
        if not forced and not self.dims.holds(assignment):
            self.why = "its sizes do not satisfy the relations"
            return None
        try:
            values = self.dims.values(assignment)
            tensors = self.draw(assignment, seed)
            begin = time.process_time()
            exactly = self.exact(tensors)
            spent = time.process_time() - begin
            if spent < 0.01:
                begin = time.process_time()
                exactly = self.exact(tensors)
                spent = min(spent, time.process_time() - begin)
            if [tuple(t.shape) for t in exactly] != [self.dims.concrete(s, values) for s in self.dims.outputs]:
                self.why = f"its outputs have the shapes {[tuple(t.shape) for t in exactly]}"
                return None
            if any(t.numel() == 0 for t in exactly):
                self.why = "an output is empty"
                return None
            if any(t.is_floating_point() and not bool(t.isfinite().all()) for t in exactly):
                self.why = "infinite"
                return None
            if accurate:
                given = self.eager(tensors)
                for g, e in zip(given, exactly):
                    if e.is_floating_point() and e.numel():
                        if not bool(g.isfinite().all()):
                            self.why = "infinite in f32"
                            return None
                        size = float(e.square().mean().sqrt())
                        error = float((g.double() - e).square().mean().sqrt())
                        if size > 0 and error > 2e-3 * size:
                            if any(not torch.equal(a, b) for a, b in zip(exactly, self.exact(tensors)) if a.isfinite().all()):
                                raise Refusal(STATE.format("The program"), PURE)
                            self.why = f"inaccurate: in f32 it differs from f64 by {error / size:.0e}"
                            return None
            return spent
        except (RuntimeError, ValueError, IndexError, AssertionError, TypeError, AttributeError, ZeroDivisionError, OverflowError,
                NotImplementedError, KeyError) as error:
            if isinstance(error, modes.DrawsRandomNumbers):
                raise
            self.why = brief(error)
            return None


def distance(one, other):
    """The greatest difference of outputs, relative to their RMS."""
    worst = 0.0
    for a, b in zip(one, other):
        if a.shape != b.shape:
            return math.inf
        if not a.numel():
            continue
        a, b = a.double(), b.double()
        size = float(torch.maximum(a.square().mean(), b.square().mean()).sqrt())
        difference = float((a - b).abs().nan_to_num(nan=math.inf).max())
        worst = max(worst, difference / size if size > 0 else (math.inf if difference else 0.0))
    return worst


def check_fresh(runner, assignments, name, fresh):
    """Refuses a program that has become another one by its calls: `fresh`, the same program loaded anew, gives other values. A value
    that it keeps from the first call with a shape is found by this."""
    for seed, assignment in enumerate(assignments, 31):
        tensors = runner.draw(assignment, seed)
        if not _equal(runner.exact(tensors), modes.exact(fresh, tensors)):
            raise Refusal(STATE.format(name), PURE)


def _equal(one, other):
    return all(torch.equal(a, b) or (a.isnan() & b.isnan()).any() for a, b in zip(one, other))


def check_function(runner, assignment, name, fresh):
    """Refuses what is no function of its inputs. Returns the exact outputs of some draws. `fresh`: as check_fresh has it."""
    tensors = runner.draw(assignment, 1)
    try:
        kept = [t.clone() for t in tensors]
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = runner.compute(*tensors)
    except Exception:
        given = None
    if given is not None:
        for item, before, after in zip(runner.inputs, kept, tensors):
            if not torch.equal(before, after):
                if item.origin != "example":
                    raise Refusal(f"{name} changes its {item.origin} {item.path}: it keeps state from call to call.", PURE)
                raise Refusal(f"{name} changes its input {item.name} in a way that cannot be seen by its trace.",
                              "Change it without .data and detach(), or compute a new tensor and return it.")
        flat = torch.utils._pytree.tree_leaves(given)
        if not any(isinstance(t, torch.Tensor) for t in flat):
            raise Refusal(f"{name} returns a {type(given).__name__}, not a tensor.", "Return a tensor or a tuple of tensors.")
        other = [t for t in flat if not isinstance(t, torch.Tensor) and t is not None]
        if other:
            raise Refusal(f"{name} returns a {type(other[0]).__name__} beside its tensors.", "Return tensors only.")
        for t in flat:
            if isinstance(t, torch.Tensor) and t.is_complex():
                raise Refusal(f"{name} returns complex numbers, which tasks do not have.", "Return real and imaginary parts.")
    first = runner.exact(tensors)
    state = torch.random.get_rng_state()
    again = runner.exact(tensors)
    if not torch.equal(state, torch.random.get_rng_state()):
        raise Refusal(f"{name} draws random numbers.", "Make it a function of its inputs.")
    runs = [first]
    for seed in (2, 3, 4):
        runs.append(runner.exact(runner.draw(assignment, seed)))
    last = runner.exact(tensors)
    for other in (again, last):
        if not _equal(first, other):
            raise Refusal(STATE.format(name), PURE)
    check_fresh(runner, [assignment], name, fresh)
    for k in range(len(first)):
        if not first[k].is_floating_point():
            if all(torch.equal(first[k], r[k]) for r in runs[1:]):
                raise Constant(f"Output {k} of {name} is the same for different random inputs.", "Return what depends on the inputs.")
            continue
        if not all(bool(r[k].isfinite().all()) for r in runs):
            raise Refusal(f"Output {k} of {name} is not finite in f64.", "Give example inputs for which it is.")
        stacked = torch.stack([r[k] for r in runs])
        mean = stacked.mean(0)
        size = float(stacked.square().mean().sqrt())
        spread = float((stacked - mean).square().mean().sqrt())
        if size == 0 or spread <= 1e-12 * size:
            value = "zero" if size == 0 else "the same"
            raise Constant(f"Output {k} of {name} is constant: it is {value} whatever the inputs are.",
                          "A kernel that computes nothing would be right; change the program or its example inputs.")
        if size < 1e-9:
            raise Constant(f"Output {k} of {name} is zero up to rounding (at most {size:.0e}).",
                          "A kernel that computes nothing would be right; change the program or its example inputs.")
        if spread < 1e-3 * size:
            raise Constant(f"Output {k} of {name} is nearly constant: over different random inputs it varies by {spread / size:.1e} "
                          "of its value.", "Choose example inputs that let it vary, or return the part that varies.")
    return runs


def check_alive(runner, assignment, draws, name):
    """Refuses a program whose output some draws of the parameters make constant."""
    examples = [i.origin == "example" for i in runner.inputs]
    if all(examples):
        return
    dead = 0
    for seed in range(20, 20 + draws):
        tensors, other = runner.draw(assignment, seed), runner.draw(assignment, seed + 100)
        first = runner.exact(tensors)
        second = runner.exact([o if e else t for t, o, e in zip(tensors, other, examples)])
        dead += all(torch.equal(a, b) for a, b in zip(first, second))
    if dead:
        raise Constant(f"The output of {name} is constant for {dead} of {draws} random parameters: then it is the same whatever the "
                       "inputs are.", "A kernel that computes nothing would be right; change the program or its parameters.")


def _flat_directions(runner, tensors):
    """Places of the inputs along which the gradient is almost zero, or whole numbers; None if there is no gradient."""
    try:
        with warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")
            leaves = [t.double().requires_grad_(True) if t.is_floating_point() else t for t in tensors]
            results = [r for r in torch.utils._pytree.tree_leaves(runner.compute(*[t * 1 if t.is_floating_point() else t for t in leaves]))
                       if r.is_floating_point() and r.requires_grad]
            generator = torch.Generator().manual_seed(3)
            total = sum((r * torch.randn(r.shape, generator=generator, dtype=torch.float64)).sum() / max(1e-30, float(r.detach().square().sum().sqrt()))
                        for r in results)
            floating = [t for t in leaves if t.is_floating_point()]
            gradients = dict(zip((id(t) for t in floating), torch.autograd.grad(total, floating, allow_unused=True)))
    except Exception:
        return None
    flat = set()
    for k, t in enumerate(leaves):
        g = gradients.get(id(t))
        if g is None or not bool(g.isfinite().all()) or float((g * t.detach()).abs().sum()) < 1e-7:
            flat.add(k)
    return flat


def without_influence(runner, assignment):
    """Names of the inputs on which no output depends."""
    tensors = runner.draw(assignment, 1)
    first = runner.exact(tensors)
    idle, flat = [], _flat_directions(runner, tensors)
    for k, item in enumerate(runner.inputs):
        if flat is not None and k not in flat:
            continue
        other = runner.draw(assignment, 1, only=item.name)
        changed = list(tensors)
        changed[k] = other[k]
        try:
            if distance(first, runner.exact(changed)) <= 1e-9:
                changed[k] = runner.draw(assignment, 5, only=item.name)[k]
                if distance(first, runner.exact(changed)) <= 1e-9:
                    idle.append(item.name)
        except (RuntimeError, IndexError):
            pass
    return idle


def separable(runner, assignment):
    """For each output the leading dimensions of which a slice of the inputs gives the slice of the output."""
    tensors = runner.draw(assignment, 1)
    whole = runner.exact(tensors)
    found = []
    for k, shape in enumerate(runner.dims.outputs):
        rows = []
        for axis, name in enumerate(shape):
            if not isinstance(name, str) or name not in runner.dims.free or shape.count(name) > 1 or (axis + 1 == len(shape) > 1):
                break
            if any(s.count(name) > 1 for s in runner.dims.shapes) or not any(name in s for s in runner.dims.shapes):
                break
            extent = assignment[name]
            good = extent > 1
            for chosen in ([0], [extent - 1], [extent // 2, max(0, extent // 2 - 1)]):
                index = torch.tensor(sorted(set(chosen)))
                part = [t.index_select(s.index(name), index) if name in s else t for t, s in zip(tensors, runner.dims.shapes)]
                try:
                    result = runner.exact(part)
                    want = whole[k].index_select(axis, index)
                    good = good and result[k].shape == want.shape and distance([result[k]], [want]) <= 1e-9
                except Exception:
                    good = False
                if not good:
                    break
            if not good:
                break
            rows.append(name)
        found.append(rows)
    return found


def permitted(runner, tensors, right):
    """For each of the exact outputs the greatest difference that a kernel may have on these inputs."""
    limits = []
    for rounded, exact in zip(runner.rounded(tensors, right), right):
        if not exact.is_floating_point() or not exact.numel():
            limits.append(0.0)
            continue
        error = float((rounded - exact).abs().nan_to_num(nan=0.0, posinf=0.0).max())
        limits.append(2 * max(error, float(exact.abs().max()) * EPS / 2) + 64 * EPS * float(exact.square().mean().sqrt()))
    return limits


def mistakes(runner, assignments, seconds=6.0):
    """(the Mistakes that are told apart on the first assignment and can be made on all, [(Mistake, why)] that are not told apart on any, how many were tried)."""
    begin = time.process_time()
    tensors = runner.draw(assignments[0], 1)
    exactly = runner.exact(tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = modes.mutants(runner.compute, tensors)
    step = max(1, math.ceil(len(every) * 1.0 / 160))
    every = every[::step] if step > 1 else every
    cases = [(tensors, exactly)]
    told, missed = [], []
    known = [permitted(runner, *c) for c in cases]
    others = [runner.draw(assignment, 1) for assignment in assignments[1:]]

    def possible(mistake, given):
        """Whether it can be made there: two sizes that are equal by chance let an operation be left out whose result has another shape."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                modes.mutant(runner.compute, given, mistake.name)
        except LookupError:
            return False
        except (RuntimeError, IndexError, ValueError, TypeError):
            pass
        return True

    for mistake in every:
        if time.process_time() - begin > seconds and told:
            break
        verdicts = []
        for k in range(5):
            if k >= len(assignments) and time.process_time() - begin > seconds:
                break
            if k >= len(cases):
                try:
                    assignment = assignments[min(k, len(assignments) - 1)]
                    more = runner.draw(assignment, 10 + k)
                    if k == 3:  # larger values reach clamps and tails
                        more = [t * 8 if t.is_floating_point() else t for t in more]
                    if k == 4:  # smaller ones reach what is added against a division by zero
                        more = [t * 1e-3 if i.floating and i.origin == "example" else t for t, i in zip(more, runner.inputs)]
                    cases.append((more, runner.exact(more)))
                    known.append(permitted(runner, *cases[-1]))
                except Exception:
                    break
            given, right = cases[k]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    wrong = modes.mutant(runner.compute, given, mistake.name)
            except (LookupError, RuntimeError, IndexError, ValueError, TypeError):
                verdicts.append("impossible")
                continue
            error = [float((a.double() - b.double()).abs().nan_to_num(nan=math.inf).max()) if a.shape == b.shape and a.numel() else (
                0.0 if a.shape == b.shape else math.inf) for a, b in zip(wrong, right)]
            if any(e > 2 * limit for e, limit in zip(error, known[k])):
                verdicts.append("told")
                break
            apart = distance(wrong, right)
            verdicts.append("equal" if apart <= 1e-9 else "tiny" if apart <= 1e-4 else "hidden")
        if verdicts and verdicts[0] == "told":
            if all(possible(mistake, other) for other in others):
                told.append(mistake)
        elif "told" not in verdicts:
            missed.append((mistake, next((v for v in ("hidden", "tiny") if v in verdicts), "equal")))
    return told, missed, len(every)


def dtypes_of(runner, assignment):
    """Which lower-precision dtypes the program runs in, beside f32."""
    found = ["f32"]
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        try:
            tensors = runner.draw(assignment, 1, dtype=dtype)
            given = runner.eager(tensors)
            if all(bool(t.isfinite().all()) for t in given if t.is_floating_point()):
                found.append(name)
        except Exception:
            continue
    return found
