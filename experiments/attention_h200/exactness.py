"""rms and maximum error against fp64 of an exported attention kernel and of PyTorch's flash and cuDNN backends, on inputs that
trained models have.    python3 exactness.py BUNDLE [BUNDLE...]"""
import pathlib, sys
if len(sys.argv) < 2 or {"-h", "--help"} & set(sys.argv[1:]):
    asked = len(sys.argv) > 1
    print(__doc__, file=sys.stdout if asked else sys.stderr)
    sys.exit(0 if asked else 2)
try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as sdpa
except ImportError as error:
    sys.exit("exactness.py: %s has no PyTorch of version 2.3 or newer (%s)" % (sys.executable, error))

def module(path):
    sys.path.insert(0, str(path / "pytorch"))
    import cultivar_attention_forward as m
    return m.attention_forward

ours = module(pathlib.Path(sys.argv[1]).resolve())
def draw(kind, B, S, Skv, H, Hk, D, g):
    n = lambda *s: torch.randn(*s, device="cuda", generator=g, dtype=torch.float32)
    q, k, v = n(B, S, H, D), n(B, Skv, Hk, D), n(B, Skv, Hk, D)
    u = torch.rand(B, Skv, Hk, 1, device="cuda", generator=g)
    if kind == "keys_1pct_x30": k = torch.where(u < .01, k * 30, k)
    if kind == "keys_1pct_x8": k = torch.where(u < .01, k * 8, k)
    if kind == "qk_x3": q, k = q * 3, k * 3
    if kind == "q_x2": q = q * 2
    if kind == "q_x1.5": q = q * 1.5
    if kind == "dim_x40": q[..., 5] *= 40; k[..., 5] *= 40
    if kind == "sink": k[:, 0] = q.mean(1)[:, :Hk] * 0 + 1.0; q = q + .35
    if kind == "stairs": k[..., :8] += torch.arange(Skv, device="cuda").view(1, -1, 1, 1) // 128 * .05; q[..., :8] = 2
    if kind == "half_zero": q[:, ::2] = 0
    if kind == "few_far": k = k * .1; k[:, 7::500] += q[:, :1, :Hk].mean(1, keepdim=True) * .8
    return [t.to(torch.bfloat16) for t in (q, k, v)]
def exact(q, k, v, causal):
    B, S, H, D = q.shape; Skv = k.shape[1]
    out = torch.empty(B, S, H, D, dtype=torch.float64, device="cuda")
    for b in range(B):
        for h in range(H):
            kh = h * k.shape[2] // H
            s = q[b, :, h].double() @ k[b, :, kh].double().T / D ** .5
            if causal: s.masked_fill_(torch.ones(S, Skv, device="cuda", dtype=torch.bool).triu(1 + Skv - S), float("-inf"))
            out[b, :, h] = torch.softmax(s, -1) @ v[b, :, kh].double()
    return out
KINDS = ["normal", "keys_1pct_x30", "keys_1pct_x8", "qk_x3", "q_x2", "q_x1.5", "dim_x40", "sink", "stairs", "half_zero", "few_far"]
SHAPES = [(1, 4096, 4096, 4, 4, 128, False), (1, 4096, 4096, 4, 4, 128, True), (1, 2048, 2048, 4, 1, 64, True), (1, 1024, 1024, 2, 2, 256, False), (1, 300, 5000, 2, 2, 128, False)]
g = torch.Generator(device="cuda"); g.manual_seed(11)
print("| inputs | shape | rms ours / flash | max | rms ours / cudnn | max |\n|---|---|---|---|---|---|")
for kind in KINDS:
    for shape in SHAPES:
        B, S, Skv, H, Hk, D, causal = shape
        q, k, v = draw(kind, B, S, Skv, H, Hk, D, g)
        ref = exact(q, k, v, causal)
        t = [x.transpose(1, 2) for x in (q, k, v)]
        e = {"ours": ours(q, k, v, causal=causal)[0].double() - ref}
        for name, which in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
            try:
                with sdpa_kernel(which): e[name] = sdpa(*t, is_causal=causal, enable_gqa=Hk != H).transpose(1, 2).double() - ref
            except RuntimeError as x: pass
        r = {n: (x.square().mean().sqrt().item(), x.abs().max().item()) for n, x in e.items()}
        cells = [kind, "x".join(map(str, shape[:6])) + (" causal" if causal else "")]
        for n in ("flash", "cudnn"):
            cells += ["%.3f" % (r["ours"][0] / r[n][0]), "%.2f" % (r["ours"][1] / r[n][1])] if n in r else ["-", "-"]
        print("| " + " | ".join(cells) + " |", flush=True)
