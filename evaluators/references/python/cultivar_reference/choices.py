# SPDX-License-Identifier: Apache-2.0
"""Outputs that are indices which the function chose: of which scores, and whether another choice is as right.

topk, sort, argmax and the like choose by scores. A kernel whose scores differ by less than the permitted roundings may choose
another index, and what follows from the indices (the weights of a router) then follows from that one. Seen watches an exact run;
right() says which other indices are right, and exact() and rounded() compute the outputs with the kernel's indices.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from . import modes

# Operations that choose, by name and overload: the results are values and indices, or indices alone.
_CHOOSE = {("topk", "default"), ("sort", "default"), ("sort", "stable"), ("argsort", "default"), ("argsort", "stable"), ("argmax", "default"),
           ("argmin", "default"), ("max", "dim"), ("min", "dim"), ("kthvalue", "default"), ("median", "dim"), ("nanmedian", "dim")}
# Operations, beside views, whose results are elements of their first argument.
_MOVE = {"_to_copy", "clone", "cat", "stack", "flip", "roll", "index_select", "contiguous", "_reshape_alias", "_unsafe_view", "repeat"}


class Choice:
    """What one operation chose. Lines: [lines, candidates] of the scores, [lines, slots] of the indices."""

    def __init__(self, name, scores, bound, indices, first):
        self.scores, self.indices, self.first = scores, indices, first  # first: the place of its first index among all choices
        self.dim = None if bound.get("dim") is None and name in ("argmax", "argmin") else bound.get("dim", -1)
        self.any_order = name == "topk" and bound.get("sorted") is False
        self.stable = bool(bound.get("stable"))  # equal scores stay in order
        self.slots = indices.dim() == scores.dim() and self.dim is not None

    def of_scores(self, scores):
        if self.dim is None or scores.dim() == 0:
            return scores.reshape(1, -1)
        return scores.movedim(self.dim, -1).reshape(-1, scores.shape[self.dim])

    def of_indices(self, indices):
        if indices.dim() == 0 or self.dim is None:
            return indices.reshape(1, -1)
        if not self.slots:  # the axis is gone
            return indices.reshape(-1, 1)
        return indices.movedim(self.dim, -1).reshape(-1, indices.shape[self.dim])

    def values_at(self, indices):
        """The scores at these indices, in the shape of the indices."""
        scores = self.scores
        if scores.dim() == 0 or self.dim is None:
            return scores.reshape(-1)[indices.reshape(-1)].reshape(indices.shape)
        if self.slots:
            return scores.gather(self.dim, indices)
        return scores.gather(self.dim, indices.unsqueeze(self.dim)).squeeze(self.dim)


class _Watch(TorchDispatchMode):
    """Records the choices of one run, and in which tensors their indices are. `forced`: the indices to choose, by choice."""

    def __init__(self, forced=()):
        super().__init__()
        self.forced, self.choices, self.count = forced, [], 0
        self.where = {}  # id of a tensor: (the tensor, the place of each element among the indices of all choices)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[-1]
        result = func(*args, **kwargs)
        if (name, func._overloadname) in _CHOOSE:
            return self._chosen(func, name, args, kwargs, result)
        if self.where and (name in _MOVE or modes.is_view(func)):
            self._follow(func, name, args, kwargs, result)
        return result

    def _chosen(self, func, name, args, kwargs, result):
        bound = {a.name: args[i] if i < len(args) else kwargs.get(a.name, a.default_value) for i, a in enumerate(func._schema.arguments)}
        several = not isinstance(result, torch.Tensor)
        choice = Choice(name, bound["self"], bound, result[1] if several else result, self.count)
        number = len(self.choices)
        forced = self.forced[number] if number < len(self.forced) else None
        if forced is not None and forced.shape == choice.indices.shape:
            choice.indices = forced
            result = (choice.values_at(forced), forced.clone()) if several else forced.clone()
        indices = result[1] if several else result
        with _disable_current_modes():
            places = torch.arange(self.count, self.count + indices.numel()).reshape(indices.shape)
        self.count += indices.numel()
        self.choices.append(choice)
        self.where[id(indices)] = (indices, places)
        return result

    def _follow(self, func, name, args, kwargs, result):
        first = args[0] if args else None
        parts = list(first) if isinstance(first, (list, tuple)) else [first]
        known = [self.where.get(id(p)) for p in parts]
        if not all(known):
            return
        places = [k[1] for k in known]
        with _disable_current_modes():
            moved = places[0].clone() if name == "_to_copy" else func(places if isinstance(first, (list, tuple)) else places[0],
                                                                     *args[1:], **kwargs)
        if isinstance(result, torch.Tensor):
            self.where[id(result)] = (result, moved)
        elif isinstance(result, (list, tuple)):
            self.where.update({id(r): (r, m) for r, m in zip(result, moved)})

    def places_of(self, tensor):
        found = self.where.get(id(tensor))
        return found[1] if found else None


def _watched(compute, forced=(), kept=None):
    """compute with these indices. `kept`: a list that receives the _Watch and the places of the outputs of each run."""
    def run(*inputs, **numbers):
        watch = _Watch(forced)
        with watch:
            results = modes.outputs_of(compute(*inputs, **numbers))
        if kept is not None:
            kept.append((watch.choices, [watch.places_of(t) for t in results]))
        return results
    return run


class Seen:
    """The exact outputs, the choices behind them, and for each output the places of its elements among the chosen indices (None:
    it is no index that was chosen)."""

    def __init__(self, compute, inputs, numbers={}):
        self.compute, self.inputs, self.numbers = compute, inputs, numbers
        kept = []
        self.outputs = modes.exact(_watched(compute, (), kept), inputs, numbers)
        self.choices, self.places = kept[0]

    def visible(self):
        return any(p is not None for p in self.places)

    def forced(self, given):
        """The indices of each choice. `given`: [(places, values)] to put among them; a choice that no output shows stays open."""
        shown = torch.cat([p.reshape(-1) for p in self.places if p is not None])
        made = []
        for choice in self.choices:
            last = choice.first + choice.indices.numel()
            if not bool(((shown >= choice.first) & (shown < last)).any()):
                made.append(None)
                continue
            flat = choice.indices.reshape(-1).clone()
            for places, values in given:
                inside = (places >= choice.first) & (places < last)
                flat[places[inside] - choice.first] = values[inside].to(flat.dtype)
            made.append(flat.reshape(choice.indices.shape))
        return made

    def within(self, forced):
        """`forced` with every index that no candidate has replaced by the reference's, so that it can be computed with."""
        made = []
        for choice, indices in zip(self.choices, forced):
            if indices is None:
                made.append(None)
                continue
            count = choice.of_scores(choice.scores).shape[1]
            made.append(torch.where((indices >= 0) & (indices < count), indices, choice.indices))
        return made


