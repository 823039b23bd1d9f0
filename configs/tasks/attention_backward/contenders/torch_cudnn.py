"""cuDNN's fused attention backward, as PyTorch's scaled_dot_product_attention calls it."""

import torch


def prepare(workload, tensors):
    if workload.target != "cuda" or workload.dtype not in (torch.bfloat16, torch.float16):
        raise NotImplementedError("cuDNN's attention needs a GPU and bf16 or f16")
    if workload.causal and workload.S_q != workload.S_kv:
        raise NotImplementedError("PyTorch aligns the causal mask at the top left")
    if not hasattr(torch.ops.aten, "_scaled_dot_product_cudnn_attention_backward"):
        raise NotImplementedError("PyTorch %s has no cuDNN attention" % torch.__version__)
    backward = torch.ops.aten._scaled_dot_product_cudnn_attention_backward
    nothing = torch.zeros((), dtype=torch.int64, device=workload.device)  # the state of a dropout that is not there

    def launch(tensors):
        q, k, v, o, grad_o = (tensors[name].transpose(1, 2) for name in ("q", "k", "v", "o", "grad_o"))
        made = backward(grad_o, q, k, v, o, tensors["lse"].unsqueeze(-1), nothing, nothing, None, None, None, q.shape[2],
                        k.shape[2], 0.0, bool(workload.causal), scale=workload.scale)
        return tuple(t.transpose(1, 2).contiguous() for t in made)

    return launch
