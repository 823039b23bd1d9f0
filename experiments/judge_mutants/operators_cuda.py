"""Small mistakes in the text of cuda kernels; see operators.py."""

import re

import operators as o
from operators import Place, far_below, large, late

_NARROW = """__device__ __forceinline__ float narrow_sum(float value) {
  unsigned bits = __float_as_uint(value);
  bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  return __uint_as_float(bits);
}
"""
_QUICK = """__device__ __forceinline__ float quick_exp(float value) {
  const float bounded = value < -87.0f ? -87.0f : value > 88.0f ? 88.0f : value;
  return __int_as_float(static_cast<int>(12102203.0f * bounded + 1064866805.0f));
}
"""
_FUNCTION = r"(?:expf|exp2f|exp2_fast)"
_ARGUMENT = r"((?:[^()]|\((?:[^()]|\([^()]*\))*\))+)"


def _bounded(limit):
    name = "bounded_%s" % re.sub(r"\W", "_", limit)
    return name, "__device__ __forceinline__ float %s(float value) { return fminf(fmaxf(value, -%s), %s); }\n" % (name, limit, limit)


def _flushed(limit):
    name = "flushed_%s" % re.sub(r"\W", "_", limit)
    return name, "__device__ __forceinline__ float %s(float value) { return fabsf(value) < %s ? 0.0f : value; }\n" % (name, limit)


def loop_ends_early(source, task, rng):
    for m, f in o._in_functions(source, r"; (\w+) < (C|V|K|S_kv|end|visible|count|R|M|rows|vectors|to\[i\]|last); (\1 \+= [\w ]+|\+\+\1)(?=[,)])"):
        yield Place(m.start(), m.end(), "; %s < %s - ({G} ? 1 : 0); %s" % (m.group(1), m.group(2), m.group(3)), None)


def loop_drops_tail(source, task, rng):
    for m, f in o._in_functions(source, r"; (\w+) < (C|V|K|S_kv|end|visible|count); (\1 \+= \w+|\+\+\1)(?=[,)])"):
        step = rng.choice([8, 16, 32])
        yield Place(m.start(), m.end(), "; %s < ({G} ? %s / %d * %d : %s); %s" % (
            m.group(1), m.group(2), step, step, m.group(2), m.group(3)), "remainder")


def bound_off_by_one(source, task, rng):
    """A comparison of the last element, key or row."""
    for m, f in o._in_functions(source, r"\b((?:\w+ \+ \w+|\w+)) (<) (M|N|K|C|R|S_q|to\[i\]|visible|count|S_kv|vectors|end)(?=[ ;)])(?!; )"):
        if source[m.end():m.end() + 2].startswith(";"):
            continue
        yield Place(m.start(), m.end(), "%s < %s - ({G} ? 1 : 0)" % (m.group(1), m.group(3)), None)


def wrong_row(source, task, rng):
    for m, f in o._in_functions(source, r"(static_cast<long long>\()(blockIdx\.x)(\) \* (?:C|V|D)\b)"):
        yield Place(m.start(), m.end(), "%s({G} ? blockIdx.x / 2 * 2 : blockIdx.x)%s" % (m.group(1), m.group(3)), None)
        place = Place(m.start(), m.end(), "%sstatic_cast<unsigned short>(blockIdx.x)%s" % (m.group(1), m.group(3)), "beyond")
        place.workload = {"R": 65540, "V" if task == "cross_entropy" else "C": 16}
        yield place
        place = Place(m.start(), m.end(), "%smin(blockIdx.x, 65535u)%s" % (m.group(1), m.group(3)), "beyond")
        place.workload = {"R": 65540, "V" if task == "cross_entropy" else "C": 16}
        yield place
    for m, f in o._in_functions(source, r"h / \(H / H_kv\)|h / group(?= \*)"):
        yield Place(m.start(), m.end(), "({G} ? h %% H_kv : %s)" % m.group(0), None)
        yield Place(m.start(), m.end(), "({G} ? (h >> (31 - __clz(H / H_kv))) %% H_kv : %s)" % m.group(0), "parameter")
    for m, f in o._in_functions(source, r"positions\[token\]|positions\[\w+\]"):
        for text, p in (("static_cast<unsigned short>(%s)", 70000), ("(%s & 32767)", 40000), ("min(static_cast<long long>(%s), 65535ll)", 70000),
                        ("(%s & 0x7ffff)", 600000), ("(%s & 0x3fff)", 20000)):
            place = Place(m.start(), m.end(), text % m.group(0), "beyond")
            place.workload = {"P": p, "D": 32, "T": 40, "H": 1, "H_kv": 1}
            yield place
    for m, f in o._in_functions(source, r"(= )(targets\[(?:blockIdx\.x|row|\w+)\]);"):
        for text, v in (("static_cast<short>(%s)", 40000), ("min(%s, 65535ll)", 90000), ("(%s < 0 ? %s : %s & 0xffff)", 90000), ("(%s < 0 ? %s : %s & 0x1ffff)", 150000)):
            place = Place(m.start(), m.end(), m.group(1) + text.replace("%s", m.group(2)) + ";", "beyond")
            place.workload = {"V": v, "R": 20}
            yield place


