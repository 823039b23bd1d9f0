"""attention_paged as PyTorch computes it, for the test of an export: the errors of a kernel are compared with these."""

import torch


def compute(q, k_pages, v_pages, page_table, lengths, *, causal, scale):
    """(o, lse). In the inputs' dtype; f64 inputs give what the others are compared with."""
    B, S_q, H, D = q.shape
    H_kv, S = k_pages.shape[2], page_table.shape[1] * k_pages.shape[1]
    table = page_table.long()
    k, v = (pages[table].reshape(B, S, H_kv, D).transpose(1, 2) for pages in (k_pages, v_pages))
    k, v = (t.repeat_interleave(H // H_kv, dim=1) for t in (k, v))  # query head h reads head h / (H / H_kv)
    q = q.transpose(1, 2)
    key, query = torch.arange(S, device=q.device), torch.arange(S_q, device=q.device)
    length = lengths.long()[:, None, None]
    seen = (key < length).expand(B, S_q, S)
    if causal:
        seen = seen & (key <= query[:, None] + length - S_q)
    seen = seen[:, None]
    wide = torch.promote_types(q.dtype, torch.float32)
    logits = (q.to(wide) @ k.to(wide).transpose(2, 3) * scale).masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(logits, dim=-1)
    o = (torch.softmax(logits, dim=-1).to(v.dtype) @ v).masked_fill(~seen.any(dim=-1, keepdim=True), 0.0)
    return o.transpose(1, 2), lse
