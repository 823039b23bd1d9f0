# SPDX-License-Identifier: Apache-2.0
"""Dimensions: which sizes of the inputs are tied, which are fixed, and how the sizes of the outputs follow from them."""

import signal
import warnings

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy import functions as special

from .subject import identifier


class TooLong(Exception):
    pass


class limit:
    """Raises TooLong when a block takes more than some seconds of processor time."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def ring(*_):
            raise TooLong()
        self.before = signal.signal(signal.SIGPROF, ring)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self.before)
        return False


def leaves(result):
    return [r for r in torch.utils._pytree.tree_leaves(result) if isinstance(r, torch.Tensor)]


def fake_run(compute, inputs, shapes):
    """The shapes and dtypes of the outputs for other shapes of the inputs; raises what the program raises."""
    with FakeTensorMode(allow_non_fake_inputs=True), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        tensors = [torch.empty(shape, dtype=torch.uint8 if i.dtype == torch.bool else i.dtype)
                   for i, shape in zip(inputs, shapes)]
        return [(tuple(int(s) for s in r.shape), r.dtype) for r in leaves(compute(*tensors))]


real_first = False  # for recurrent modules: shapes without values take them longer than values


def _real_run(compute, inputs, shapes):
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        tensors = [(torch.ones if i.floating else torch.zeros)(tuple(s), dtype=torch.uint8 if i.dtype == torch.bool else i.dtype)
                   for i, s in zip(inputs, shapes)]
        return [(tuple(int(n) for n in r.shape), r.dtype) for r in leaves(compute(*tensors))]


def run_shapes(compute, inputs, shapes, real=20_000_000):
    """As fake_run; on real values where the program looks at them."""
    small = sum(torch.Size(s).numel() for s in shapes) <= real
    if real_first and small:
        return _real_run(compute, inputs, shapes)
    try:
        return fake_run(compute, inputs, shapes)
    except Exception as error:
        if not small or "DynamicOutputShape" in type(error).__name__:
            raise
        return _real_run(compute, inputs, shapes)


def text_of(e):
    """A sympy expression in the language of task.yaml."""
    if e.is_Symbol:
        return e.name
    if e.is_Integer:
        return str(int(e)) if e >= 0 else f"({int(e)})"
    if isinstance(e, (special.FloorDiv,)) or type(e).__name__ in ("FloorDiv", "CleanDiv"):
        return f"floor_div({text_of(e.args[0])}, {text_of(e.args[1])})"
    if type(e).__name__ in ("Mod", "PythonMod"):
        return f"(({text_of(e.args[0])}) % ({text_of(e.args[1])}))"
    if type(e).__name__ in ("Max", "Min"):
        name = type(e).__name__.lower()
        return f"{name}({', '.join(text_of(a) for a in e.args)})"
    if e.is_Add:
        terms = sorted(e.args, key=lambda a: (a.is_number, str(a)))
        text = text_of(terms[0])
        for t in terms[1:]:
            if t.is_Integer and t < 0:
                text += f" - {-int(t)}"
            elif t.is_Mul and t.args[0].is_Integer and t.args[0] < 0:
                text += f" - {text_of(-t)}"
            else:
                text += f" + {text_of(t)}"
        return text
    if e.is_Mul:
        return " * ".join(f"({text_of(a)})" if a.is_Add else text_of(a) for a in sorted(e.args, key=lambda a: (not a.is_number, str(a))))
    if e.is_Pow and e.exp.is_Integer and e.exp > 0:
        base = f"({text_of(e.base)})" if not e.base.is_Symbol else text_of(e.base)
        return " * ".join([base] * int(e.exp))
    raise ValueError(f"{type(e).__name__} has no form in task.yaml")


def at(expression, assignment):
    """An expression or relation with numbers for its dimensions; None where it has no value there."""
    try:
        return expression.xreplace({sympy.Symbol(k, integer=True, positive=True): sympy.Integer(v) for k, v in assignment.items()})
    except (AssertionError, ZeroDivisionError, ValueError, TypeError):
        return None


def true_at(relation, assignment):
    return at(relation, assignment) in (sympy.true, True)


class Dimensions:
    """names: free dimensions with their example values, in order; derived: {name: expression}; `shapes` and `outputs`: for each
    tensor a list of names and numbers; `hard`: relations (sympy) that must hold."""

    def __init__(self):
        self.free, self.derived, self.hard, self.about = {}, {}, [], {}
        self.shapes, self.outputs, self.output_dtypes = [], [], []
        self.notes = []

    def values(self, assignment):
        """All dimensions, from those of the free ones."""
        all_values = dict(assignment)
        for name, expression in self.derived.items():
            value = at(expression, assignment)
            if value is None or not value.is_Integer:
                raise ValueError(f"{name} has no value")
            all_values[name] = int(value)
        return all_values

    def holds(self, assignment):
        if not all(true_at(relation, assignment) for relation in self.hard):
            return False
        try:
            return all(v >= 1 for v in self.values(assignment).values())
        except (TypeError, ValueError):
            return False

    def merge(self, kept, gone):
        """One dimension instead of two."""
        symbols = {sympy.Symbol(gone, integer=True, positive=True): sympy.Symbol(kept, integer=True, positive=True)}
        swap = lambda row: [kept if d == gone else d for d in row]
        self.shapes, self.outputs = [swap(r) for r in self.shapes], [swap(r) for r in self.outputs]
        self.derived = {k: e.xreplace(symbols) for k, e in self.derived.items()}
        self.hard = [h for h in (r.xreplace(symbols) for r in self.hard) if h not in (sympy.true, True)]
        del self.free[gone]
        self.about[kept] += ", " + self.about.pop(gone)

    def concrete(self, shape, values):
        return tuple(d if isinstance(d, int) else values[d] for d in shape)

    def relations(self):
        """The texts of `where`."""
        texts = []
        for name, expression in self.derived.items():
            texts.append(f"{name} == {text_of(expression)}")
        for relation in self.hard:
            left, right = relation.args
            texts.append(f"{text_of(left)} {'==' if isinstance(relation, sympy.Eq) else relation.rel_op} {text_of(right)}")
        return texts


_CONVENTION = {1: ["N"], 2: ["R", "C"], 3: ["B", "T", "C"], 4: ["B", "C", "H", "W"], 5: ["B", "C", "D", "H", "W"]}


def analyse(compute, inputs, numbers, seconds=20):
    """Traces with a symbol for each size. Raises what the program raises under symbolic sizes."""
    if sum(i.origin != "example" for i in inputs) <= 340:
        try:
            return _analyse(compute, inputs, numbers, seconds, False)
        except TooLong:
            pass
        except Exception:
            if len(inputs) < 100:
                raise
    return _analyse(compute, inputs, numbers, seconds, True)


def _analyse(compute, inputs, numbers, seconds, fixed):
    """`fixed`: parameters keep their sizes."""
    env = ShapeEnv(duck_shape=False)
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    parameters = [i for i in inputs if i.origin != "example"]
    together = sum(len(i.shape) for i in parameters) > 24  # a network: equal widths are one dimension
    shared, symbols, tensors = {}, [], []
    with limit(seconds), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for k, item in enumerate(inputs):
            row = []
            for axis, extent in enumerate(item.shape):
                if extent <= 1 or axis in item.fixed or (fixed and item.origin != "example"):
                    row.append(extent)
                    continue
                if together and item.origin != "example" and extent in shared:
                    row.append(shared[extent])
                    continue
                source = ConstantSource(f"s_{k}_{axis}")
                symbol = env.create_symbol(extent, source, dynamic_dim=DimDynamic.DYNAMIC)
                node = env.create_symintnode(symbol, hint=extent, source=source)
                if together and item.origin != "example":
                    shared[extent] = node
                row.append(node)
            symbols.append(row)
            with mode:
                tensors.append(torch.empty(row, dtype=torch.uint8 if item.dtype == torch.bool else item.dtype))
        with mode:
            results = leaves(compute(*tensors))

        def expression(size):
            if isinstance(size, int):
                return sympy.Integer(size)
            return env.simplify(env.replace(size.node.expr))

        ins = [[expression(s) for s in row] for row in symbols]
        outs = [[expression(s) for s in r.shape] for r in results]
        guards = [env.simplify(env.replace(g.expr)) for g in env.guards]
        given = _solved(guards)
        ins = [[e.xreplace(given) for e in row] for row in ins]
        outs = [[e.xreplace(given) for e in row] for row in outs]
        hard = []
        for guard in guards:
            guard = guard.xreplace(given)
            if isinstance(guard, sympy.Eq) and guard.free_symbols and guard not in hard:
                hard.append(guard)
    if not fixed and any(e.is_Integer and s > 1 for i, row in zip(inputs, ins) if i.origin == "example" for e, s in zip(row, i.shape)):
        made = relax(compute, inputs, numbers, ins, outs, hard)
    else:
        made = _named(inputs, ins, outs, hard, numbers)
    made.output_dtypes = [r.dtype for r in results]
    return made


def _solved(guards):
    """Substitutions from equations in which one side is a plain symbol."""
    given = {}
    for guard in guards:
        if not isinstance(guard, sympy.Eq):
            continue
        guard = guard.xreplace(given) if given else guard
        if not isinstance(guard, sympy.Eq):
            continue
        for one, other in (guard.args, guard.args[::-1]):
            if one.is_Symbol and one not in other.free_symbols:
                given = {k: v.xreplace({one: other}) for k, v in given.items()}
                given[one] = other
                break
    return given


def _named(inputs, ins, outs, hard, numbers):
    example = {e: item.shape[a] for item, row in zip(inputs, ins) for a, e in enumerate(row) if e.is_Symbol}
    fixed = {}
    for relation in hard:  # an equation in one size alone: the example's size is kept
        left = relation.args
        if len(relation.free_symbols) == 1 and not (sympy.Integer(0) in left and any(type(a).__name__ in ("Mod", "PythonMod") for a in left)):
            symbol = next(iter(relation.free_symbols))
            if symbol in example:
                fixed[symbol] = sympy.Integer(example[symbol])
    given = {e for item, row in zip(inputs, ins) if item.origin == "example" for e in row if e.is_Symbol}
    for relation in hard:  # as many channels as groups, a constant: a multiple of them would be another program
        symbol = next(iter(relation.free_symbols)) if len(relation.free_symbols) == 1 else None
        if symbol in example and symbol not in given and any(
                type(a).__name__ in ("Mod", "PythonMod") and a.args == (symbol, sympy.Integer(example[symbol])) for a in relation.args):
            fixed[symbol] = sympy.Integer(example[symbol])
    if fixed:
        ins = [[e.xreplace(fixed) for e in row] for row in ins]
        outs = [[e.xreplace(fixed) for e in row] for row in outs]
        hard = [h for h in (g.xreplace(fixed) for g in hard) if h not in (sympy.true, True, sympy.false)]
    if not any(e.is_Symbol for row in ins for e in row):  # a task has at least one dimension
        for item, row in zip(inputs, ins):
            if row:
                only = sympy.Symbol("only", integer=True, positive=True)
                hard = [sympy.Eq(only, item.shape[0], evaluate=False)]
                row[0] = only
                break
        else:
            raise ValueError("no input has a size")
    result = Dimensions()
    example, labels, places = {}, {}, {}
    for item, row in zip(inputs, ins):
        for axis, e in enumerate(row):
            if e.is_Symbol:
                example.setdefault(e, item.shape[axis])
                labels.setdefault(e, []).append(item.labels[axis])
                places.setdefault(e, []).append((item, axis))
    for e in {s for row in outs for o in row for s in o.free_symbols} | {s for g in hard for s in g.free_symbols}:
        if e not in example:
            raise ValueError(f"a size depends on {e}, which no input has")
    taken = {i.name for i in inputs}
    names = {}
    for symbol in example:
        name = next((c for c in labels[symbol] if c), None)
        if name is None and numbers.get(example[symbol]) not in taken:
            name = numbers.get(example[symbol])
        if name is None:
            item, axis = places[symbol][0]
            if item.origin == "example":
                convention = _CONVENTION.get(len(item.shape))
                name = convention[axis] if convention else f"D{axis}"
            else:
                name = f"C{example[symbol]}" if len(example) > 8 else ("O" if axis == 0 else "K")
        name = identifier(name, taken)
        taken.add(name)
        names[symbol] = name
    clean = {s: sympy.Symbol(n, integer=True, positive=True) for s, n in names.items()}
    result.free = {names[s]: v for s, v in example.items()}
    result.about = {names[s]: _about(places[s]) for s in example}
    hard = [g.xreplace(clean) for g in hard]
    result.hard = _needed(hard, result)
    ins = [[e.xreplace(clean) for e in row] for row in ins]
    outs = [[e.xreplace(clean) for e in row] for row in outs]
    samples = result_samples(result)
    made = {}

    def entry(e, name):
        if e.is_Integer:
            return int(e)
        if e.is_Symbol:
            return e.name
        e = _simpler(e, result, samples)
        if e.is_Symbol:
            return e.name
        if e not in made:
            text_of(e)
            label = identifier(name, taken)
            taken.add(label)
            made[e] = label
            result.derived[label] = e
        return made[e]

    for item, row in zip(inputs, ins):
        result.shapes.append([entry(e, item.labels[a] or f"{item.name}_{a}") for a, e in enumerate(row)])
    for k, row in enumerate(outs):
        convention = _CONVENTION.get(len(row)) or [f"D{a}" for a in range(len(row))]
        result.outputs.append([entry(e, f"{convention[a]}_out") for a, e in enumerate(row)])
    return result


def _about(places):
    words = []
    for item, axis in places[:3]:
        words.append(f"axis {axis} of {item.name}")
    if len(places) > 3:
        words.append(f"and {len(places) - 3} more")
    return ", ".join(words)


def result_samples(result, count=6):
    """Some assignments of the free dimensions that satisfy the relations."""
    import random
    chance = random.Random(1)
    base = dict(result.free)
    found = [base]
    related = {s.name for h in result.hard for s in h.free_symbols}
    for _ in range(200):
        if len(found) > count:
            break
        trial = {k: (v * chance.choice([1, 2, 3, 5]) if k in related else v + chance.randint(1, 2 * v + 7)) for k, v in base.items()}
        if all(true_at(h, trial) for h in result.hard):
            found.append(trial)
    return found


def _simpler(e, result, samples):
    """The dimension that an expression always equals, where there is one."""
    for name in result.free:
        if all(_at(e, s) == s[name] for s in samples) and len(samples) > 2:
            return sympy.Symbol(name, integer=True, positive=True)
    return e


def _at(e, assignment):
    value = at(e, assignment)
    return int(value) if value is not None and value.is_Integer else None


def _needed(hard, result):
    """Relations that do not follow from simpler ones (tried with numbers)."""
    import random
    hard = sorted(set(hard), key=lambda g: (len(g.free_symbols), len(str(g))))
    kept = []
    chance = random.Random(2)
    for relation in hard:
        try:
            text_of(relation.args[0]), text_of(relation.args[1])
        except ValueError:
            continue
        names = sorted({s.name for g in kept + [relation] for s in g.free_symbols})
        follows, tried = True, 0
        for _ in range(400):
            trial = {n: result.free[n] * chance.randint(1, 5) if chance.random() < 0.5 else chance.randint(2, 97) for n in names}
            if all(true_at(k, trial) for k in kept):
                tried += 1
                if not true_at(relation, trial):
                    follows = False
                    break
                if tried >= 24:
                    break
        if not follows or not tried:
            kept.append(relation)
    return kept


def fixed_dimensions(compute, inputs, numbers):
    """Without symbols: every size is the example's, except sizes of examples that may change alone or together."""
    base = [list(i.shape) for i in inputs]
    outputs = run_shapes(compute, inputs, base)
    ins = [[sympy.Integer(v) for v in row] for row in base]
    outs = [[sympy.Integer(v) for v in shape] for shape, _ in outputs]
    made = relax(compute, inputs, numbers, ins, outs, [])
    made.output_dtypes = [d for _, d in outputs]
    return made


