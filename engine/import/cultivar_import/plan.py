# SPDX-License-Identifier: Apache-2.0
"""Chooses the sizes of checks and workloads within the relations of the dimensions."""

import random
import time

import sympy
import torch

from .refusal import Refusal, brief
from .shapes import run_shapes, true_at

ODD = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 53, 61, 67, 79, 97, 113, 127, 131, 149, 163, 193, 211, 257, 331, 389, 509, 521]


class Sizes:
    def __init__(self, runner, seconds=12.0):
        self.runner, self.dims = runner, runner.dims
        self.example = dict(runner.dims.free)
        self.chance = random.Random(7)
        self.end = time.process_time() + seconds

    def late(self):
        return time.process_time() > self.end

    def fit(self, wished):
        """The nearest sizes that satisfy the relations, or None."""
        wished = {k: max(1, int(v)) for k, v in wished.items()}
        if self.dims.holds(wished):
            return wished
        for _ in range(6):
            broken = next((r for r in self.dims.hard if not self._holds(r, wished)), None)
            if broken is None:
                break
            names = sorted(s.name for s in broken.free_symbols)
            best = None
            for name in names:
                before = wished[name]
                tried = [before + d for d in range(1, 65)] + [before - d for d in range(1, 65)] + [
                    before * f for f in (2, 3, 4, 8)] + [self.example[name]]
                for value in tried:
                    if value >= 1 and self._holds(broken, {**wished, name: value}):
                        if best is None or abs(value - before) < best[0]:
                            best = (abs(value - before), name, value)
                        break
            if best is None:
                for name in names:
                    wished[name] = self.example[name]
            else:
                wished[best[1]] = best[2]
        return wished if self.dims.holds(wished) else None

    def _holds(self, relation, assignment):
        return true_at(relation, assignment)

    def elements(self, assignment):
        values = self.dims.values(assignment)
        total = 0
        for shape in self.dims.shapes + self.dims.outputs:
            total += torch.Size(self.dims.concrete(shape, values)).numel()
        return total

    def small(self):
        """The smallest sizes at which the program works: the base of the checks."""
        whys = []
        for cap in (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 4096, 16384, 1 << 20):
            base = self.fit({k: min(v, cap) for k, v in self.example.items()})
            if base is None or self.elements(base) > 4e8:
                whys.append("no sizes satisfy the relations" if base is None else "it needs more than 3 GB")
            else:
                if self.elements(base) > 1e7:  # shapes first, because values take long
                    try:
                        run_shapes(self.runner.compute, self.runner.inputs, self.runner.shapes(base))
                    except Exception as error:
                        whys.append(brief(error))
                        if cap >= max(self.example.values(), default=0):
                            break
                        continue
                if self.runner.valid(base) is not None:
                    break
                whys.append(self.runner.why)
            if cap >= max(self.example.values(), default=0):
                base = None
                break
            base = None
        else:
            base = None
        if base is None or self.runner.valid(base) is None:
            why = whys[-1] if whys else "it fails"
            if why.startswith("infinite"):
                raise Refusal(f"An output is not finite ({'in f32' if 'f32' in why else 'in f64'}) for inputs like the examples.",
                              "Give example inputs for which it is.")
            if why.startswith("inaccurate"):
                raise Refusal(f"The program is {why} of its values, so that no tolerance could be derived.",
                              "Use .eval() for batch statistics of few values, or other example inputs.")
            raise Refusal(f"The program does not run on inputs like the examples: {why}.", "Check the example inputs.")
        for name in sorted(base, key=lambda n: -base[n]):  # each dimension by itself
            for cap in (4, 8, 16, 32, 64, 128):
                if base[name] <= cap or self.late():
                    break
                trial = self.fit({**base, name: cap})
                if trial is not None and trial[name] < base[name] and self.elements(trial) < self.elements(base) and \
                        self.runner.valid(trial) is not None:
                    base = trial
                    break
        self.base = base
        return base

    def relate(self):
        """Tries relations with values: drops those that the program does not need, and ties what only works together."""
        dims, runner = self.dims, self.runner
        for relation in list(dims.hard):
            names = [s.name for s in relation.free_symbols]
            others = [r for r in dims.hard if r is not relation]
            broken = []
            for name in names:
                for step in (1, 2, 3, 5):
                    trial = {**self.base, name: self.base[name] + step}
                    if not true_at(relation, trial) and all(true_at(r, trial) for r in others):
                        broken.append(trial)
                        break
            if broken and not self.late() and all(runner.valid(t, forced=True, accurate=False) is not None for t in broken):
                dims.hard.remove(relation)
        tied = []
        names = list(dims.free)
        alone = {}
        for name in names:
            if self.late() or len(names) > 40:
                break
            trials = [t for t in (self.fit({**self.base, name: self.base[name] + step}) for step in (1, 2, 3)) if t is not None]
            alone[name] = any(runner.valid(t, accurate=False) is not None for t in trials)
        for k, one in enumerate(names):
            for other in names[k + 1:]:
                if one in dims.free and other in dims.free and dims.free[one] == dims.free[other] and \
                        alone.get(one) is False and alone.get(other) is False:
                    value = max(self.base[one], self.base[other])
                    for step in (1, 2, 3):
                        trial = self.fit({**self.base, one: value + step, other: value + step})
                        if trial is not None and trial[one] == trial[other] and runner.valid(trial, accurate=False) is not None:
                            dims.merge(one, other)
                            del self.base[other]
                            self.example = dict(dims.free)
                            tied.append((one, other))
                            break
        return tied

    def bound_below(self):
        """States the least size of each dimension at which the program runs, where that is not 1: [(name, a number or the dimension that
        it is no smaller than)]."""
        found = []
        for name in list(self.dims.free):
            for value in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32):
                trial = self.fit({**self.middle, name: value})
                if value >= self.middle[name] or self.late():
                    break
                if trial is None or trial[name] != value:
                    continue
                if self._runs(trial):
                    break
                found = [f for f in found if f[0] != name] + [(name, value + 1)]
        symbol = lambda name: sympy.Symbol(name, integer=True, positive=True)
        told = []
        for name, least in found:
            other = self._no_smaller_than(name, least - 1)
            bound = sympy.Ge(symbol(name), symbol(other) if other else least)
            if all(true_at(bound, sizes) for sizes in (self.example, self.middle)):
                self.dims.hard.append(bound)
                told.append((name, other or least))
        return told

    def bound_together(self):
        """States that some dimensions cannot all be 1 at a time, as where a variance needs two values: their names; None: they can."""
        one = [n for n in self.dims.free if self.fit({**self.middle, n: 1}) == {**self.middle, n: 1}]
        least = {**self.middle, **{n: 1 for n in one}}
        if len(one) < 2 or self.late() or self.fit(least) != least or self._runs(least):
            return None
        needed = [n for n in one if self.fit({**least, n: 2}) == {**least, n: 2} and self._runs({**least, n: 2})]
        together = sympy.Mul(*(sympy.Symbol(n, integer=True, positive=True) for n in needed))
        if len(needed) < 2 or not all(true_at(together > 1, sizes) for sizes in (self.example, self.middle)):
            return None
        self.dims.hard.append(together > 1)
        return needed

    def _no_smaller_than(self, name, size):
        """The other dimension with which `name` must grow, as where indices below the one point into the other; None: none. The
        program fails where `name` alone has this size."""
        for other in self.dims.free:
            if other == name or self.middle[other] <= size:
                continue
            trial = self.fit({**self.middle, name: size, other: size})
            if trial is not None and trial[name] == trial[other] == size and self._runs(trial):
                return other
        return None

    def _runs(self, assignment):
        try:
            with torch.no_grad():
                self.runner.compute(*self.runner.draw(assignment, 1))
            return True
        except Exception:
            return False

    def smoke(self, seconds=0.0015, elements=32768):
        """Sizes up from the base, as long as an exact run is fast."""
        now, spent = dict(self.base), self.runner.valid(self.base) or 1.0
        growing = list(now)[::-1]
        first = next(iter(now)) if len(now) > 2 and len(self.dims.shapes[0]) > 2 else None
        while growing and not self.late():
            for name in list(growing):
                trial = self.fit({**now, name: min(now[name] * 2, self.example[name] * 2, 4 if name == first else 512)})
                took = None
                if trial is not None and trial != now and self.elements(trial) <= elements:
                    took = self.runner.valid(trial)
                if took is None or took > seconds or (took > 0.6 * seconds and took > 1.2 * spent):
                    growing.remove(name)
                    continue
                now, spent = trial, took
        self.middle, self.middle_seconds = now, spent
        return now

    def _odd_near(self, value):
        near = [v for v in ODD if 0.45 * value <= v <= 1.6 * value and v != value]
        return self.chance.choice(near) if near else value + 1

    def larger(self, seconds, elements=4e6):
        """Sizes toward the example's, from small to large, that an exact run should compute within some seconds."""
        small = max(1, self.elements(self.middle))
        seen = {self._key(self.middle)}
        for t in (0.12, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0):
            trial = self.scaled(t)
            if trial is None or self._key(trial) in seen or self.elements(trial) > elements:
                continue
            if self.middle_seconds * max(1.0, self.elements(trial) / small) ** 1.4 > seconds:
                break
            seen.add(self._key(trial))
            yield trial

    def take(self, assignment):
        """Makes larger sizes those of the checks."""
        spent = self.runner.valid(assignment)
        if spent is None:
            return False
        self.base = self.middle = assignment
        self.middle_seconds = spent
        return True

    def checks(self):
        """(sweep, stress_shapes, edge)"""
        seen = {self._key(self.middle)}
        budget = max(0.003, 2.5 * self.middle_seconds)

        def take(into, trial, most, accurate=True):
            if len(into) >= most or (self.late() and len(into) >= 2):
                return
            trial = self.fit(trial) if trial is not None else None
            if trial is None or self._key(trial) in seen:
                return
            took = self.runner.valid(trial, accurate=accurate)
            if took is not None and took <= budget * 2:
                seen.add(self._key(trial))
                into.append(trial)

        names = list(self.middle)
        sweep, stress, edge = [], [], []
        for name in names[:6]:  # one dimension long, the others short
            long = {n: self._odd_near(max(2, self.middle[n] // 2)) if self.middle[n] > self.base[n] else self.base[n] for n in names}
            long[name] = self.middle[name] * (3 if self.middle_seconds < 0.004 else 1) + 1
            take(sweep, long, 5)
        for _ in range(16):
            take(sweep, {n: self._odd_near(self.middle[n]) if self.chance.random() < 0.8 else self.middle[n] for n in names}, 8)
        if not sweep:
            for name in names:
                for step in (1, 2, 3, 4, -1):
                    take(sweep, {**self.middle, name: self.middle[name] + step}, 5)
        if not sweep:
            sweep.append(dict(self.middle))
        for factor in (1.0, 0.75, 1.5, 0.5, 1.25, 2.0):
            trial = {n: max(self.base[n], int(self.middle[n] * (factor if i == len(names) - 1 else 1 / factor)))
                     for i, n in enumerate(names)}
            take(stress, trial, 2)
        if not stress:
            stress.append(dict(self.middle))
        for name in names[:5]:
            take(edge, {**{n: self._odd_near(self.middle[n]) for n in names}, name: 1}, 4, accurate=False)
        take(edge, {n: 1 for n in names}, 5, accurate=False)
        take(edge, {n: 2 for n in names}, 5)
        for _ in range(16):
            take(edge, {n: self._odd_near(max(3, self.middle[n] // 2)) for n in names}, 6)
        if not edge:
            for name in names:
                for step in (3, 5, 7, 2):
                    take(edge, {**self.middle, name: self.base[name] + step}, 4)
        return sweep, stress, edge

    def _key(self, assignment):
        return tuple(sorted(assignment.items()))

    def scaled(self, t):
        """Sizes between the smoke's (0) and the example's (1)."""
        return self.fit({n: round(self.middle[n] * (self.example[n] / self.middle[n]) ** t) for n in self.middle})

    def _eager(self, assignment, dtype=torch.float32):
        try:
            if self.elements(assignment) > 3e8:
                return None
            tensors = self.runner.draw(assignment, 1, dtype=dtype)
            spent = 1e9
            with torch.no_grad():
                self.runner.compute(*tensors)
                for _ in range(3):
                    begin = time.perf_counter()
                    self.runner.compute(*tensors)
                    spent = min(spent, time.perf_counter() - begin)
                    if spent > 0.2:
                        break
            return spent
        except Exception:
            return None

    def widths(self):
        """The dimensions of parameters and buffers: a model has them at its example's sizes only."""
        return {d for item, row in zip(self.runner.inputs, self.dims.shapes) if item.origin != "example" for d in row if isinstance(d, str)}

    def for_cpu(self, least=0.03, most=0.12):
        """([two workloads], [one holdout]) that eager PyTorch computes in about 30 to 120 ms, so that a kernel that is ten times
        as fast still takes longer than the shortest runs that are timed."""
        threads = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            widths = self.widths()
            best = self._search(least, most)
            others = []
            for turn in range(12):
                trial = self.fit({n: max(1, round(v * self.chance.choice((0.63, 0.81, 1.0, 1.27)))) | (turn % 2)
                                  if v > 16 and n not in widths else v for n, v in best.items()})
                if trial is not None and self._key(trial) not in {self._key(o) for o in others + [best]}:
                    spent = self._eager(trial)
                    if spent is not None and spent < 2 * most:
                        others.append(trial)
                if len(others) == 2 or (self.late() and others):
                    break
            for name in sorted(best, key=lambda n: n in widths):  # a size that differs at least in one dimension
                for step in (1, 2, 3, 4):
                    trial = self.fit({**best, name: best[name] + step})
                    if len(others) < 2 and trial is not None and self._key(trial) not in {self._key(o) for o in others + [best]} and \
                            self._eager(trial) is not None:
                        others.append(trial)
            return [best] + others[:1], others[1:2]
        finally:
            torch.set_num_threads(threads)

    def _search(self, least, most):
        low, high = 0.0, 1.0
        widths = self.widths()
        best = self.fit({n: self.example[n] if n in widths else v for n, v in self.middle.items()})
        if best is None or (self._eager(best) or 1.0) > most:  # the widths alone take too long
            best, widths = dict(self.middle), set()
        spent = self._eager(best) or 1.0
        for _ in range(7):
            if least <= spent <= most or self.late():
                return best
            if spent > 4 * most and low == 0.0 and high == 1.0:
                return best
            middle = (low + high) / 2
            trial = self.fit({n: self.example[n] if n in widths else round(v * (self.example[n] / v) ** middle)
                              for n, v in self.middle.items()})
            took = self._eager(trial) if trial else None
            if took is None or took > most:
                high = middle
            else:
                low, best, spent = middle, trial, took
        for _ in range(10):  # beyond the example's sizes
            if spent >= least or self.late():
                break
            name = next((n for n in best if n not in widths), next(iter(best)))
            trial = self.fit({**best, name: best[name] * 2})
            took = self._eager(trial) if trial else None
            if took is None or took > most:
                break
            best, spent = trial, took
        return best

    def bytes(self, assignment, each=4):
        return each * self.elements(assignment)

    def for_gpu(self, factor=1.0):
        """(example, neighbours, holdout)"""
        example = dict(self.example)
        if factor < 1:
            limit = factor * self.bytes(example)
            while self.bytes(example) > limit:
                name = max(example, key=lambda n: example[n] if self.fit({**example, n: max(1, example[n] // 2)}) else 0)
                smaller = self.fit({**example, name: max(1, example[name] // 2)})
                if smaller is None or self.bytes(smaller) >= self.bytes(example):
                    break
                example = smaller
        seen, found = {self._key(example)}, []
        names = list(example)
        for turn in range(40):
            if len(found) >= 4:
                break
            trial = {}
            for n in names:
                v = example[n]
                if v >= 64 and self.chance.random() < 0.6:
                    v = max(1, int(v * self.chance.choice((0.5, 0.62, 0.75, 0.87))) | (turn & 1))
                elif v > 4 and self.chance.random() < 0.4:
                    v = max(1, v - 1 - turn % 3)
                trial[n] = v
            trial = self.fit(trial)
            if trial is None or self._key(trial) in seen or self.bytes(trial) > 1.05 * self.bytes(example):
                continue
            seen.add(self._key(trial))
            try:
                got = [s for s, _ in run_shapes(self.runner.compute, self.runner.inputs, self.runner.shapes(trial))]
                values = self.dims.values(trial)
                if got == [self.dims.concrete(s, values) for s in self.dims.outputs]:
                    found.append(trial)
            except Exception:
                continue
            if self.late() and len(found) >= 2:
                break
        return example, found[:-2] or found[:1], found[-2:] if len(found) > 2 else found[1:]
