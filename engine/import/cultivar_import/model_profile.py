# SPDX-License-Identifier: Apache-2.0
"""From a model to a campaign: its baselines, its regions with what could be gained of each, and the files that become tasks."""

import json
import os
import shutil
import sys
import time
from xml.sax.saxutils import escape

import torch

from . import fast_verify, model_functions, model_regions, model_times, observe
from .model_source import INPUTS, WholeModel
from .refusal import Refusal, brief

LEAST_SHARE = 0.01  # of the model's time, for a region to be looked at
COVERED = 0.8  # of what could be gained of a region, from which on its parts are taken instead

LEFT, WIDTH, ROW = 260, 560, 26  # of the picture, in pixels


class Profile:
    """`least`: the share of the model's time that a region must promise to become a task; `most`: of tasks."""

    def __init__(self, file, inputs, out, least=0.02, most=6, say=None, device="cpu", tasks="", known=False,
                 autotune=True):
        self.say = say or (lambda text: None)
        self.out, self.least, self.most, self.device, self.known = out, least, most, device, known
        if device == "cuda" and not torch.cuda.is_available():
            raise Refusal("PyTorch finds no GPU here.", "Leave --device cuda out, or use a PyTorch that is built for this machine's GPU.")
        self.say(f"reading {file}")
        self.whole = WholeModel(file, inputs, device)
        self.left_out = {} if autotune else {model_times.AUTOTUNED: "left out (--no-autotune)"}
        self.functions = model_functions.known_functions(tasks)

    def run(self):
        whole = self.whole
        model = self.model = whole.build()
        args, kwargs = whole.draw(1)
        self._sizes_stay((args, kwargs))
        self.deterministic(model, args, kwargs)
        self.baselines, calls = model_times.baselines(model, whole.draw, self.say, self.device, self.left_out)
        ran = {name: t for name, t in self.baselines.items() if isinstance(t, model_times.Times)}
        if "eager" not in ran:
            raise Refusal(f"The model does not run on its inputs: {self.baselines['eager']}.", "Check build() and the inputs.")
        self.fastest = min(ran, key=lambda name: ran[name].median)
        self.total = ran[self.fastest]
        # What it saved of the whole is the first guess of what it saved of a part; a part that compiles alone is measured.
        spent = {name: ran[name].median for name in ("eager", self.fastest)}
        if self.device == "cuda":
            spent = model_times.device_seconds({name: calls[name] for name in spent}, whole.draw)
        self.saved = min(1.0, spent[self.fastest] / spent["eager"])
        del calls
        torch._dynamo.reset()
        self.say(f"the fastest baseline is {self.fastest}, {1e3 * self.total.median:.3g} ms")
        self.regions = model_regions.regions_of(model_regions.parts_of(model, args, kwargs, self.functions), self.device)
        self.say(f"{len(self.regions)} kinds of parts: their times, and what this machine could do")
        model_times.by_ranges(model, args, kwargs, self.regions, self._watched, self.device)
        self.operators = model_times.operators(model, args, kwargs, self.device)
        dtypes = [p.dtype for p in model.parameters() if p.dtype.is_floating_point]
        self.machine = model_times.Machine(self.device, max(set(dtypes), key=dtypes.count) if dtypes else torch.float32)
        self._measure()
        self._choose()
        self._measure_within()
        self._write()
        return self

    def _sizes_stay(self, first):
        """The baselines are timed with new inputs for each pass, the regions with the first: both must be of one size."""
        sizes = lambda given: [f"{str(t.dtype)[6:]} {list(t.shape)}" for t in torch.utils._pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]
        for seed in range(2, 6):
            other = self.whole.draw(seed)
            if sizes(other) != sizes(first):
                raise Refusal(f"{self.whole.inputs_name} draws other sizes or dtypes in another call: {', '.join(sizes(first))}, and then "
                              f"{', '.join(sizes(other))}.", "Kernels are for the sizes that are measured: let it draw those that matter most.")

    def _watched(self, enter, leave):
        return model_functions.watched(self.model, self.functions, enter, lambda path, *_: leave(path))

    def deterministic(self, model, args, kwargs):
        try:
            with torch.no_grad():
                one, two = (torch.utils._pytree.tree_leaves(model(*args, **kwargs)) for _ in range(2))
        except Exception as error:
            raise Refusal(f"The model raises with what {self.whole.inputs_name} draws: {brief(error)}.",
                          "Check the inputs: their sizes, dtypes and names. " + INPUTS) from None
        tensors = [t for t in one if isinstance(t, torch.Tensor)]
        if not any(t.dtype.is_floating_point for t in tensors):
            raise Refusal("The model returns no floating-point tensor.", "Let it return what it computes, such as logits.")
        for a, b in zip(one, two):
            if isinstance(a, torch.Tensor) and a.dtype.is_floating_point and not same_but_for_rounding(a, b):
                raise Refusal("Two calls of the model with the same inputs give different results.",
                              "It must not draw random numbers or keep state in evaluation mode.")

    def _measure(self):
        """`base` of each region that is large enough to be looked at: its time in the fastest baseline."""
        compiled = self.fastest != "eager"
        for region in self.regions:
            region.base = model_times.Times([s * self.saved for s in region.times.samples])
            if region.why_not or region.base.median < LEAST_SHARE * self.total.median:
                continue
            self.say(f"region {region.paths[0]} ({region.kind}, {region.calls} call{'s' if region.calls > 1 else ''})")
            new = region.known is None and self.known  # would be a new task, and there shall be none: only its floor is shown
            if not new and not model_regions.understood(region, self.device):
                continue
            region.floor, region.floor_of = self.machine.floor(region)
            region.floor *= region.calls
            if compiled and not new:
                alone = model_times.compiled_alone(region, {}, self.device)
                if alone is not None:
                    region.base = model_times.Times([s * region.calls for s in alone.samples])
            if region.base.median > self.total.median:  # no part takes longer than the whole: the machine was slower meanwhile
                slower = region.base.median / self.total.median
                region.base = model_times.Times([s / slower for s in region.base.samples])

    def _measure_within(self, seconds=180.0):
        """`saves` of the regions that become tasks, if a compiled model is the one to beat."""
        options, end = model_times.BASELINES[self.device][self.fastest], time.perf_counter() + seconds
        for region in self.chosen:
            if options is not None and time.perf_counter() < end:
                self.say(f"region {region.paths[0]} within the compiled model")
                try:
                    region.saves = model_times.without(self.model, region, options, self.whole.draw, self.device)
                except Exception as error:
                    self.say(f"region {region.paths[0]}: its time by itself counts, since it cannot be taken out: {brief(error, 160)}")

    def within(self, region):
        """Seconds of a pass that its calls cost within the model."""
        if region.saves is None:
            return region.base.median
        saves = max(0.0, region.saves.median)
        return saves if region.known else min(region.base.median, saves)

    def gain(self, region, base=None):
        """Seconds of a pass that are above what the machine needs at least."""
        return max(0.0, (region.base.median if base is None else base) - region.floor) if region.floor else 0.0

    def _choose(self):
        """The regions that become tasks, and why the others do not."""
        whole = self.total.median
        for region in self.regions:
            if region.base.median < LEAST_SHARE * whole and not region.why_not:
                region.why_not = f"less than {100 * LEAST_SHARE:g} % of the time"
            elif not region.why_not and self.known and region.match is None:
                region.why_not = "no installed task computes it (--known)"
            elif not region.why_not and self.gain(region) < self.least * whole:
                region.why_not = f"less than {100 * self.least:g} % of the time could be gained"
        left = sorted((r for r in self.regions if not r.why_not), key=lambda r: -self.gain(r))
        for region in left:
            parts = [r for r in left if r is not region and not r.why_not and model_regions.within(r, region)]
            highest = [r for r in parts if not any(model_regions.within(r, other) for other in parts)]
            if sum(self.gain(r) for r in highest) >= COVERED * self.gain(region):
                region.why_not = "its parts are taken: " + ", ".join(sorted({r.kind for r in highest}))
        self.chosen = [r for r in left if not r.why_not]
        for region in self.chosen[self.most:]:
            region.why_not = f"only the {self.most} with the greatest possible gain become tasks"
        self.chosen = self.chosen[:self.most]
        model_regions.give_names(self.chosen)

    # Files

    def _write(self):
        folder = os.path.join(self.out, "source")
        os.makedirs(folder, exist_ok=True)
        for name, path in self.whole.files().items():
            target = os.path.join(folder, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(path, target)
        for region in self.chosen:
            if region.match:
                continue
            with open(os.path.join(folder, f"region_{region.name}.py"), "w", encoding="utf-8") as file:
                file.write(self.region_file(region))
        for name, text in (("profile.json", json.dumps(self.facts(), indent=1) + "\n"), ("profile.md", self.page()),
                           ("profile.svg", picture(self))):
            with open(os.path.join(self.out, name), "w", encoding="utf-8") as file:
                file.write(text)

    def region_file(self, region):
        """A file that `cultivar import` makes a task of."""
        lines = [f'"""{region.kind} of the model, as at {region.paths[0]}: written by `cultivar import`."""', "", "import torch", "",
                 "import whole_model", "", "", "def build():",
                 f"    return {self.whole.expression()}.eval().cpu().get_submodule({region.paths[0]!r})", "", "", "def get_inputs():",
                 "    return {"]
        for name, value in region.arguments.items():
            lines.append(f"        {name!r}: {drawn(value)},")
        return "\n".join(lines + ["    }"]) + "\n"

    def facts(self):
        module, function = self.whole.inputs_expression()
        regions = []
        for r in sorted(self.regions, key=lambda r: -self.gain(r)):
            regions.append({
                "name": r.name, "class": r.kind, "paths": r.paths, "calls": r.calls, "signature": r.signature,
                "traits": model_regions.traits(r.part.module),
                "arguments": {n: argument_facts(v) for n, v in r.arguments.items()},
                "tuple": len(r.result) if isinstance(r.result, (tuple, list)) else None,
                "device": self.device, "function_of": r.known.qualified if r.known else "", "match": r.match,
                "states": {n: [list(t.shape), str(t.dtype)[6:]] for n, t in r.part.module.state_dict().items()},
                "results": [[list(t.shape), str(t.dtype)[6:], r.strides or list(t.stride())] for t in torch.utils._pytree.tree_leaves(r.result)
                            if isinstance(t, torch.Tensor)],
                "ms": 1e3 * self.within(r), "alone_ms": 1e3 * r.base.median, "q1_ms": 1e3 * r.base.low, "q3_ms": 1e3 * r.base.high, "eager_ms": 1e3 * r.times.median,
                "floor_ms": 1e3 * r.floor, "floor_of": r.floor_of, "gain_ms": 1e3 * self.gain(r), "left_out": r.why_not})
        return {"model": f"{os.path.basename(self.whole.source.path)}:{self.whole.source.name}", "build": self.whole.expression(),
                "inputs": [module, function], "device": self.device, "threads": torch.get_num_threads(), "torch": torch.__version__,
                "baselines": {n: t.facts() if isinstance(t, model_times.Times) else {"failed": t} for n, t in self.baselines.items()},
                "fastest": self.fastest, "ms": 1e3 * self.total.median, "machine": self.machine.facts(),
                "operators": [[n, share] for n, share in self.operators], "regions": regions}

    def summary(self):
        """For the command: what became of the model, the regions that become tasks, and the table."""
        return {"report": self.report(), "table": self.rows(), "device": self.device, "threads": torch.get_num_threads(), "fastest": self.fastest,
                "ms": 1e3 * self.total.median, "python": sys.executable,
                "regions": [{"name": r.name, "file": f"region_{r.name}.py", "ms": 1e3 * self.within(r), "alone_ms": 1e3 * r.base.median, "floor_ms": 1e3 * r.floor,
                             "call_ms": 1e3 * r.base.median / r.calls, **({"match": r.match} if r.match else {})} for r in self.chosen]}

    def rows(self):
        """Cells of the table, with their heads."""
        whole = self.total.median
        cells = [["region", "calls", "inputs", "ms (q1 - q3)", "share", "floor ms", "could be gained", "whole model", "task"]]
        shown = [r for r in self.regions if r.base.median >= LEAST_SHARE * whole]
        for r in sorted(shown, key=lambda r: (-self.gain(r), -r.base.median)):
            gain, low, high = (min(self.gain(r, b), 0.99 * whole) for b in (r.base.median, r.base.low, r.base.high))
            possible = r.floor > 0
            cells.append([f"{r.paths[0]} ({r.kind})", str(r.calls), r.sizes_text(),
                          f"{1e3 * r.base.median:.3g} ({1e3 * r.base.low:.3g} - {1e3 * r.base.high:.3g})", f"{100 * r.base.median / whole:.0f} %",
                          f"{1e3 * r.floor:.3g} ({r.floor_of})" if possible else "",
                          f"{1e3 * gain:.3g} ms ({1e3 * low:.3g} - {1e3 * high:.3g})" if possible else "",
                          f"at most {fast_verify.times(whole / (whole - gain))}" if possible else "", r.why_not or r.name])
        return cells

    def report(self):
        """What was measured and what follows, in words."""
        lines = [f"{os.path.basename(self.whole.source.path)}:{self.whole.source.name}, in evaluation mode on "
                 + (f"the CPU with {torch.get_num_threads()} threads" if self.device == "cpu" else f"one {torch.cuda.get_device_name()}")]
        for name, t in self.baselines.items():
            lines.append(f"  {name}: " + (f"{1e3 * t.median:.3g} ms ({1e3 * t.low:.3g} - {1e3 * t.high:.3g})"
                                         if isinstance(t, model_times.Times) else t))
        lines.append(f"The one to beat is {self.fastest}.")
        if not self.chosen:
            lines.append(f"Nothing is worth doing: no region promises {100 * self.least:g} % of the model's time.")
            return "\n".join(lines)
        whole = self.total.median
        left = whole - sum(self.gain(r) for r in self.chosen if not any(model_regions.within(r, o) for o in self.chosen))
        lines.append(f"If every kernel reached its floor, which none does, the model would be {fast_verify.times(whole / max(left, 0.01 * whole))} as fast; "
                     f"{len(self.chosen)} region{'s are' if len(self.chosen) > 1 else ' is'} to become tasks.")
        return "\n".join(lines)

    def page(self):
        rows = self.rows()
        table = ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in rows]
        table.insert(1, "|" + "---|" * len(rows[0]))
        operators = ", ".join(f"{n[6:]} {100 * s:.0f} %" for n, s in self.operators if s >= 0.01)
        return (f"# Where the time goes\n\n{self.report()}\n\n![regions](profile.svg)\n\n" + "\n".join(table) + "\n\n"
                "`ms` is the time of all calls of a region in one pass: with hooks in the eager model, or, if torch.compile is the one to beat, "
                "of the region compiled by itself. What is fused across its border is left out there, and counts in the ranking of the tasks: "
                "what the compiled model saves if the region takes no time. `floor` is the time that copying its inputs, "
                "parameters and outputs once, or its products at the rate of a large product, takes on this machine. What could be gained "
                "is the difference: an upper bound, with the quartiles of the time in parentheses. Regions contain each other.\n\n"
                f"Operators of an eager pass: {operators}.\n")


