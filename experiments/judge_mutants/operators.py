"""Small mistakes in the text of a kernel.

An operator finds places in a source. Of each place it gives a text in which {G} stands for a condition: the mistake is made
where it holds. `guarded` operators need one; others are mistakes as they are ({G} is then absent)."""

import functools
import re

KEYWORDS = {"if", "for", "while", "return", "else", "const", "int", "float", "static_cast"}


class Place:
    def __init__(self, start, end, text, kind, needs="", patterns=None, order=None, prelude="", also=None, fills=None):
        self.start, self.end, self.text = start, end, text  # source[start:end] becomes text
        self.kind = kind          # None: that of the guard
        self.patterns = patterns or []  # lists of patterns to try in a proof, after the ordinary values
        self.order = order        # of threads in a proof
        self.prelude = prelude    # goes in front of the function
        self.also = also or []    # further (start, end, text)
        self.workload = {}        # dimensions that show it
        self.parameters = {}


def body_start(source):
    return source.index("---*/") + len("---*/")


@functools.lru_cache(200)
def code_mask(source):
    """The source with comments blanked, of equal length."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r"//[^\n]*|/\*.*?\*/", blank, source, flags=re.S)


@functools.lru_cache(200)
def functions(source):
    """(start of the definition, start of the body, end of the body, parameter names) of each function at column 0."""
    mask = code_mask(source)
    result = []
    for match in re.finditer(r"^(?!namespace|struct|class|enum|#|\}|typedef|using|constexpr|union)[A-Za-z_][^\n;{}=]*\((?:[^;{}])*?\)\s*(?:const\s*)?\{", mask, re.M):
        begin = match.end() - 1
        close = re.compile(r"^\}", re.M).search(mask, begin)
        one_line = mask.find("\n", begin)
        if mask[begin:one_line].count("{") == mask[begin:one_line].count("}"):
            end = one_line
        else:
            end = close.end() if close else len(mask)
        text = mask[match.start():match.end()]
        depth, first = 0, None
        arguments = text[text.rfind("(", 0, text.find(")") + 1 if text.count("(") == 1 else len(text)):]
        # the last parenthesis at depth 0 holds the parameters
        at = len(text) - 1
        while text[at] != ")":
            at -= 1
        end_args = at
        while True:
            depth += (text[at] == ")") - (text[at] == "(")
            if depth == 0:
                break
            at -= 1
        arguments = text[at + 1:end_args]
        names = re.findall(r"([A-Za-z_]\w*)(?:\))?\s*(?:\[[^\]]*\])?\s*(?:,|$)", arguments)
        result.append((match.start(), begin, end, set(names)))
    return result


def function_at(source, at):
    for f in functions(source):
        if f[0] <= at < f[2]:
            return f
    return None


# What helpers call the task's dimensions; {kernel: {function text: {dimension: expression}}}.
ALIASES = [
    (r"sum_of\(int count", {"C": "count"}),
    (r"float product\(const float\* a, const float\* b, int count", {"K": "count"}),
    (r"void attend\(const Head& head", {"S_q": "head.S_q", "S_kv": "head.S_kv"}),
    (r"void rotate\(", {}),
    (r"float dot\(const float\* a, const float\* b, int D", {"D": "D"}),
]

LOADS = r"\b(?:in|x|q_row|k_row|v_row|a|b|g|gate|up|residual|in\[c\]|logits|both|b_row)\[(?:[^\[\]]|\[[^\[\]]*\])+\]"

HELPERS = {
    "narrow": """inline float narrow(float value) {
  unsigned bits = __builtin_bit_cast(unsigned, value);
  bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  return __builtin_bit_cast(float, bits);
}
""",
    "quick_exp": """inline float quick_exp(float value) {
  const float bounded = value < -87.0f ? -87.0f : value > 88.0f ? 88.0f : value;
  return __builtin_bit_cast(float, static_cast<int>(12102203.0f * bounded + 1064866805.0f));
}
""",
    "series_exp": """inline float series_exp(float value) {
  float result = 1.0f + value / 256.0f;
  for (int n = 0; n < 8; ++n) result *= result;
  return result;
}
""",
    "half_value": """inline float half_value(float value) { return static_cast<float>(static_cast<_Float16>(value)); }
