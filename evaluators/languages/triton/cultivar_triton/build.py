# SPDX-License-Identifier: Apache-2.0
"""Compiles a variant in Triton to PTX, in a sandbox and without a GPU. Not for manual use.

    python -m cultivar_triton.build REQUEST     reads a JSON order; writes result.json and a KERNEL.ptx for each kernel
    python -m cultivar_triton.build --assemble PTXAS ARGUMENT...    becomes ptxas

Exit codes: 0 compiled, 1 refused (result.json says why), 3 Triton is missing or too old.
"""
import ast
import json
import linecache
import os
import sys
import types

from . import check

PLACE = "/variant.py"  # as line tables name it, wherever the file lies


def missing(words):
    print(words, file=sys.stderr)
    sys.exit(3)


def import_triton(folder):
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "cache")
    os.environ["TRITON_HOME"] = folder
    try:
        import triton
        from triton.backends.compiler import GPUTarget  # noqa: F401
        from triton.compiler import ASTSource  # noqa: F401
    except ImportError as error:
        missing(f"Triton cannot be imported: {error}")
    if tuple(int(n) for n in triton.__version__.split(".")[:2]) < (3, 3):
        missing(f"Triton {triton.__version__} is too old: 3.3 or later is needed")
    return triton


def only_ptx():
    """Stops before ptxas: Cultivar runs it itself, on the PTX that it has screened."""
    from triton.backends.nvidia.compiler import CUDABackend
    CUDABackend.make_cubin = lambda self, src, *rest, **more: b""


# --- What a kernel may reach through the names that it imports ---

def is_of_the_language(triton, value):
    tl = triton.language
    if getattr(value, "__triton_builtin__", False) or isinstance(value, (tl.dtype, triton.JITFunction)):
        return True
    if isinstance(value, type):
        return value in {getattr(tl, n, None) for n in ("constexpr", "range", "static_range", "condition", "dtype",
                                                        "pointer_type", "tuple")}
    module = getattr(value, "__module__", "") or ""
    if module.endswith(".libdevice") and module.startswith("triton.language.extra"):
        return callable(value)
    return value in (triton.cdiv, triton.next_power_of_2)


def require_of_the_language(triton, node, name, value):
    if isinstance(value, types.ModuleType):
        if value.__name__ in (*check.MODULES, "triton.language.math"):
            return
    elif is_of_the_language(triton, value):
        return
    raise check.Refused(node.lineno, f"the kernel uses {name}, which is not of Triton's language",
                        "Use what triton.language documents; print and device_print are not read by anybody.")


def require_known_name(triton, source, node, name):
    first, *rest = name.split(".")
    value = sys.modules[source.modules[first]]
    for part in rest:
        if not isinstance(value, types.ModuleType):
            return  # an attribute of a function or a type
        if not hasattr(value, part):
            raise check.Refused(node.lineno, f"Triton {triton.__version__} has no {name}",
                                "Correct the name, or write it for this version.", "compile")
        value = getattr(value, part)
        require_of_the_language(triton, node, name, value)
        if part == "device_print":
            raise check.Refused(node.lineno, f"the kernel calls {part}", "Nothing reads the output; remove it.")
    if isinstance(value, types.ModuleType):
        raise check.Refused(node.lineno, f"the kernel uses the module {name} as a value", "Use its functions by their names.")


def require_known_names(triton, source):
    import importlib
    for name, module in source.modules.items():
        importlib.import_module(module)
    for function in source.functions.values():
        nodes = [node for statement in function.body for node in ast.walk(statement)]
        parts = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}  # of longer names
        for node in nodes:
            name = check.dotted(node) if isinstance(node, (ast.Attribute, ast.Name)) else None
            if id(node) not in parts and (name or "").partition(".")[0] in source.modules:
                require_known_name(triton, source, node, name)
    for name, (module, member) in source.imported.items():
        value = getattr(importlib.import_module(module), member, None)
        if (module, member) != ("triton", "jit"):
            node = next(n for n in source.tree.body if isinstance(n, ast.ImportFrom) and
                        any((a.asname or a.name) == name for a in n.names))
            require_of_the_language(triton, node, f"{module}.{member}", value)


