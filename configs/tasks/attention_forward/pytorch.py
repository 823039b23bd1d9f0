"""attention_forward as PyTorch computes it, for the test of an export and as the contenders torch and torch_compile."""

import functools
import weakref

import torch
import torch.nn.functional as functional


def compute(q, k, v, *, causal, scale, window=0, softcap=0.0):
    """(o, lse). In the inputs' dtype; f64 inputs give what the others are compared with."""
    S_q, H, S_kv, H_kv = q.shape[1], q.shape[2], k.shape[1], k.shape[2]
    whole = not window and not softcap and (not causal or S_q == S_kv)
    if q.is_cuda and q.dtype in (torch.bfloat16, torch.float16) and q.shape[3] in (64, 128, 256) and whole:
        return flash(q, k, v, causal, scale)
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))  # heads before the sequence
    k, v = (t.repeat_interleave(H // H_kv, dim=1) for t in (k, v))  # query head h reads head h / (H / H_kv)
    # Query i sees the keys j <= i + S_kv - S_q; is_causal of PyTorch is aligned at the top left, the same for a square.
    seen = torch.ones(S_q, S_kv, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(S_kv - S_q)
    if window:
        seen = seen.triu(S_kv - S_q - window + 1).tril(S_kv - S_q + window - 1)
    wide = torch.promote_types(q.dtype, torch.float32)
    logits = q.to(wide) @ k.to(wide).transpose(2, 3) * scale
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    logits = logits.masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(logits, dim=-1)  # which scaled_dot_product_attention keeps to itself
    if not softcap and hasattr(functional, "scaled_dot_product_attention"):
        all_before = causal and S_q == S_kv and not window
        mask = dict(is_causal=True) if all_before else dict(attn_mask=seen) if causal or window else {}
        try:
            o = functional.scaled_dot_product_attention(q, k, v, scale=scale, **mask)
        except TypeError:  # PyTorch 2.0 has 1 / sqrt(D) alone
            q = (q.to(wide) * (scale * q.shape[3] ** 0.5)).to(q.dtype)
            o = functional.scaled_dot_product_attention(q, k, v, **mask)
    else:
        o = (torch.softmax(logits, dim=-1) @ v.to(wide)).to(v.dtype)
    o = o.masked_fill(~seen.any(dim=1)[:, None], 0.0)  # a query that sees nothing
    return o.transpose(1, 2), lse


def flash(q, k, v, causal, scale):
    """PyTorch's FlashAttention, as scaled_dot_product_attention calls it, with the log-sum-exp that it keeps for the backward."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    o, lse = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, bool(causal), False, scale=scale)[:2]
    return o.transpose(1, 2), lse[..., : q.shape[2]]


def replaces():
    """Functions of PyTorch that this computes: owner, name, what turns their arguments into those of a kernel, and what makes their
    result of the kernel's outputs."""
    def adapter(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if query.dim() != 4 or dropout_p or (is_causal and (attn_mask is not None or query.shape[2] != key.shape[2])):
            return None
        if key.shape[1] != query.shape[1] and not (enable_gqa and query.shape[1] % key.shape[1] == 0):
            return None
        if value.shape != key.shape or query.shape[3] != key.shape[3]:
            return None
        if attn_mask is not None:
            is_causal = only_causal(attn_mask, query.shape[2], key.shape[2])
            if is_causal is None:
                return None
        tensors = tuple(t.transpose(1, 2) for t in (query, key, value))
        return tensors, {"causal": int(is_causal), "scale": query.shape[3] ** -0.5 if scale is None else scale}
    if not hasattr(functional, "scaled_dot_product_attention"):
        return []
    return [(functional, "scaled_dot_product_attention", adapter, lambda results: results[0].transpose(1, 2))]


def only_causal(mask, S_q, S_kv):
    """True: a mask, of booleans or added to the logits, that lets each query see the keys up to its own place, aligned at the end;
    False: one that hides nothing; None: any other. Reads the mask, which on a GPU waits for it, once for all layers that get it."""
    if mask.is_inference():
        return _kind_of(mask, S_q, S_kv)
    if _last and _last[0]() is mask and _last[1] == mask._version:
        return _last[2]
    kind = _kind_of(mask, S_q, S_kv)
    _last[:] = [weakref.ref(mask), mask._version, kind]
    return kind


_last = []  # the mask of the last call, its version, and what it is


@functools.lru_cache(maxsize=4)
def _causal(S_q, S_kv, dtype, device):
    """The mask that is only causal, as booleans or as what is added."""
    before = torch.ones(S_q, S_kv, dtype=torch.bool, device=device).tril(S_kv - S_q)
    return before if dtype == torch.bool else torch.zeros(S_q, S_kv, dtype=dtype, device=device).masked_fill(~before, float("-inf"))


def _kind_of(mask, S_q, S_kv):
    if mask.shape[-2:] != (S_q, S_kv):
        return None
    if bool((mask == _causal(S_q, S_kv, mask.dtype, mask.device)).all()):
        return True
    before = _causal(S_q, S_kv, torch.bool, mask.device)
    if mask.dtype == torch.bool:
        shown, plain = mask, None
    else:
        shown, plain = mask == 0, ((mask == 0) | (mask <= torch.finfo(mask.dtype).min)).all()
    said = [(shown == before).all(), shown.all()] + ([] if plain is None else [plain])
    causal, nothing, *plain = torch.stack(said).tolist()
    if plain and not plain[0]:
        return None
    return False if nothing else True if causal else None