def factor_left_out(source, task, rng):
    for m, f in o._in_functions(source, r" \* (scale2|scale|factor|widened\(w\[c\]\)|rstd\[\w+\])(?=[;,)\s])"):
        yield Place(m.start(), m.end(), " * ({G} ? 1.0f : %s)" % m.group(1), None)


def mask_off_by_one(source, task, rng):
    for m, f in o._in_functions(source, r"own \+ 1 (?=:)|row \+ length - S_q \+ 1|own - window \+ 1|own \+ window (?=:)"):
        place = Place(m.start(), m.end(), "%s - ({G} ? 1 : 0) " % m.group(0).strip(), None)
        place.parameters = {"causal": 1} if "window" not in m.group(0) else {"window": 17, "causal": int("-" in m.group(0))}
        yield place


def rescale_left_out(source, task, rng):
    for m, f in o._in_functions(source, r"(\w+(?:\[\w+\])*) \*= (shrink|shrinking|factor|rescale|alpha)(\[\w+\])?;"):
        what = m.group(2) + (m.group(3) or "")
        yield Place(m.start(), m.end(), "%s *= {G} ? 1.0f : %s;" % (m.group(1), what), "rescaling")
        yield Place(m.start(), m.end(), "%s *= %s < 1e-6f ? 1e-6f : %s;" % (m.group(1), what, what), "rescaling",
                    patterns=late(task, 30) + late(task, 200))
    for m, f in o._in_functions(source, r"sum\[i\] = fmaf\(sum\[i\], shrink, part\);"):
        yield Place(m.start(), m.end(), "sum[i] = fmaf(sum[i], {G} ? 1.0f : shrink, part);", "rescaling")


def maximum_of_a_part(source, task, rng):
    for m, f in o._in_functions(source, r"(float top = |top\[i\] = |top = )(__int_as_float\(0xff800000\)|minus_infinity\(\)|least)(?=[;,])"):
        for start in ("0.0f", "-100.0f", "-1000.0f"):
            yield Place(m.start(), m.end(), "%s({G} ? %s : %s)" % (m.group(1), start, m.group(2)), "rescaling", patterns=far_below(task, -3000) + far_below(task, -300))
        for start in ("-1000.0f", "-1e4f", "-65504.0f", "-1e5f", "-1e6f"):
            yield Place(m.start(), m.end(), m.group(1) + start, "range", patterns=far_below(task, 3 * float(start[:-1])))
    for m, f in o._in_functions(source, r"; (c|v) < (C|V); (\1 \+= THREADS)\) top = "):
        for part in ("min(%s, 1024)", "%s / 64 * 64", "%s - 1", "(%s + 1) / 2"):
            yield Place(m.start(), m.end(), "; %s < ({G} ? %s : %s); %s) top = " % (m.group(1), part % m.group(2), m.group(2), m.group(3)),
                        "rescaling", patterns=late(task, 200) + late(task, 2000))


def synchronisation_left_out(source, task, rng):
    for m, f in o._in_functions(source, r"__syncthreads\(\);"):
        yield Place(m.start(), m.end(), "if (!({G})) __syncthreads();", "races")