# --- The jitted functions ---

def jitted(triton, source, text):
    """Functions by name. Their bodies are not run: `def` alone is, with defaults that are literals."""
    import importlib
    linecache.cache[PLACE] = (len(text), None, text.splitlines(keepends=True), PLACE)
    module = types.ModuleType("variant")
    module.__file__ = PLACE
    sys.modules["variant"] = module
    names = module.__dict__
    for name, of in source.modules.items():
        names[name] = sys.modules[of]
    for name, (of, member) in source.imported.items():
        names[name] = getattr(importlib.import_module(of), member)
    for name, value in source.values.items():
        names[name] = triton.language.constexpr(value)
    defs = ast.Module(body=list(source.functions.values()), type_ignores=[])
    exec(compile(defs, PLACE, "exec"), names)
    return {name: names[name] for name in source.functions}


def value_of(triton, given):
    """{"number": 128}, {"name": "rows"} or {"dtype": "bf16"} of the order."""
    if "dtype" in given:
        tl = triton.language
        return {"fp64": tl.float64, "fp32": tl.float32, "fp16": tl.float16, "bf16": tl.bfloat16,
                "fp8e4nv": tl.float8e4nv, "fp8e5": tl.float8e5}[given["dtype"]]
    return given["number"] if "number" in given else given["name"]


def signature_of(source, order, kernel, constants):
    """Types, constants and attributes of a kernel's parameters, from its arguments in the manifest."""
    name = kernel["name"]
    node = source.functions.get(name)
    if node is None:
        raise check.Refused(0, f"the source does not define kernel '{name}' of the manifest",
                            f"Write @triton.jit above `def {name}(...)`; there are: "
                            f"{', '.join(source.functions) or 'none'}.", "compile")
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    first = len(parameters) - len(node.args.kwonlyargs) - len(node.args.defaults)
    defaults = {p.arg: d for p, d in zip(parameters[first:], node.args.defaults)}
    defaults.update({p.arg: d for p, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d is not None})
    signature, constexprs, attributes = {}, {}, {}
    arguments = list(kernel["arguments"])
    taken = [p.arg for p in parameters if source.known_as(p.annotation) != "triton.language.constexpr"]
    if len(taken) != len(arguments):
        specialised = [n for n in taken if n in constants]
        more = f" ({specialised[0]} is specialized or a tunable: annotate it as tl.constexpr)" if specialised else ""
        raise check.Refused(node.lineno, f"kernel '{name}' has {len(taken)} parameters that are no tl.constexpr "
                            f"({', '.join(taken)}), but the manifest gives {len(arguments)} arguments "
                            f"({', '.join(a['text'] for a in arguments)}){more}",
                            "`args` lists one argument for each of them, in order.", "compile")
    for index, parameter in enumerate(parameters):
        own = parameter.arg
        note = parameter.annotation
        if source.known_as(note) == "triton.language.constexpr":
            signature[own] = "constexpr"
            if own in constants:
                constexprs[(index,)] = constants[own]
            elif own in defaults:
                constexprs[(index,)] = check.evaluated(defaults[own])
            else:
                raise check.Refused(parameter.lineno, f"the constexpr '{own}' of kernel '{name}' has no value",
                                    "It must be a tunable, or listed in `specialize`, or have a default.", "compile")
            continue
        argument = arguments.pop(0)
        written = note.value if note is not None else None
        kind = argument["type"]
        if kind == "*":  # a workspace: bytes
            kind = written or "*fp32"
            if kind not in order["pointers"]:
                raise check.Refused(parameter.lineno, f"the type '{kind}' of '{own}' is not a pointer that Triton knows",
                                    f"One of {', '.join(order['pointers'])}.", "compile")
        elif written is not None and written != kind:
            raise check.Refused(parameter.lineno, f"'{own}' is said to be {written}, but its argument "
                                f"'{argument['text']}' is {kind}", "Remove the annotation.", "compile")
        signature[own] = kind
        if argument.get("multiple_of_16"):
            attributes[(index,)] = [["tt.divisibility", 16]]
    return signature, constexprs, attributes


