"""Mistakes of operators.py that show for some values, parameters or sizes, and the list of all operators of cpu kernels."""

import re

from operators import (HELPERS, INPUT, LOADS, Place, _in_functions, far_below, large, late, loop_ends_early, loop_drops_tail, loop_starts_late, wrong_row, wrong_stride, wrong_head, store_left_out, factor_left_out, sign_turned, mask_off_by_one, rescale_left_out, maximum_of_a_part, zeros_left_out, scratch_shared, overlapping_rows, sum_in_few_bits, quick_functions, value_of_last_row)


def _bounded(limit):
    name = "bounded_%s" % re.sub(r"\W", "_", limit)
    return name, "inline float %s(float value) { return value > %s ? %s : value < -%s ? -%s : value; }\n" % (
        name, limit, limit, limit, limit)


def _flushed(limit):
    name = "flushed_%s" % re.sub(r"\W", "_", limit)
    return name, "inline float %s(float value) { return value < %s && value > -%s ? 0.0f : value; }\n" % (name, limit, limit)


# --- Values: mistakes that show for some inputs, with or without a guard. ---

def inputs_bounded(source, task, rng):
    for m, f in _in_functions(source, LOADS):
        if re.match(r"\s*(=[^=]|\+=|/=|\*=|-=)", source[m.end():m.end() + 4]) or source[max(0, m.start() - 1)] in "&*":
            continue
        for limit, value in rng.sample([("1e3f", 3e3), ("1e4f", 3e4), ("65504.0f", 2e5), ("32768.0f", 1e5), ("1e5f", 1e6), ("1e6f", 1e7), ("1e9f", 1e11)], 3):
            name, helper = _bounded(limit)
            yield Place(m.start(), m.end(), "%s(%s)" % (name, m.group(0)), "range", patterns=large(task, value), prelude=helper)
        for limit, value in rng.sample([("1e-6f", 1e-8), ("1e-5f", 1e-7), ("1e-8f", 1e-10), ("6e-8f", 1e-9), ("1e-12f", 1e-14)], 2):
            name, helper = _flushed(limit)
            yield Place(m.start(), m.end(), "%s(%s)" % (name, m.group(0)), "range", patterns=large(task, value), prelude=helper)
        yield Place(m.start(), m.end(), "half_value(%s)" % m.group(0), "infinities", patterns=large(task, 1e5) + large(task, 1e6), prelude=HELPERS["half_value"])
        yield Place(m.start(), m.end(), "({G} ? half_value(%s) : %s)" % (m.group(0), m.group(0)), "infinities", patterns=large(task, 1e5) + large(task, 1e6),
                    prelude=HELPERS["half_value"])


def maximum_begins_at(source, task, rng):
    for m, f in _in_functions(source, r"(float (?:maximum|top)) = -INFINITY|float maximum = kLeast;|(maxima\[i\]) = -INFINITY;"):
        for start in rng.sample(["-1000.0f", "-1e4f", "-32768.0f", "-65504.0f", "-1e5f", "-1e6f"], 4):
            value = 3 * float(start.rstrip("f"))
            yield Place(m.start(), m.end(), m.group(0).replace("-INFINITY", start).replace("kLeast", start), "range", patterns=far_below(task, value))
    for m, f in _in_functions(source, r"Vector tail = broadcast\(kLeast\);"):
        for start in rng.sample(["-1000.0f", "-1e4f", "-65504.0f", "-1e5f", "-1e6f"], 3):
            yield Place(m.start(), m.end(), "Vector tail = broadcast(%s);" % start, "range", patterns=far_below(task, 3 * float(start.rstrip("f"))))


