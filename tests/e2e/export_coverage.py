"""The common shapes of public models, through the PyTorch operator of an export (of a kernel without inputs of whole numbers): each
must be served, and right against fp64.

    python3 export_coverage.py BUNDLE      exit code 0 if all are; the last line is JSON: shapes, and how many took which way
"""

import ctypes
import importlib.util
import json
import os
import pathlib
import sys

import torch

# hidden size, size of the feed-forward layer, heads, key and value heads, head size, vocabulary. From the models' config.json on
# Hugging Face; 0: the model has no such dimension.
MODELS = {
    "Llama-2-7B": (4096, 11008, 32, 32, 128, 32000),
    "Llama-3-8B": (4096, 14336, 32, 8, 128, 128256),
    "Llama-3-70B": (8192, 28672, 64, 8, 128, 128256),
    "Llama-3.2-1B": (2048, 8192, 32, 8, 64, 128256),
    "Mistral-7B-v0.3": (4096, 14336, 32, 8, 128, 32768),
    "Qwen2.5-0.5B": (896, 4864, 14, 2, 64, 151936),
    "Qwen2.5-7B": (3584, 18944, 28, 4, 128, 152064),
    "Qwen3-32B": (5120, 25600, 64, 8, 128, 151936),
    "Qwen3-30B-A3B": (2048, 768, 32, 4, 128, 151936),
    "Gemma-2-2B": (2304, 9216, 8, 4, 256, 256000),
    "Gemma-2-9B": (3584, 14336, 16, 8, 256, 256000),
    "Gemma-3-1B": (1152, 6912, 4, 1, 256, 262144),
    "Phi-2": (2560, 10240, 32, 32, 80, 51200),
    "Phi-3-mini": (3072, 8192, 32, 32, 96, 32064),
    "GPT-2": (768, 3072, 12, 12, 64, 50257),
    "GPT-NeoX-20B": (6144, 24576, 64, 64, 96, 50432),
    "OPT-1.3B": (2048, 8192, 32, 32, 64, 50272),
    "Falcon-7B": (4544, 18176, 71, 1, 64, 65024),
    "BERT-base": (768, 3072, 12, 12, 64, 30522),
    "ViT-B-16": (768, 3072, 12, 12, 64, 1000),
    "Whisper-large-v3": (1280, 5120, 20, 20, 64, 51866),
    "SmolLM2-135M": (576, 1536, 9, 3, 64, 49152),
    "DeepSeek-V3": (7168, 18432, 128, 128, 192, 129280),
}
TOKENS = (1, 17, 64)
MOST_ELEMENTS = 1 << 21  # of a tensor: the fp64 reference of more takes long
MOST_ROWS = 64


def widths(task):
    """The numbers of columns that the models give an operator over rows."""
    found = []
    for hidden, inner, _, _, _, vocabulary in MODELS.values():
        found += {"softmax": [vocabulary], "cross_entropy": [vocabulary], "silu_mul": [inner], "gelu": [inner]}.get(task, [hidden])
    return sorted(set(found + ([197, 577, 1500] if task == "softmax" else [])))  # rows of attention of ViT and Whisper


def shapes(module, task):
    if task.startswith("attention"):
        for _, _, heads, kv_heads, size, _ in MODELS.values():
            group = heads // kv_heads
            few = min(kv_heads, 2)  # more heads compute the same again
            for queries, keys in ((1, 257), (65, 65), (17, 130)):
                yield dict(B=2, H=few * group, H_kv=few, S_q=queries, S_kv=keys, D=size)
    else:
        for columns in widths(task):
            for rows in TOKENS:
                if rows * columns <= MOST_ELEMENTS or rows == 1:
                    yield dict(R=rows, C=columns, V=columns)


def ordinary(tensor):
    return tensor


def late_outlier(tensor):
    tensor.view(-1)[-1] = 300.0
    return tensor


def lone_value(tensor):
    tensor *= 2.0 ** -20
    tensor.view(-1)[-1] = 30.0
    return tensor


def ties(tensor):
    return tensor.mul_(2).round_().div_(2)


def magnitudes(tensor):
    return tensor.mul_(torch.exp2(torch.linspace(-20, 3, tensor.shape[-1])))


def main(bundle):
    file = next((bundle / "pytorch").glob("cultivar_*.py"))
    spec = importlib.util.spec_from_file_location("exported", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    task = file.stem[len("cultivar_"):]
    operator = getattr(module, task)
    os.environ.setdefault("CULTIVAR_PYTHON", sys.executable)
    reference = ctypes.CDLL(module._library_file("libreference.so"))
    reference.cultivar_reference_check.restype = ctypes.c_int64
    reference.cultivar_reference_check.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_double)]
    torch.manual_seed(1)
    seen, wrong, ways = set(), [], {}
    for sizes in shapes(module, task):
        extents = [tuple(module._extents(sizes, shape)) for _, _, shape in module.INPUTS]
        if tuple(extents) in seen:
            continue
        seen.add(tuple(extents))
        before = module.counters.copy()
        for compose in (ordinary, late_outlier, lone_value, ties, magnitudes):
            inputs = [compose(torch.randn(size)).to(dtype) for size, (_, dtype, _) in zip(extents, module.INPUTS)]
            try:
                outputs = operator(*[tensor.to(module.TARGET) for tensor in inputs])
            except Exception as error:
                wrong.append("%s %s: %s" % (extents, compose.__name__, error))
                continue
            outputs = [tensor.cpu() for tensor in (outputs if isinstance(outputs, tuple) else (outputs,))]
            numbers = (None,) * len(module.NUMBERS)
            given, made = iter(inputs), iter(outputs)
            places = [next(made if is_output else given).data_ptr() for _, is_output, _, _ in module.TENSORS]
            workload, alive = module.describe_workload(module._dimensions(inputs, numbers), numbers, places, 0)
            ratios = (ctypes.c_double * len(outputs))()
            rows = reference.cultivar_reference_check(ctypes.byref(workload), MOST_ROWS, ratios)
            del alive
            if rows < 0 or not max(ratios) <= 1:
                wrong.append("%s %s: %.3g times the bound" % (extents, compose.__name__, max(ratios)))
        used = [way for way in ("built in", "compiled", "fallback") if module.counters[way] > before[way]]
        for way in used:
            ways[way] = ways.get(way, 0) + 1
        if used == ["fallback"]:
            print("fallback:", extents, module.explain(*[tensor.to("meta") for tensor in inputs]))
    for line in wrong:
        print("WRONG", line)
    print(json.dumps({"task": task, "models": len(MODELS), "shapes": len(seen), "wrong": len(wrong), "ways": ways}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
