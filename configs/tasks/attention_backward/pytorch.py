"""attention_backward as PyTorch computes it, for the test of an export and as the contenders torch and torch_compile."""

import torch


def compute(q, k, v, o, lse, grad_o, *, causal, scale):
    """(dq, dk, dv). In the inputs' dtype; f64 inputs give what the others are compared with."""
    S_q, H, S_kv, H_kv = q.shape[1], q.shape[2], k.shape[1], k.shape[2]
    if q.is_cuda and q.dtype in (torch.bfloat16, torch.float16) and (S_q == S_kv or not causal):
        return flash(q, k, v, o, lse, grad_o, causal, scale)
    wide = torch.promote_types(q.dtype, torch.float32)
    group = H // H_kv
    q_, o_, grad_ = (t.transpose(1, 2).to(wide) for t in (q, o, grad_o))  # heads before the sequence
    k_, v_ = (t.transpose(1, 2).repeat_interleave(group, dim=1).to(wide) for t in (k, v))
    weights = torch.exp(q_ @ k_.transpose(2, 3) * scale - lse.to(wide)[..., None])
    if causal:  # query i sees the keys j <= i + S_kv - S_q
        seen = torch.ones(S_q, S_kv, dtype=torch.bool, device=q.device).tril(S_kv - S_q)
        weights = weights.masked_fill(~seen, 0.0)
    delta = (o_ * grad_).sum(dim=-1, keepdim=True)
    # As in scaled_dot_product_attention, the factors of the products have the inputs' dtype.
    gradients = (weights * (grad_ @ v_.transpose(2, 3) - delta)).to(q.dtype).to(wide)
    weights = weights.to(q.dtype).to(wide)
    dq, dk, dv = scale * (gradients @ k_), scale * (gradients.transpose(2, 3) @ q_), weights.transpose(2, 3) @ grad_
    dk, dv = (t.unflatten(1, (H_kv, group)).sum(dim=2) for t in (dk, dv))
    return tuple(t.transpose(1, 2).to(q.dtype).contiguous() for t in (dq, dk, dv))


def flash(q, k, v, o, lse, grad_o, causal, scale):
    """PyTorch's FlashAttention, as scaled_dot_product_attention calls it in backward."""
    q_, k_, v_, o_, grad_ = (t.transpose(1, 2) for t in (q, k, v, o, grad_o))
    nothing = torch.zeros((), dtype=torch.int64, device=q.device)  # the state of a dropout that is not there
    group = q_.shape[1] // k_.shape[1]
    k_, v_ = (t.repeat_interleave(group, dim=1) for t in (k_, v_))
    dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_backward(
        grad_, q_, k_, v_, o_, lse, None, None, q.shape[1], k.shape[1], 0.0, bool(causal), nothing, nothing, scale=scale
    )
    dk, dv = (t.unflatten(1, (-1, group)).sum(dim=2) if group > 1 else t for t in (dk, dv))
    return tuple(t.transpose(1, 2).contiguous() for t in (dq, dk, dv))