def overflowing_forms(source, task, rng):
    """Formulas that are right until an exponential or a square overflows."""
    for m, f in _in_functions(source, r"std::exp\((in\[(\w)\]|row_logits\[j\]) - (maximum|top)\)"):
        yield Place(m.start(), m.end(), "({G} ? std::exp(%s) / std::exp(%s) : std::exp(%s - %s))" % (m.group(1), m.group(3), m.group(1), m.group(3)),
                    "infinities", patterns=late(task, 200) + large(task, 100))
        yield Place(m.start(), m.end(), "(%s > 1e18f ? std::exp(%s * 1e3f - %s * 1e3f) : std::exp(%s - %s))" % (m.group(3), m.group(1), m.group(3), m.group(1), m.group(3)),
                    "infinities", patterns=large(task, 3e36) + late(task, 3e37))
        yield Place(m.start(), m.end(), "std::exp2(%s > 1e10f || %s < -1e10f ? %s * 1.44269504f - %s * 1.44269504f : (%s - %s) * 1.44269504f)" % (
            m.group(3), m.group(3), m.group(1), m.group(3), m.group(1), m.group(3)), "infinities", patterns=large(task, 1e38) + [["multiply %s 1e-9" % INPUT[task], "add %s 3e38" % INPUT[task]]])
    for m, f in _in_functions(source, r"gate\[i\] / \(1\.0f \+ std::exp\(-gate\[i\]\)\) \* up\[i\]"):
        for form in ["gate[i] * std::exp(gate[i]) / (1.0f + std::exp(gate[i])) * up[i]", "gate[i] * (1.0f - 1.0f / (1.0f + std::exp(gate[i]))) * up[i]",
                     "gate[i] * up[i] / (1.0f + std::exp(-gate[i]))", "gate[i] * up[i] * (std::exp(gate[i]) / (std::exp(gate[i]) + 1.0f))"]:
            yield Place(m.start(), m.end(), form, "infinities", patterns=large(task, 100) + large(task, 1e20) + [["multiply gate 1e20", "multiply up 1e20"]])
            yield Place(m.start(), m.end(), "({G} ? %s : %s)" % (form, m.group(0)), "infinities", patterns=large(task, 100) + [["multiply gate 1e19", "multiply up 1e19"]])
    for m, f in _in_functions(source, r"gate / \(1\.0f \+ std::exp\(-gate\)\) \* up"):
        for form in ["gate * std::exp(gate) / (1.0f + std::exp(gate)) * up", "up * (std::exp(gate) * gate / (std::exp(gate) + 1.0f))"]:
            yield Place(m.start(), m.end(), form, "infinities", patterns=large(task, 100))
            yield Place(m.start(), m.end(), "({G} ? %s : %s)" % (form, m.group(0)), "infinities", patterns=large(task, 100))
    for m, f in _in_functions(source, r"std::tanh\(((?:[^()]|\([^()]*\))+)\)"):
        form = "(std::exp(2.0f * (%s)) - 1.0f) / (std::exp(2.0f * (%s)) + 1.0f)" % (m.group(1), m.group(1))
        yield Place(m.start(), m.end(), form, "infinities", patterns=large(task, 30) + large(task, 100))
        yield Place(m.start(), m.end(), "({G} ? %s : %s)" % (form, m.group(0)), "infinities", patterns=large(task, 30) + large(task, 100))
    for m, f in _in_functions(source, r"std::log\(sum\) \+ \(top - in\[target\]\)"):
        for form in ["std::log(sum * std::exp(top - in[target]))", "std::log(sum * std::exp(top)) - in[target]", "-std::log(std::exp(in[target] - top) / sum)"]:
            yield Place(m.start(), m.end(), form, "infinities", patterns=large(task, 100) + large(task, 1000))
            yield Place(m.start(), m.end(), "({G} ? %s : %s)" % (form, m.group(0)), "infinities", patterns=large(task, 100) + large(task, 1000))
    for m, f in _in_functions(source, r"const bool blind = maxima\[i\] == -INFINITY;"):
        yield Place(m.start(), m.end(), "const bool blind = !({G}) && maxima[i] == -INFINITY;", "infinities")
        yield Place(m.start(), m.end(), "const bool blind = maxima[i] < ({G} ? -1000.0f : -3e38f);", "infinities", patterns=far_below(task, -3000))
    for m, f in _in_functions(source, r"lse\[row\] = -INFINITY;"):
        yield Place(m.start(), m.end(), "lse[row] = {G} ? 0.0f : -INFINITY;", "infinities")
    for m, f in _in_functions(source, r"> -kInfinity"):
        yield Place(m.start(), m.end(), "> ({G} ? -1000.0f : -kInfinity)", "infinities", patterns=far_below(task, -3000))
    for m, f in _in_functions(source, r"z = z (>|<) broadcast\((-?87\.0f)\) \? z : broadcast\(-?87\.0f\);"):
        yield Place(m.start(), m.end(), "", "infinities", patterns=large(task, 200) + large(task, 1e4))
        yield Place(m.start(), m.end(), "if (!({G})) " + m.group(0), "infinities", patterns=large(task, 200) + large(task, 1e4))
    for m, f in _in_functions(source, r"1\.0f / std::sqrt\(((?:[^()]|\([^()]*\))+)\)"):
        yield Place(m.start(), m.end(), "std::sqrt(1.0f / (%s))" % m.group(1), "infinities", patterns=large(task, 1e18) + large(task, 1e-19))
        yield Place(m.start(), m.end(), "1.0f / std::pow(%s, 1.5f) * (%s)" % (m.group(1), m.group(1)), "infinities", patterns=large(task, 1e13) + large(task, 1e16))