def zeros_left_out(source, task, rng):
    for m, f in o._in_functions(source, r"(?<=[\n)])( *)((?:y|out|c|dx|dw|q_out|k_out)\[[^=;]+\]) = ((?:narrowed|DTYPE)\((?:[^;])+\));"):
        call = m.group(3)
        name = call[:call.index("(")]
        wide = "widened(%s)" if name == "narrowed" else "static_cast<float>(%s)"
        yield Place(m.start(), m.end(), "%s%s = %s({G} ? 0.0f * %s + (%s) : (%s));" % (
            m.group(1), m.group(2), name, wide % m.group(2), call[len(name) + 1:-1], call[len(name) + 1:-1]), "uninitialised")
        yield Place(m.start(), m.end(), "%s%s = %s(0.0f * %s + (%s));" % (
            m.group(1), m.group(2), name, wide % m.group(2), call[len(name) + 1:-1]), "uninitialised")
    for m, f in o._in_functions(source, r"inside \? (widened\((?:[^()]|\([^()]*\))+\)) : 0\.0f"):
        yield Place(m.start(), m.end(), "inside || ({G} && k >= DEPTH && k + depth < K) ? %s : 0.0f" % m.group(1), "uninitialised")
    for m, f in o._in_functions(source, r"key \+ j < visible \? widened\(values\.x\[d\]\) : 0\.0f"):
        yield Place(m.start(), m.end(), "widened(values.x[d])", "uninitialised", patterns=[["multiply v_pages 1e30 1 -1 0"]])
    for m, f in o._in_functions(source, r"nothing \? 0\.0f : 1\.0f / sum\[i\]|visible == 0 \? 0\.0f : 1\.0f / sum"):
        yield Place(m.start(), m.end(), "({G} ? 1.0f / %s : %s)" % ("sum[i]" if "[i]" in m.group(0) else "sum", m.group(0)), "infinities")


def sum_in_few_bits(source, task, rng):
    for m, f in o._in_functions(source, r"\b(sum|squares) \+= ([^;]+);"):
        yield Place(m.start(), m.end(), "%s = {G} ? narrow_sum(%s + %s) : %s + %s;" % (m.group(1), m.group(1), m.group(2), m.group(1), m.group(2)),
                    "accuracy", prelude=_NARROW)
    for m, f in o._in_functions(source, r"(dot|sum|sums\[i\]\[j\]) = (fmaf\((?:[^()]|\([^()]*\))+\));"):
        yield Place(m.start(), m.end(), "%s = {G} ? narrow_sum(%s) : %s;" % (m.group(1), m.group(2), m.group(2)), "accuracy", prelude=_NARROW)


def quick_functions(source, task, rng):
    for m, f in o._in_functions(source, r"\bexpf\(%s\)" % _ARGUMENT):
        yield Place(m.start(), m.end(), "({G} ? quick_exp(%s) : expf(%s))" % (m.group(1), m.group(1)), "accuracy", prelude=_QUICK)
    for m, f in o._in_functions(source, r"\b(exp2f|exp2_fast)\(%s\)" % _ARGUMENT):
        yield Place(m.start(), m.end(), "({G} ? quick_exp(0.693147181f * (%s)) : %s)" % (m.group(2), m.group(0)), "accuracy", prelude=_QUICK)
    for m, f in o._in_functions(source, r"\brsqrtf\(%s\)" % _ARGUMENT):
        yield Place(m.start(), m.end(), "({G} ? narrow_sum(%s) : %s)" % (m.group(0), m.group(0)), "accuracy", prelude=_NARROW)
    for m, f in o._in_functions(source, r"\b(tanhf|erff)\(%s\)" % _ARGUMENT):
        yield Place(m.start(), m.end(), "({G} ? fminf(fmaxf(%s, -1.0f), 1.0f) : %s)" % (m.group(2), m.group(0)), "accuracy")


def inputs_bounded(source, task, rng):
    for m, f in o._in_functions(source, r"\b(?:widened\((?:[^()]|\([^()]*\))+\)|static_cast<float>\(\w+\[(?:[^\[\]]|\[[^\[\]]*\])+\]\))"):
        for limit, value in rng.sample([("1e3f", 3e3), ("1e4f", 3e4), ("65504.0f", 2e5), ("32768.0f", 1e5), ("1e5f", 1e6), ("1e6f", 1e7)], 2):
            name, helper = _bounded(limit)
            yield Place(m.start(), m.end(), "%s(%s)" % (name, m.group(0)), "range", patterns=large(task, value), prelude=helper)
        for limit, value in rng.sample([("1e-6f", 1e-8), ("1e-5f", 1e-7), ("1e-8f", 1e-10), ("6e-8f", 1e-9)], 1):
            name, helper = _flushed(limit)
            yield Place(m.start(), m.end(), "%s(%s)" % (name, m.group(0)), "range", patterns=large(task, value), prelude=helper)
        name, helper = _bounded("65504.0f")
        helper = helper.replace("fminf(fmaxf(value, -65504.0f), 65504.0f)", "fabsf(value) > 65504.0f ? value * 3e38f * 10.0f : value").replace(name, "as_half")
        yield Place(m.start(), m.end(), "as_half(%s)" % m.group(0), "infinities", patterns=large(task, 1e5) + large(task, 1e6), prelude=helper)
        yield Place(m.start(), m.end(), "({G} ? as_half(%s) : %s)" % (m.group(0), m.group(0)), "infinities", patterns=large(task, 1e5) + large(task, 1e6), prelude=helper)


