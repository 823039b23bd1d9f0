"""Times forward and backward of one attention layer of Llama-3 8B (32 heads on 8, D 128, causal, bf16) through the exported operators
with their gradient, in turn with PyTorch's attention (its flash and its cuDNN backend) and FlashAttention-3, on a GPU.

    python3 experiments/attention_backward/layer.py FORWARD_BUNDLE BACKWARD_BUNDLE [SAMPLES] [FLASH_ATTENTION_3]

SAMPLES: 30 if omitted. FLASH_ATTENTION_3: the contender library libcultivar-contender-flash_attention_3.so of a build that has it.

Gradients are compared with those of PyTorch's flash backend first. Each sample is forward and backward of one call between two events, with
the L2 cache overwritten before it, the sides in random order. Also told: the host's time of a forward call without a gradient.
"""

import importlib.util
import pathlib
import random
import statistics
import sys
import time

if len(sys.argv) < 3:
    print(__doc__, file=sys.stderr)
    sys.exit(2)
try:
    import torch
except ImportError:
    print("layer.py: %s has no PyTorch" % sys.executable, file=sys.stderr)
    sys.exit(77)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from contender import Contender

SAMPLES = int(sys.argv[3]) if len(sys.argv) > 3 else 30
FLASH_ATTENTION_3 = sys.argv[4] if len(sys.argv) > 4 else None
HEADS, KEY_HEADS, D = 32, 8, 128


def load(bundle, name):
    path = pathlib.Path(bundle).resolve() / "pytorch" / (name + ".py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


forward = load(sys.argv[1], "cultivar_attention_forward")
backward = load(sys.argv[2], "cultivar_attention_backward")
forward.register_backward(backward)


def ours(q, k, v):
    return forward.attention_forward(q, k, v, causal=1)[0]


def theirs(backend):
    def call(q, k, v):
        with sdpa_kernel(backend):
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)

    return call


class FlashAttention3(torch.autograd.Function):
    prepared = {}

    @staticmethod
    def run(task, inputs, outputs):
        batch, tokens, heads, _ = inputs["q"].shape
        values = dict(B=batch, H=heads, H_kv=KEY_HEADS, S_q=tokens, S_kv=tokens, D=D, causal=1, scale=D**-0.5)
        key = (task, batch, tokens)
        if key not in FlashAttention3.prepared:
            FlashAttention3.prepared[key] = Contender(FLASH_ATTENTION_3, task, values, inputs, outputs)
        FlashAttention3.prepared[key](inputs, outputs)

    @staticmethod
    def forward(context, q, k, v):
        o = torch.empty_like(q)
        lse = torch.empty(q.shape[0], q.shape[2], q.shape[1], device=q.device)
        FlashAttention3.run("attention_forward", dict(q=q, k=k, v=v), dict(o=o, lse=lse))
        context.save_for_backward(q, k, v, o, lse)
        return o

    @staticmethod
    def backward(context, grad):
        q, k, v, o, lse = context.saved_tensors
        gradients = [torch.empty_like(t) for t in (q, k, v)]
        FlashAttention3.run("attention_backward", dict(q=q, k=k, v=v, o=o, lse=lse, grad_o=grad), dict(zip(("dq", "dk", "dv"), gradients)))
        return tuple(gradients)


SIDES = {"cultivar": ours, "flash": theirs(SDPBackend.FLASH_ATTENTION), "cudnn": theirs(SDPBackend.CUDNN_ATTENTION)}
if FLASH_ATTENTION_3:
    SIDES["flash_attention_3"] = FlashAttention3.apply


def step(call, tensors, grad):
    out = call(*tensors)
    return torch.autograd.grad(out, tensors, grad)


def main():
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    failed = False
    print("| batch x tokens | side | forward and backward, ms | ours is faster by |\n|---|---|---|---|")
    for batch, tokens in ((8, 1024), (4, 2048), (2, 4096), (1, 8192)):
        shape = lambda heads: (batch, tokens, heads, D)  # noqa: E731
        tensors = [torch.randn(shape(h), device="cuda", dtype=torch.bfloat16, requires_grad=True) for h in (HEADS, KEY_HEADS, KEY_HEADS)]
        grad = torch.randn(shape(HEADS), device="cuda", dtype=torch.bfloat16)
        sides = {}
        for name, call in SIDES.items():
            try:
                step(call, tensors, grad)
                sides[name] = call
            except RuntimeError as error:
                print("%s on %d x %d: %s" % (name, batch, tokens, str(error).splitlines()[0]), file=sys.stderr)
        gradients = {name: step(call, tensors, grad) for name, call in sides.items()}
        for name, those in gradients.items():
            for one, other in zip(those, gradients["flash"]):
                error = ((one - other).float().norm() / other.float().norm()).item()
                if not error < 0.02:
                    failed = True
                    print("FAILED: a gradient of %s differs from flash's by %.3g of its norm on %d x %d" % (name, error, batch, tokens))
        times = {name: [] for name in sides}
        for _ in range(SAMPLES):
            for name in random.sample(list(sides), len(sides)):
                flush.zero_()
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                torch.cuda.synchronize()
                torch.cuda._sleep(2_000_000)  # so that everything is queued before the first kernel starts
                begin.record()
                step(sides[name], tensors, grad)
                end.record()
                torch.cuda.synchronize()
                times[name].append(begin.elapsed_time(end))
        for name, each in times.items():
            ratio = statistics.median(a / b for a, b in zip(each, times["cultivar"]))
            print("| %d x %d | %s | %.3f | %s |" % (batch, tokens, name, statistics.median(each), "" if name == "cultivar" else "%.3f" % ratio))
    q, k, v = (torch.randn(1, 128, 1, D, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    calls = []
    with torch.no_grad():
        for _ in range(400):
            torch.cuda.synchronize()
            begin = time.perf_counter_ns()
            forward.attention_forward(q, k, v)
            calls.append((time.perf_counter_ns() - begin) / 1e3)
    print("\nhost time of a call: median %.1f us, quartiles %.1f to %.1f" % (statistics.median(calls), *statistics.quantiles(calls, n=4)[::2]))
    return int(failed)


sys.exit(main())