def other_ranges(source, task, rng):
    for m, f in _in_functions(source, r"std::exp\(((?:[^()]|\([^()]*\))+)\)"):
        inner = m.group(1)
        for low in ("-10.0f", "-12.0f", "-15.0f"):
            yield Place(m.start(), m.end(), "std::exp(%s > %s ? %s : %s)" % (inner, low, inner, low), "range", patterns=late(task, 60) + late(task, 300) + far_below(task, -15))
            yield Place(m.start(), m.end(), "std::exp({G} && %s < %s ? %s : %s)" % (inner, low, low, inner), "range", patterns=late(task, 60) + late(task, 300))
        for high in ("30.0f", "60.0f"):
            yield Place(m.start(), m.end(), "std::exp(%s < %s ? %s : %s)" % (inner, high, inner, high), "range", patterns=far_below(task, -70) + far_below(task, -40) + large(task, 30))
    if "squares" in source:
        for m, f in _in_functions(source, r"sum_of\(C, \[&\]\(int c\) \{ return \(in\[c\] - mean\) \* \(in\[c\] - mean\); \}\)"):
            form = "(sum_of(C, [&](int c) { return in[c] * in[c]; }) - mean * mean * static_cast<float>(C))"
            for guard in ("{G}", "mean < 20.0f && mean > -20.0f", "mean > 50.0f || mean < -50.0f"):
                yield Place(m.start(), m.end(), "(%s ? %s : %s)" % (guard, form, m.group(0)), "range",
                            patterns=[["add x 15"], ["add x 100"], ["add x 1000"], ["multiply x 0.01", "add x 15"], ["multiply x 0.01", "add x 100"]])
    for m, f in _in_functions(source, r"std::erf\(v \* 0\.707106781f\)"):
        for low in ("3.0f", "3.5f", "4.0f", "5.0f"):
            yield Place(m.start(), m.end(), "(v < -%s ? -1.0f : std::erf(v * 0.707106781f))" % low, "range",
                        patterns=[["multiply x 0.1", "add x -%g" % (float(low[:-1]) + 0.5)]])
    for m, f in _in_functions(source, r"std::tanh\(((?:[^()]|\([^()]*\))+)\)"):
        for low in ("3.0f", "4.0f", "5.0f"):
            yield Place(m.start(), m.end(), "(v < -%s ? -1.0f : std::tanh(%s))" % (low, m.group(1)), "range",
                        patterns=[["multiply %s 0.1" % INPUT[task], "add %s -%g" % (INPUT[task], float(low[:-1]) + 0.3)]])
    for m, f in _in_functions(source, r"if \((in\[c\]|row_logits\[j\]) > maximum\) maximum = \1;"):
        yield Place(m.start(), m.end(), "if (%s > maximum && %s < 1e4f) maximum = %s;" % ((m.group(1),) * 3), "range", patterns=late(task, 2e4) + large(task, 1e5))
        yield Place(m.start(), m.end(), "if (std::fabs(%s) > std::fabs(maximum) || maximum == -INFINITY) maximum = %s;" % ((m.group(1),) * 2), "range",
                    patterns=far_below(task, -100) + far_below(task, -3000))
        yield Place(m.start(), m.end(), "if (static_cast<int>(%s * 16.0f) > static_cast<int>(maximum == -INFINITY ? -1e8f : maximum * 16.0f)) maximum = %s;" % ((m.group(1),) * 2),
                    "range", patterns=large(task, 1e9) + far_below(task, -3e8))
    for m, f in _in_functions(source, r"\+ eps\b"):
        yield Place(m.start(), m.end(), "+ (eps > 1e-5f ? 1e-5f : eps)", "parameter", patterns=[["multiply x 1e-3"], ["multiply x 1e-3", "multiply r 1e-3"]])


# --- Parameters. ---