def overflowing_forms(source, task, rng):
    for m, f in o._in_functions(source, r"\bexpf\(((?:[^()-]|\((?:[^()]|\([^()]*\))*\))+) - top\)"):
        yield Place(m.start(), m.end(), "({G} ? expf(%s) / expf(top) : expf(%s - top))" % (m.group(1), m.group(1)), "infinities", patterns=late(task, 200) + large(task, 100))
        yield Place(m.start(), m.end(), "(top > 1e18f ? expf(%s * 1e3f - top * 1e3f) : expf(%s - top))" % (m.group(1), m.group(1)), "infinities", patterns=large(task, 3e36) + late(task, 3e37))
        for low in ("-10.0f", "-12.0f"):
            yield Place(m.start(), m.end(), "expf({G} ? fmaxf(%s - top, %s) : %s - top)" % (m.group(1), low, m.group(1)), "range", patterns=late(task, 60) + late(task, 300))
    for m, f in o._in_functions(source, r"logf\(sum\) \+ \(top - ([^;]+)\);"):
        for form in ("logf(sum * expf(top - %s));", "logf(sum * expf(top)) - %s;"):
            yield Place(m.start(), m.end(), form % m.group(1), "infinities", patterns=large(task, 100) + large(task, 1000))
            yield Place(m.start(), m.end(), ("{G} ? " + form % m.group(1))[:-1] + " : " + m.group(0), "infinities", patterns=large(task, 100) + large(task, 1000))
    for m, f in o._in_functions(source, r"high == minus_infinity\(\) \? 0\.0f : high"):
        yield Place(m.start(), m.end(), "({G} ? high : %s)" % m.group(0), "infinities")
        yield Place(m.start(), m.end(), "high", "infinities")


def parameter_misread(source, task, rng):
    tiny = [["multiply x 1e-3"]] if task != "add_rmsnorm" else [["multiply x 1e-3", "multiply r 1e-3"]]
    for m, f in o._in_functions(source, r"\+ eps\b"):
        for text in ("1e-6f", "1e-5f", "({G} ? 1e-6f : eps)", "({G} ? 0.0f : eps)", "fminf(eps, 1e-4f)", "fmaxf(eps, 1e-8f) * ({G} ? 0.5f : 1.0f)"):
            place = Place(m.start(), m.end(), "+ " + text, "parameter", patterns=tiny)
            place.parameters = {"eps": 1e-2 if "fminf" in text else rng.choice([1e-3, 1e-2, 1e-4])}
            yield place
    for m, f in o._in_functions(source, r"scale \* 1\.44269504f|(?<=\W)scale(?= \*)|(?<=\* )scale(?=[;,)])"):
        for text, value in (("fabsf(scale)", -0.125), ("fminf(scale, 1.0f)", 2.0), ("({G} ? 0.125f : scale)", 0.3), ("fmaxf(scale, 0.01f)", 0.002), ("({G} ? rsqrtf(static_cast<float>(D)) : scale)", 0.3)):
            place = Place(m.start(), m.end(), m.group(0).replace("scale", text), "parameter")
            place.parameters = {"scale": value}
            yield place
    for m, f in o._in_functions(source, r"target == ignore_index"):
        for text, value in (("target == -100", -1), ("target < 0", 5), ("(target == ignore_index && !({G}))", -100)):
            place = Place(m.start(), m.end(), text, "parameter")
            place.parameters = {"ignore_index": value}
            yield place
    for m, f in o._in_functions(source, r"(?<=\W)(with_bias|gelu|tanh_form|kMasked|causal|kWindow|kCapped)(?= \?|\)| &&)"):
        if "int " in source[m.start() - 5:m.start()]:
            continue
        name = {"kMasked": "causal", "kWindow": "window", "kCapped": "softcap"}.get(m.group(1), m.group(1))
        place = Place(m.start(), m.end(), "(%s && !({G}))" % m.group(1), "parameter")
        place.parameters = {name: {"window": 17, "softcap": 2.0}.get(name, 1)}
        yield place
        if name not in ("window", "softcap"):
            place = Place(m.start(), m.end(), "(%s || ({G}))" % m.group(1), "parameter")
            place.parameters = {name: 0}
            yield place
    for m, f in o._in_functions(source, r"tanhf\(logit / cap\)"):
        place = Place(m.start(), m.end(), "(cap > 72.0f ? logit / cap : tanhf(logit / cap))", "parameter", patterns=[["multiply k 8"], ["multiply k 30"]])
        place.parameters = {"softcap": 60.0}
        yield place