def exact(seen, given=()):
    """The exact outputs with the given indices ([(places, values)])."""
    if not given or not seen.visible():
        return seen.outputs
    return modes.exact(_watched(seen.compute, seen.within(seen.forced(given))), seen.inputs, seen.numbers)


def rounded(seen, dtype, dtypes=None, given=(), overflows=False):
    """As modes.rounded, with the given indices, otherwise the exact ones: which of nearly equal candidates a rounding would
    choose is right() to say, and is no error of what follows from the choice."""
    if not seen.visible():
        return modes.rounded(seen.compute, seen.inputs, dtype, seen.numbers, exactly=seen.outputs, dtypes=dtypes, overflows=overflows)
    compute = _watched(seen.compute, seen.within(seen.forced(given)))
    return modes.rounded(compute, seen.inputs, dtype, seen.numbers, exactly=exact(seen, given), dtypes=dtypes, overflows=overflows)


def right(seen, given, dtype, tolerance):
    """For the indices of each choice whether they are right as well: True where such an index is a candidate, is no other slot's
    of its line, and has a score that differs from that of the exact one by at most the permitted error; of scores that are exact
    in every rounding, an equal score. One tensor of all places. `tolerance`: {"factor", "unit", "floor"}: of the errors of the
    roundings, of the score, of the RMS of the line."""
    forced = seen.forced(given)
    kept = []
    compute = _watched(seen.compute, seen.within(seen.forced(())), kept)
    modes.rounded(compute, seen.inputs, dtype, seen.numbers, exactly=seen.outputs)  # its models leave their scores in `kept`
    verdicts = []
    for number, (choice, indices) in enumerate(zip(seen.choices, forced)):
        if indices is None:
            verdicts.append(torch.zeros(choice.indices.numel(), dtype=torch.bool))
            continue
        scores = choice.of_scores(choice.scores).to(torch.float64)
        error = torch.zeros(len(scores), 1, dtype=torch.float64)
        for choices, _ in kept:
            if len(choices) == len(seen.choices) and choice.scores.is_floating_point():
                apart = (choices[number].of_scores(choices[number].scores).to(torch.float64) - scores).abs()
                error = torch.maximum(error, apart.nan_to_num(nan=0.0, posinf=0.0).amax(1, keepdim=True))
        chosen, best = choice.of_indices(indices), scores.gather(1, choice.of_indices(choice.indices))
        candidate = (chosen >= 0) & (chosen < scores.shape[1])
        got = scores.gather(1, chosen.clamp(0, scores.shape[1] - 1))
        if choice.any_order:  # slot by slot in the order of the scores
            rank = got.argsort(dim=1, stable=True).argsort(1)
            best = best.sort(1).values.gather(1, rank)
        permitted = torch.zeros_like(best)
        if bool((error > 0).any()):
            finite = scores.isfinite()
            square = torch.where(finite, scores, 0.0).square().sum(1, keepdim=True) / finite.sum(1, keepdim=True).clamp(min=1)
            permitted = tolerance["factor"] * error + tolerance["floor"] * square.sqrt() + tolerance["unit"] * best.abs()
        equal = (got == best) | (got.isnan() & best.isnan())
        near = equal | ((got - best).abs() <= permitted)
        if choice.stable:
            near &= ~equal | (chosen == choice.of_indices(choice.indices))
        by_index, order = chosen.sort(1)
        again = torch.zeros_like(candidate)
        again[:, 1:] |= by_index[:, 1:] == by_index[:, :-1]
        again[:, :-1] |= by_index[:, 1:] == by_index[:, :-1]
        good = candidate & near & ~torch.zeros_like(again).scatter(1, order, again)
        # Back to the order of the indices as they lie.
        places = choice.of_indices(torch.arange(indices.numel()).reshape(indices.shape))
        verdicts.append(torch.zeros(indices.numel(), dtype=torch.bool).scatter(0, places.reshape(-1), good.reshape(-1)))
    return torch.cat(verdicts) if verdicts else torch.zeros(0, dtype=torch.bool)