def parameter_misread(source, task, rng):
    tiny = [["multiply x 1e-3"]] if task != "add_rmsnorm" else [["multiply x 1e-3", "multiply r 1e-3"]]
    for m, f in _in_functions(source, r"\+ eps\b"):
        for text in ("1e-6f", "1e-5f", "({G} ? 1e-6f : eps)", "({G} ? 1e-5f : eps)", "({G} ? 0.0f : eps)", "(eps < 1e-4f ? eps : 1e-4f)", "eps * ({G} ? 1.0f / C : 1.0f)"):
            place = Place(m.start(), m.end(), "+ " + text, "parameter", patterns=tiny)
            place.parameters = {"eps": rng.choice([1e-3, 1e-2, 1e-4, 1e-12 if "1e-4f" not in text else 1e-2])}
            yield place
    for m, f in _in_functions(source, r"(?<=\W)(head\.scale|scale)\b(?= ?[;,)*]| - )"):
        if source[m.start() - 8:m.start()].strip().endswith("float") or "float scale" in source[m.start() - 8:m.end()]:
            continue
        for text, value in [("std::fabs(%s)", -0.125), ("(%s > 1.0f ? 1.0f : %s)", 2.0), ("({G} ? 0.125f : %s)", 0.3), ("(%s < 0.01f ? 0.01f : %s)", 0.002), ("({G} ? std::fabs(%s) : %s)", -0.1),
                            ("(%s == 0.0f ? 0.125f : %s)", 0.0)]:
            place = Place(m.start(), m.end(), text.replace("%s", m.group(1)), "parameter")
            place.parameters = {"scale": value}
            yield place
    for m, f in _in_functions(source, r"target == ignore_index"):
        for text, value in [("target == -100", -1), ("target < 0", 5), ("target == ignore_index || target == -1", None), ("(target == ignore_index && !({G}))", -100), ("target == (ignore_index < 0 ? -100 : ignore_index)", -1),
                            ("static_cast<short>(target) == ignore_index", -100)]:
            if value is None:
                continue
            place = Place(m.start(), m.end(), text, "parameter")
            place.parameters = {"ignore_index": value}
            yield place
    for m, f in _in_functions(source, r"softcap > 0\.0f"):
        for text, value in [("(softcap > 0.0f && softcap < 40.0f)", 50.0), ("(softcap > 1.0f)", 0.5), ("(softcap > 0.0f && !({G}))", 2.0)]:
            place = Place(m.start(), m.end(), text, "parameter", patterns=[["multiply k 8"], ["multiply k 30"]])
            place.parameters = {"softcap": value}
            yield place
    for m, f in _in_functions(source, r"own - window \+ 1"):
        for text, value in [("own - window + 1 - ({G} ? 1 : 0)", 17), ("own - window / 2 * 2 + 1", 17), ("own - (window < 1024 ? window : 1024) + 1", None), ("own - window + (window > 60 ? 2 : 1)", 70), ("own - window + (causal ? 1 : 1 + ({G}))", 20)]:
            if value is None:
                continue
            place = Place(m.start(), m.end(), text, "parameter")
            place.parameters = {"window": value}
            yield place
    for m, f in _in_functions(source, r"own \+ window;"):
        for text, value in [("own + window - ({G} ? 1 : 0);", 17), ("own + window + (window > 60);", 70)]:
            place = Place(m.start(), m.end(), text, "parameter")
            place.parameters = {"window": value}
            yield place
    for m, f in _in_functions(source, r"if \(with_bias\) v \+= bias\[n\];"):
        for text in ("if (with_bias) v += bias[{G} ? n / 2 * 2 : n];", "if (with_bias && !({G})) v += bias[n];", "if (with_bias || ({G})) v += bias[n];"):
            place = Place(m.start(), m.end(), text, "parameter")
            place.parameters = {"with_bias": 0 if "||" in text else 1}
            yield place
    for m, f in _in_functions(source, r"if \(gelu\)"):
        for text, value in (("if (gelu && !({G}))", 1), ("if (gelu || ({G}))", 0)):
            place = Place(m.start(), m.end(), text, "parameter")
            place.parameters = {"gelu": value}
            yield place
    for m, f in _in_functions(source, r"(?<=\W)tanh_form(?= \?)|gelu_of\(load\(x \+ i \+ n \* WIDTH\), tanh_form"):
        for text, value in (("(tanh_form && !({G}))", 1), ("(tanh_form || ({G}))", 0)):
            place = Place(m.start(), m.end(), m.group(0).replace("tanh_form", text), "parameter", patterns=[["multiply x 1"]])
            place.parameters = {"tanh_form": value}
            yield place
    for m, f in _in_functions(source, r"(?<=\W)causal(?= \?|\)| &&)"):
        if "int causal" in source[m.start() - 5:m.end()]:
            continue
        for text, value in (("(causal && !({G}))", 1), ("(causal || ({G}))", 0)):
            place = Place(m.start(), m.end(), text, "parameter")
            place.parameters = {"causal": value}
            yield place