def place_of(error, source, functions):
    """The line of the variant that a compiler's error is about, and the innermost error."""
    line, inner = 0, error
    while error is not None:
        text, node = getattr(error, "src", None), getattr(error, "node", None)
        for name, function in functions.items():
            if text is not None and text == function.src and hasattr(node, "lineno"):
                line = source.functions[name].lineno + node.lineno - 1
        if getattr(error, "error_message", None) or not hasattr(error, "error_message"):
            inner = error
        error = error.__cause__
    return line, inner


def compiled(triton, source, functions, order, kernel, constants):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    signature, constexprs, attributes = signature_of(source, order, kernel, constants)
    options = {"num_warps": kernel["num_warps"], "num_stages": kernel["num_stages"]}
    if kernel.get("maxnreg"):
        options["maxnreg"] = kernel["maxnreg"]
    try:
        made = triton.compile(ASTSource(fn=functions[kernel["name"]], signature=signature, constexprs=constexprs,
                                        attrs=attributes),
                              target=GPUTarget("cuda", order["architecture"], 32), options=options)
    except RecursionError:
        raise check.Refused(0, "the kernel's functions call each other without end", "Write a loop.", "compile") from None
    except Exception as error:  # whatever the compiler raises is about this source
        line, inner = place_of(error, source, functions)
        words = getattr(inner, "error_message", None)
        if not words and type(inner).__name__ == "CompileTimeAssertionFailure":
            words = "a static_assert does not hold"
        words = words or str(inner) or type(inner).__name__
        if words.startswith("KeyError('variant."):  # a call of what is being compiled
            own = words[len("KeyError('variant."):].split("__")[0]
            raise check.Refused(line, f"the function {own} calls itself without end", "Write a loop.", "compile") from None
        raise check.Refused(line, words.strip().split("\n")[0][:300], str(error), "compile") from None
    facts = made.metadata
    for what in ("global_scratch_size", "profile_scratch_size"):
        if getattr(facts, what, 0):
            raise check.Refused(0, f"kernel '{kernel['name']}' needs scratch memory of the launcher "
                                f"({getattr(facts, what)} bytes for each block)",
                                "Descriptors that a kernel makes itself (tl.make_tensor_descriptor) need it. Use pointers, "
                                "or tl.make_block_ptr.")
    if getattr(facts, "tensordesc_meta", None):
        raise check.Refused(0, f"kernel '{kernel['name']}' takes tensor descriptors", "Use pointers.")
    return {"shared": int(facts.shared), "warps": int(facts.num_warps)}, made.asm["ptx"]


def build(order):
    folder = order["folder"]
    with open(order["source"], encoding="utf-8") as file:
        text = file.read()
    source = check.Source(text)
    triton = import_triton(folder)
    only_ptx()
    require_known_names(triton, source)
    functions = jitted(triton, source, text)
    constants = {name: value_of(triton, given) for name, given in order["constants"].items()}
    kernels = {}
    for kernel in order["kernels"]:
        kernels[kernel["name"]], ptx = compiled(triton, source, functions, order, kernel, constants)
        with open(os.path.join(folder, kernel["name"] + ".ptx"), "w", encoding="utf-8") as file:
            file.write(ptx)
    return {"kernels": kernels, "version": triton.__version__}


def main():
    if sys.argv[1] == "--assemble":
        os.execv(sys.argv[2], sys.argv[2:])
    with open(sys.argv[1], encoding="utf-8") as file:
        order = json.load(file)
    try:
        result = build(order)
    except check.Refused as refused:
        result = {"refused": {"stage": refused.stage, "line": refused.line, "reason": refused.reason,
                              "remedy": refused.remedy}}
    with open(os.path.join(order["folder"], "result.json"), "w", encoding="utf-8") as file:
        json.dump(result, file)
    sys.stdout.flush()
    os._exit(0 if "kernels" in result else 1)


if __name__ == "__main__":
    main()