def same_but_for_rounding(one, two):
    """Sums in changing order, such as atomic additions, are rounded differently in each call."""
    permitted = max(1e-3, 4 * torch.finfo(one.dtype).eps)
    if not torch.equal(torch.isfinite(one), torch.isfinite(two)):
        return False
    one, two = (t.double().nan_to_num(0.0, 0.0, 0.0) for t in (one, two))
    return bool((one - two).norm() <= permitted * one.norm())


def argument_facts(value):
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype)[6:], "stride": list(value.stride())}
    return {"value": repr(value)}


def drawn(value):
    """An expression that draws values like those of a tensor that the model was seen with."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    shape = list(value.shape)
    value = value.cpu()
    known = observe.measured(value)
    if not value.dtype.is_floating_point:
        kind = "" if value.dtype == torch.int64 else f", dtype={value.dtype}"
        return f"torch.randint({int(value.min())}, {int(value.max()) + 1}, {shape}{kind})"
    kind = "" if value.dtype == torch.float32 else f".to({value.dtype})"
    if known.kind == "uniform":
        return f"(torch.rand({shape}) * {known.b - known.a:.4g} + {known.a:.4g}){kind}"
    mean, deviation = known.moments() or (0.0, 1.0)
    return f"(torch.randn({shape}) * {deviation or 1.0:.4g} + {mean:.4g}){kind}"


def picture(profile):
    """Where a model's time goes: its baselines and, of each region, what the machine needs and what could be gained."""
    whole = profile.total.median
    bars = []  # (text, [(seconds, color)], what is written behind)
    for name, t in profile.baselines.items():
        if not isinstance(t, str):
            bars.append((name, [(t.median, "#4a6fa5" if name == profile.fastest else "#b8c4d6")], f"{1e3 * t.median:.3g} ms"))
    shown = [r for r in profile.regions if r.floor > 0 and profile.gain(r) > 0]
    for r in sorted(shown, key=lambda r: -profile.gain(r))[:12]:
        floor = min(r.floor, r.base.median)
        bars.append((f"{r.paths[0]} ({r.kind}) x {r.calls}", [(floor, "#5b8c5a"), (r.base.median - floor, "#d9a441" if r.name else "#ecd9ae")],
                     f"{100 * r.base.median / whole:.0f} %" + ("" if r.name else ", no task")))
    most = max(sum(s for s, _ in parts) for _, parts, _ in bars)
    lines = []
    for k, (text, parts, behind) in enumerate(bars):
        y, x = 34 + k * ROW, float(LEFT)
        lines.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(text[:42])}</text>')
        for seconds, color in parts:
            width = WIDTH * seconds / most
            lines.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="18" fill="{color}"/>')
            x += width
        lines.append(f'<text x="{x + 6:.1f}" y="{y + 14}">{escape(behind)}</text>')
    height = 34 + len(bars) * ROW + 30
    legend = ("blue: the model, darkest the one to beat; green: what the machine needs at least; yellow: what could be gained, pale where "
              "there is no task")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 140}" height="{height}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n<text x="8" y="20" font-weight="bold">Time of one pass by region</text>\n'
            + "\n".join(lines) + f'\n<text x="8" y="{height - 10}" fill="#555">{escape(legend)}</text>\n</svg>\n')
