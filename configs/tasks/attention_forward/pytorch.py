"""attention_forward as PyTorch computes it, for the test of an export and as the contenders torch and torch_compile."""

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