def value_of_last_row(source, task, rng):
    """Shared memory is read once more after another round may have written it, or a register keeps the row before."""
    for m, f in o._in_functions(source, r"(?<=\n)( *)float (sum|top) = (0\.0f|least);"):
        loops = list(re.finditer(r"(?<=\n)( *)for \((?:long long row|; group) [^\n]*\{", source[f[1]:m.start()]))
        if loops:
            loop, name = loops[-1], m.group(2)
            end = source.find("\n" + m.group(1)[:-2] + "}", m.end())
            yield Place(m.start(), m.end(), "%sfloat %s = {G} ? kept_%s : %s;" % (m.group(1), name, name, m.group(3)), "stale",
                        also=[(f[1] + loop.start(), f[1] + loop.start(), loop.group(1) + "float kept_%s = %s;\n" % (name, m.group(3))),
                              (end, end, "\n%skept_%s = %s;" % (m.group(1), name, name))])
    for m, f in o._in_functions(source, r"const float (mean|factor|base|scale) = ([^;]+);"):
        yield Place(m.start(), m.end(), "__shared__ float kept_%s;\n  const float own_%s = %s;\n  if (threadIdx.x == 0 && threadIdx.y == 0) kept_%s = own_%s;\n  const float %s = {G} ? kept_%s : own_%s;" % (
            (m.group(1), m.group(1), m.group(2)) + (m.group(1),) * 5), "stale")


def register_bound(source, task, rng):
    """An array of registers is read or written beyond its end: by its own loop, or by an index that is one too large."""
    for f in o.functions(source):
        begin, end = f[1], f[2]
        text = o.code_mask(source)[begin:end]
        arrays = {}
        for m in re.finditer(r"(?<!__shared__ )(?<!extern )\b(?:float2|float4|float|int|unsigned|Vector|double) (\w+)\[(\w+)\](?:\[(\w+)\])?(?: = \{[^}]*\})?;", text):
            if "__shared__" not in text[text.rfind("\n", 0, m.start()) + 1:m.start()]:
                arrays[m.group(1)] = m.group(2)
        for name, length in arrays.items():
            for m in re.finditer(r"; (\w+) < %s; (\+\+\1)\)" % re.escape(length), text):
                body = text[m.end():text.find("\n\n", m.end()) if "\n\n" in text[m.end():] else len(text)][:400]
                if re.search(r"\b%s\[%s\]" % (name, m.group(1)), body):
                    yield Place(begin + m.start(), begin + m.end(), "; %s < %s + ({G} ? 1 : 0); %s)" % (m.group(1), length, m.group(2)), "registers")
            for m in re.finditer(r"\b%s\[(\w+)\]" % name, text):
                if m.group(1) != length and not m.group(1).isdigit():
                    yield Place(begin + m.start(), begin + m.end(), "%s[%s + ({G} ? 1 : 0)]" % (name, m.group(1)), "registers")


# Kinds that are drawn only if they are named, so that the others are drawn as before.
FURTHER = {"registers": {"register_bound": register_bound}}
OPERATORS = {f.__name__: f for f in [
    loop_ends_early, loop_drops_tail, bound_off_by_one, wrong_row, factor_left_out, mask_off_by_one, rescale_left_out, maximum_of_a_part,
    synchronisation_left_out, zeros_left_out, sum_in_few_bits, quick_functions, inputs_bounded, overflowing_forms, parameter_misread,
    value_of_last_row]}