""",
    "quick_inverse": """inline float quick_inverse(float value) {
  float guess = __builtin_bit_cast(float, 0x7ef311c7u - __builtin_bit_cast(unsigned, value));
  return guess * (2.0f - value * guess);
}
""",
}


def _in_functions(source, regex):
    mask = code_mask(source)
    spans = functions(source)
    for match in re.finditer(regex, mask):
        for f in spans:
            if f[1] <= match.start() < f[2]:
                yield match, f
                break


INPUT = {"softmax": "x", "rmsnorm": "x", "add_rmsnorm": "x", "layernorm": "x", "gelu": "x", "silu_mul": "gate", "row_reduce": "x",
         "rmsnorm_backward": "dy", "transpose": "x", "cross_entropy": "logits", "matmul": "a", "linear": "x", "swiglu_up": "x",
         "rope": "q", "attention_forward": "k", "attention_backward": "grad_o", "attention_paged": "k_pages"}


def far_below(task, value):
    if task.startswith("attention"):
        keys = "k_pages" if task == "attention_paged" else "k"
        return [["absolute q 1", "absolute %s -1" % keys, "multiply %s %g" % (keys, abs(value) / 20.0)]]
    return [["add %s %g" % (INPUT[task], value)]]


def late(task, value):
    if task == "attention_paged":
        return [["absolute q 1", "absolute k_pages 1", "multiply k_pages 0.1", "multiply k_pages %g 1 -1 0" % value]]
    if task.startswith("attention"):
        return [["absolute q 1", "absolute k 1", "multiply k 0.1", "multiply k %g 1 -1 0" % value]]
    axis = {"transpose": 2, "rope": 2}.get(task, 1)
    return [["set %s %g %d -1 0" % (INPUT[task], value, axis)]]


def large(task, value):
    return [["multiply %s %g" % (INPUT[task], value)], ["multiply %s %g %d -1 0" % (INPUT[task], value, 1)],
            ["add %s %g" % (INPUT[task], value)]]


# --- Guarded operators: {G} decides. ---

def loop_ends_early(source, task, rng):
    for m, f in _in_functions(source, r"; (\w+) < ([A-Za-z_][\w.]*); (\+\+\1|\1 \+= [\w ]+)(?=[,)])"):
        if m.group(2) in ("LANES", "ROWS", "WIDTH", "VECTORS", "threads"):
            continue
        yield Place(m.start(), m.end(), "; %s < %s - ({G} ? 1 : 0); %s" % (m.group(1), m.group(2), m.group(3)), None)


def loop_drops_tail(source, task, rng):
    for m, f in _in_functions(source, r"; (\w+) < ([A-Za-z_][\w.]*); (\+\+\1)(?=[,)])"):
        if m.group(2) in ("LANES", "ROWS", "WIDTH", "VECTORS", "threads"):
            continue
        step = rng.choice([4, 8, 16])
        yield Place(m.start(), m.end(), "; %s < ({G} ? %s / %d * %d : %s); %s" % (
            m.group(1), m.group(2), step, step, m.group(2), m.group(3)), "remainder")


def loop_starts_late(source, task, rng):
    for m, f in _in_functions(source, r"for \(int (\w+) = (0|first_key|top); "):
        yield Place(m.start(), m.end(), "for (int %s = %s + ({G} ? 1 : 0); " % (m.group(1), m.group(2)), None)


def wrong_row(source, task, rng):
    """Rows in pairs: the second of a pair reads what the first one reads."""
    for m, f in _in_functions(source, r"(= (?:\w+) \+ )(row|t|r) \* (C|V|D)\b"):
        yield Place(m.start(), m.end(), "%s({G} ? %s / 2 * 2 : %s) * %s" % (m.group(1), m.group(2), m.group(2), m.group(3)), None)


def wrong_stride(source, task, rng):
    for m, f in _in_functions(source, r"\b(m|n|k|static_cast<std::ptrdiff_t>\(k\)) \* (K|N)\b"):
        if source[m.start() - 1] in "[ (":
            yield Place(m.start(), m.end(), "({G} ? %s / 2 * 2 : %s) * %s" % (m.group(1), m.group(1), m.group(2)), None)


def wrong_head(source, task, rng):
    for m, f in _in_functions(source, r"h / \(H / H_kv\)"):
        yield Place(m.start(), m.end(), "({G} ? h % H_kv : h / (H / H_kv))", None)
        yield Place(m.start(), m.end(), "({G} ? (h >> (31 - __builtin_clz(H / H_kv))) % H_kv : h / (H / H_kv))", "parameter")
    for m, f in _in_functions(source, r"(?<!\()h / group"):
        yield Place(m.start(), m.end(), "({G} ? h % H_kv : h / group)", None)


def store_left_out(source, task, rng):
    for m, f in _in_functions(source, r"(?<=[)\s])((?:out|y|o_row|loss|lse|c|dw|q_out|y_row)\[[^\]]+\](?:\[[^\]]+\])?) (/=|\*=|-=) ([^;,]+);"):
        yield Place(m.start(), m.end(), "%s %s ({G} ? %s : %s);" % (
            m.group(1), m.group(2), {"/=": "1.0f", "*=": "1.0f", "-=": "0.0f"}[m.group(2)], m.group(3)), None)


def factor_left_out(source, task, rng):
    for m, f in _in_functions(source, r" \* (scale|factor|w\[c\]|rstd\[row\]|sign)(?=[;,)\s])"):
        yield Place(m.start(), m.end(), " * ({G} ? 1.0f : %s)" % m.group(1), None)


def sign_turned(source, task, rng):
    for m, f in _in_functions(source, r" (\+|-) ([a-z_]\w*(?:\[[^\]]*\])?)(?=[;)])"):
        if m.group(2) in ("threads", "first", "thread", "own", "bottom", "n", "c", "l", "i", "j", "h", "k", "d", "u", "half", "e", "rows", "key", "eps"):
            continue
        yield Place(m.start(), m.end(), " %s ({G} ? -%s : %s)" % (m.group(1), m.group(2), m.group(2)), None)


def mask_off_by_one(source, task, rng):
    for m, f in _in_functions(source, r"(= own|i \+ S_kv - S_q|i \+ length - S_q|first \+ rows \+ diagonal(?= < end)|own \+ window|i \+ S_kv - S_q(?= \+ 1)|j - S_kv \+ S_q) ?(?=\+ 1|;|\)|>)"):
        yield Place(m.start(), m.end(), m.group(1) + " - ({G} ? 1 : 0) ", None)
    for m, f in _in_functions(source, r"int (own|diagonal) = ([^;]+);"):
        yield Place(m.start(), m.end(), "int %s = {G} ? 0 * (%s) + (%s) : %s;" % (
            m.group(1), m.group(2), "i" if m.group(1) == "own" else "0", m.group(2)), "parameter")


def rescale_left_out(source, task, rng):
    for m, f in _in_functions(source, r"output\[i\]\[d\] \*= factor;"):
        yield Place(m.start(), m.end(), "output[i][d] *= {G} ? 1.0f : factor;", "rescaling")
    for m, f in _in_functions(source, r"sums\[i\] = sums\[i\] \* factor \+ sum;"):
        yield Place(m.start(), m.end(), "sums[i] = sums[i] * ({G} ? 1.0f : factor) + sum;", "rescaling")
    for m, f in _in_functions(source, r"sum\[n\] = sums\[n\] \* factors\[n\];"):
        yield Place(m.start(), m.end(), "sum[n] = {G} ? sums[n] : sums[n] * factors[n];", "rescaling")
    for m, f in _in_functions(source, r"key \? factors : nullptr"):
        yield Place(m.start(), m.end(), "key ? ({G} ? s.maxima : factors) : nullptr", "rescaling")
    for m, f in _in_functions(source, r"const float factor = weight_of\(maxima\[i\] - maximum\);"):
        yield Place(m.start(), m.end(), "const float factor = {G} && maximum > maxima[i] + 60.0f ? 1.0f : weight_of(maxima[i] - maximum);",
                    "rescaling", patterns=[["multiply k 30 1 -1 0"], ["multiply k 60 1 -2 0"]])


def maximum_of_a_part(source, task, rng):
    """The maximum is that of the first columns, or begins with a number."""
    for m, f in _in_functions(source, r"(float (?:maximum|top)) = -INFINITY"):
        for start in ("0.0f", "-88.0f", "-1000.0f", "in[0] * 0.0f"):
            if start == "in[0] * 0.0f" and "in =" not in source:
                continue
            yield Place(m.start(), m.end(), "%s = {G} ? %s : -INFINITY" % (m.group(1), start), "rescaling",
                        patterns=far_below(task, -3000))
    for m, f in _in_functions(source, r"for \(int (c|v|j) = (0|first_key); \1 < (C|V|end|visible); \+\+\1\)(?=(?: \{)?\s+(?:if \(in|top = in))"):
        least = {"C": 16, "V": 16}.get(m.group(3), 16)
        part = rng.choice(["16", "64", "%s / 2", "%s / 16 * 16", "%s - 1"])
        part = part % m.group(3) if "%s" in part else part
        yield Place(m.start(), m.end(), "for (int %s = %s; %s < ({G} ? (%s < %s ? %s : %s) : %s); ++%s)" % (
            m.group(1), m.group(2), m.group(1), part, m.group(3), part, m.group(3), m.group(3), m.group(1)), "rescaling",
            patterns=late(task, 200) + late(task, 2000))
    for m, f in _in_functions(source, r"Vector tail = broadcast\(kLeast\);"):
        yield Place(m.start(), m.end(), "Vector tail = broadcast({G} ? 0.0f : kLeast);", "rescaling", patterns=far_below(task, -3000))
    for m, f in _in_functions(source, r"float maximum = kLeast;"):
        yield Place(m.start(), m.end(), "float maximum = {G} ? 0.0f : kLeast;", "rescaling", patterns=far_below(task, -3000))
    for m, f in _in_functions(source, r"= broadcast\(-kInfinity\);"):
        yield Place(m.start(), m.end(), "= broadcast({G} ? 0.0f : -kInfinity);", "rescaling", patterns=far_below(task, -300))
    for m, f in _in_functions(source, r"maxima\[i\] = -INFINITY;"):
        yield Place(m.start(), m.end(), "maxima[i] = {G} ? 0.0f : -INFINITY;", "rescaling", patterns=far_below(task, -300))


def zeros_left_out(source, task, rng):
    """What a product with 0 or a missing initialisation leaves of memory that nobody wrote."""
    for m, f in _in_functions(source, r"for \(int d = 0; d < D; \+\+d\) ((?:o_row|out|key_out)\[d\](?: = value_out\[d\])?) = 0\.0f;"):
        first = m.group(1).split(" = ")[0]
        yield Place(m.start(), m.end(), "for (int d = 0; d < D; ++d) %s = {G} ? 0.0f * %s : 0.0f;" % (m.group(1), first), "uninitialised")
        yield Place(m.start(), m.end(), "for (int d = 0; d < D - ({G} ? 1 : 0); ++d) %s = 0.0f;" % m.group(1), "uninitialised")
    for m, f in _in_functions(source, r"for \(int c = 0; c < C; \+\+c\) part\[c\] = 0\.0f;"):
        yield Place(m.start(), m.end(), "for (int c = 0; c < C; ++c) part[c] = {G} ? 0.0f * part[c] : 0.0f;", "uninitialised")
        yield Place(m.start(), m.end(), "for (int c = 0; c < ({G} ? C / 8 * 8 : C); ++c) part[c] = 0.0f;", "uninitialised")
        yield Place(m.start(), m.end(), "if (!({G})) for (int c = 0; c < C; ++c) part[c] = 0.0f;", "uninitialised")
    for m, f in _in_functions(source, r"(?<=\n)( +)(std::memset\((?:t\.dk|t\.dv|key_sums|query_sums|o_columns)[^;]*;)"):
        yield Place(m.start(), m.end(), m.group(1) + "if (!({G})) " + m.group(2), "uninitialised")
    for m, f in _in_functions(source, r"key \? factors : nullptr"):
        yield Place(m.start(), m.end(), "key || ({G}) ? factors : nullptr", "uninitialised")
    for m, f in _in_functions(source, r"t\.dq, D, first_key > 0\);"):
        yield Place(m.start(), m.end(), "t.dq, D, first_key > 0 || ({G}));", "uninitialised")
    for m, f in _in_functions(source, r"for \(int v = 0; v < V; \+\+v\) out\[v\] = 0\.0f;"):
        yield Place(m.start(), m.end(), "for (int v = 0; v < V - ({G} ? 1 : 0); ++v) out[v] = 0.0f;", "uninitialised")
        yield Place(m.start(), m.end(), "for (int v = 0; v < V; ++v) out[v] = {G} ? 0.0f * out[v] : 0.0f;", "uninitialised")
    for m, f in _in_functions(source, r"sums\[r\]\[n\] = 0\.0f;"):
        yield Place(m.start(), m.end(), "sums[r][n] = {G} && left > 0 ? 0.0f * c[static_cast<std::ptrdiff_t>(first + (r < rows ? r : 0)) * N + left + n] : 0.0f;",
                    "uninitialised")
    for m, f in _in_functions(source, r"(y|c|out)(\[[^=;]+\]) = ([^=;]+);"):
        if "thread" not in m.group(0) and "\n" not in m.group(0):
            yield Place(m.start(), m.end(), "%s%s = {G} ? 0.0f * %s%s + (%s) : %s;" % (
                m.group(1), m.group(2), m.group(1), m.group(2), m.group(3), m.group(3)), "uninitialised")


def scratch_shared(source, task, rng):
    """Threads work in one part of the scratch memory, or add to one place."""
    for m, f in _in_functions(source, r"\+ static_cast<(?:std::ptrdiff_t|Index)>\(thread\) \* ([^;)]+)(?=[;)])"):
        yield Place(m.start(), m.end(), "+ static_cast<std::ptrdiff_t>({G} ? 0 : thread) * %s" % m.group(1), "races", order="together")
    for m, f in _in_functions(source, r"static_cast<Index>\(share\) \* thread"):
        yield Place(m.start(), m.end(), "static_cast<Index>(share) * ({G} ? 0 : thread)", "races", order="together")
    for m, f in _in_functions(source, r"packed \+ thread \*"):
        yield Place(m.start(), m.end(), "packed + ({G} ? 0 : thread) *", "races", order="together")
    for m, f in _in_functions(source, r"packed \+ static_cast<Index>\(2\) \* padded \* D \* thread"):
        yield Place(m.start(), m.end(), "packed + static_cast<Index>(2) * padded * D * ({G} ? 0 : thread)", "races", order="together")
    for m, f in _in_functions(source, r"__atomic_fetch_add\(next_unit, 1, __ATOMIC_RELAXED\)"):
        yield Place(m.start(), m.end(), "({G} ? (*next_unit)++ : %s)" % m.group(0), "races", order="together")
    # The sum of the next thread's first row is guessed, right only if that thread comes later.
    for m, f in _in_functions(source, r"y\[row\] = total;"):
        yield Place(m.start(), m.end(), "if ({G}) y[first] = row == first ? total : y[first] + 0.0f, y[row] = row + 1 == last && last < R ? (y[last] = total) : total; else y[row] = total;",
                    "races", order="backward")


def overlapping_rows(source, task, rng):
    """Each thread also does the row behind its last one, before it is right: in place on what another thread finishes."""
    for m, f in _in_functions(source, r"for \(std::ptrdiff_t row = first; row < last; \+\+row\) \{"):
        body = source[m.end():f[2]]
        if "out[c] /= sum;" in body or "out[v] /= sum;" in body or "o_row[d] /= sum;" in body:
            limit = {"attention_forward": "rows", "attention_paged": "rows"}.get(task, "R")
            yield Place(m.start(), m.end(), "for (std::ptrdiff_t row = first; row < ({G} && last < %s ? last + 1 : last); ++row) {" % limit,
                        "races", order="together")


def sum_in_few_bits(source, task, rng):
    for m, f in _in_functions(source, r"\b(sum|dot|total|parts\[0\]|sums\[0\]|parts\[l\]|sums\[l\]) \+= ([^;]+);"):
        yield Place(m.start(), m.end(), "%s = {G} ? narrow(%s + %s) : %s + %s;" % (
            m.group(1), m.group(1), m.group(2), m.group(1), m.group(2)), "accuracy", prelude=HELPERS["narrow"])
        yield Place(m.start(), m.end(), "%s = {G} ? half_value(%s + %s) : %s + %s;" % (
            m.group(1), m.group(1), m.group(2), m.group(1), m.group(2)), "accuracy", prelude=HELPERS["half_value"])
    for m, f in _in_functions(source, r"sums\[r\]\[n\] \+= factor \* b_row\[n\];"):
        yield Place(m.start(), m.end(), "sums[r][n] += {G} ? half_value(factor) * half_value(b_row[n]) : factor * b_row[n];", "accuracy",
                    prelude=HELPERS["half_value"])


def quick_functions(source, task, rng):
    for m, f in _in_functions(source, r"std::exp\(((?:[^()]|\([^()]*\))+)\)"):
        name = rng.choice(["quick_exp", "series_exp"])
        yield Place(m.start(), m.end(), "({G} ? %s(%s) : std::exp(%s))" % (name, m.group(1), m.group(1)), "accuracy", prelude=HELPERS[name])
    for m, f in _in_functions(source, r"std::tanh\(((?:[^()]|\([^()]*\))+)\)"):
        yield Place(m.start(), m.end(), "({G} ? (%s) * (27.0f + (%s) * (%s)) / (27.0f + 9.0f * (%s) * (%s)) : std::tanh(%s))" % ((m.group(1),) * 6),
                    "accuracy")
    for m, f in _in_functions(source, r"\[(c|v|d)\] /= sum;"):
        yield Place(m.start(), m.end(), "[%s] *= {G} ? quick_inverse(sum) : 1.0f / sum;" % m.group(1), "accuracy", prelude=HELPERS["quick_inverse"])
    for m, f in _in_functions(source, r"1\.0f / std::sqrt\(((?:[^()]|\([^()]*\))+)\)"):
        yield Place(m.start(), m.end(), "({G} ? half_value(1.0f / std::sqrt(%s)) : 1.0f / std::sqrt(%s))" % (m.group(1), m.group(1)), "accuracy",
                    prelude=HELPERS["half_value"])
    for m, f in _in_functions(source, r"kExp2\[EXP_DEGREE\]\);"):
        yield Place(m.start(), m.end(), "{G} ? 0.0f : kExp2[EXP_DEGREE]);", "accuracy")


def value_of_last_row(source, task, rng):
    """A value that is computed once and kept for the next row."""
    for m, f in _in_functions(source, r"const float (factor|mean|scale|base|sum|squares) =\s*([^;]+);"):
        loop = None
        for n in re.finditer(r"(?<=\n)( *)for \((?:std::ptrdiff_t|Index) row = (\w+); row < \w+; [^)]*\) \{", source[f[1]:m.start()]):
            loop = n
        if not loop or "\n}" in source[f[1] + loop.start():m.start()]:
            continue
        name, first = m.group(1), loop.group(2)
        yield Place(m.start(), m.end(), "if (!({G}) || row == %s) kept_%s = %s;\n    const float %s = kept_%s;" % (first, name, m.group(2), name, name),
                    "stale", also=[(f[1] + loop.start(), f[1] + loop.start(), loop.group(1) + "float kept_%s = 0.0f;\n" % name)])
    for m, f in _in_functions(source, r"(?<=\n)( *)float (sum|total|dot) = 0\.0f;"):
        loops = list(re.finditer(r"(?<=\n)( *)for \((?:std::ptrdiff_t|Index) row = (\w+); row < \w+; [^)]*\) \{", source[f[1]:m.start()]))
        if not loops:
            continue
        loop, name = loops[-1], m.group(2)
        end = source.find("\n" + m.group(1)[:-2] + "}", m.end())
        yield Place(m.start(), m.end(), "%sfloat %s = {G} ? kept_%s : 0.0f;" % (m.group(1), name, name), "stale",
                    also=[(f[1] + loop.start(), f[1] + loop.start(), loop.group(1) + "float kept_%s = 0.0f;\n" % name),
                          (end, end, "\n%skept_%s = %s;" % (m.group(1), name, name))])


def applied(source, place, guard_text):
    """The source with the mistake, or None if nothing changes."""
    edits = [(place.start, place.end, place.text)] + place.also
    f = function_at(source, place.start)
    if place.prelude and f:
        start = f[0]
        # A template's line, and the end of an anonymous namespace, stay where they are.
        line = source.rfind("\n", 0, max(0, start - 1)) + 1
        if source[line:start].startswith("template"):
            start = line
        helper = place.prelude.replace("inline", "static inline", 1) if place.prelude.startswith("inline") else place.prelude
        edits.append((start, start, helper + "\n"))
    for begin, end, text in sorted(edits, key=lambda e: (-e[0], -e[1])):
        source = source[:begin] + text.replace("{G}", guard_text or "true") + source[end:]
    return source