def relax(compute, inputs, numbers, ins, outs, hard):
    """Tries which constant sizes of examples may change after all, alone or with others of the same value."""
    base = [list(i.shape) for i in inputs]
    groups = {}
    for k, item in enumerate(inputs):
        if item.origin == "example":
            for axis, extent in enumerate(item.shape):
                if extent > 1 and len(ins[k]) and ins[k][axis].is_Integer:
                    groups.setdefault(extent, []).append((k, axis))
    reference = [s for s, _ in run_shapes(compute, inputs, base)]
    count = 0
    for extent, places in groups.items():
        trials = [[p] for p in places] + ([places] if len(places) > 1 else [])
        done = set()
        for trial in trials:
            if any(p in done for p in trial):
                continue
            patterns = []
            try:
                for other in (max(2, extent // 2), extent + 1 if extent < 32 else 3):
                    shapes = [list(row) for row in base]
                    for k, axis in trial:
                        shapes[k][axis] = other
                    patterns.append((other, [s for s, _ in run_shapes(compute, inputs, shapes)]))
            except TooLong:
                raise
            except Exception:
                continue
            symbol, changes, fits = sympy.Symbol(f"r{count}", integer=True, positive=True), [], True
            for o, shape in enumerate(reference):
                for axis, size in enumerate(shape):
                    got = [p[o][axis] if len(p[o]) == len(shape) else None for _, p in patterns]
                    if all(g == size for g in got):
                        continue
                    if outs[o][axis].is_Integer and all(g == other for g, (other, _) in zip(got, patterns)):
                        changes.append((o, axis))
                    else:
                        fits = False
            if fits:
                count += 1
                done.update(trial)
                for k, axis in trial:
                    ins[k][axis] = symbol
                for o, axis in changes:
                    outs[o][axis] = symbol
                if real_first:  # the following trials take less time with a small size
                    for k, axis in trial:
                        base[k][axis] = 2
                    reference = [s for s, _ in run_shapes(compute, inputs, base)]
    return _named(inputs, ins, outs, hard, numbers)