# --- Sizes that do not fit a type. ---

def narrow_types(source, task, rng):
    def with_(place, workload):
        place.workload = workload
        return place
    for m, f in _in_functions(source, r"positions\[t\]"):
        for text, p in (("static_cast<unsigned short>(positions[t])", 70000), ("static_cast<short>(positions[t] & 0xffff)", 40000), ("(positions[t] < 65536 ? positions[t] : 65535)", 70000),
                        ("(positions[t] & 32767)", 40000), ("(positions[t] < 10000 ? positions[t] : positions[t] - 1)", 20000), ("(positions[t] % 16384)", 20000), ("(positions[t] & 0x7ffff)", 600000)):
            yield with_(Place(m.start(), m.end(), text, "beyond"), {"P": p, "D": 16, "T": 40, "H": 1, "H_kv": 1})
    for m, f in _in_functions(source, r"= targets\[row\];"):
        for text, v in (("= static_cast<short>(targets[row]);", 40000), ("= static_cast<unsigned short>(targets[row]) == 65436 ? -100 : static_cast<unsigned short>(targets[row]);", 70000),
                        ("= targets[row] < 65536 ? targets[row] : 65535;", 90000), ("= targets[row] < 0 ? targets[row] : targets[row] & 0xffff;", 90000), ("= targets[row] < 0 ? targets[row] : targets[row] & 0x1ffff;", 150000)):
            yield with_(Place(m.start(), m.end(), text, "beyond"), {"V": v, "R": 20})
    column = {"cross_entropy": "V"}.get(task, "C")
    row = "T" if task == "rope" else "R"
    for m, f in _in_functions(source, r"static_cast<std::ptrdiff_t>\((R|T)\) \* (thread|\(thread \+ 1\)) / threads"):
        for text, r in (("static_cast<std::ptrdiff_t>(static_cast<unsigned short>(%s)) * %s / threads", 65540), ("static_cast<std::ptrdiff_t>(%s < 65536 ? %s : 65535) * %s / threads", 65540),
                        ("static_cast<std::ptrdiff_t>(%s < 100000 ? %s : 100000) * %s / threads", 100003), ("static_cast<std::ptrdiff_t>(%s < 131072 ? %s : 131072) * %s / threads", 131100)):
            filled = text.replace("%s", m.group(1), text.count("%s") - 1).replace("%s", m.group(2))
            workload = {"R": r, column: 8} if row == "R" else {"T": r, "D": 8, "H": 1, "H_kv": 1}
            both = source.find("threads;", m.end())
            place = Place(m.start(), m.end(), filled, "beyond")
            yield with_(place, workload)
    for m, f in _in_functions(source, r"static_cast<float>\((C|V)\)"):
        for text, c in (("static_cast<float>(%s < 65536 ? %s : 65536)", 70000), ("static_cast<float>(static_cast<unsigned short>(%s))", 70000), ("static_cast<float>(%s < 100000 ? %s : 100000)", 150000),
                        ("static_cast<float>(_Float16(%s > 65504 ? 65504 : %s))", 5001)):
            yield with_(Place(m.start(), m.end(), text.replace("%s", m.group(1)), "beyond"), {m.group(1): c})


OPERATORS = {o.__name__: o for o in [
    loop_ends_early, loop_drops_tail, loop_starts_late, wrong_row, wrong_stride, wrong_head, store_left_out, factor_left_out, sign_turned,
    mask_off_by_one, rescale_left_out, maximum_of_a_part, zeros_left_out, scratch_shared, overlapping_rows, sum_in_few_bits, quick_functions,
    value_of_last_row, inputs_bounded, maximum_begins_at, overflowing_forms, other_ranges, parameter_misread, narrow_types]}
