# SPDX-License-Identifier: Apache-2.0
"""Whole models with random weights, written from their public dimensions with plain torch modules, as `cultivar import` takes them:
a function that builds each, and one that draws its inputs.

    cultivar import models.py:llama --inputs llama_inputs --out camp --device cuda

Some have fewer layers than the real ones. Masks are made where the public implementations make them: Llama and Qwen3 pass a
causal one."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

TINY = False  # on_card.sh makes it True on a machine without a card: small sizes in f32
DTYPE = torch.float32 if TINY else torch.bfloat16


def sizes(real, tiny):
    return tiny if TINY else real


def causal_mask(length, like):
    return torch.ones(length, length, dtype=torch.bool, device=like.device).tril()[None, None]


def heads_of(tensor, heads):
    """[B, S, heads * D] as [B, heads, S, D], in the memory that it has."""
    return tensor.view(*tensor.shape[:2], heads, -1).transpose(1, 2)


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width) + 0.1 * torch.randn(width)), eps

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Rotary(nn.Module):
    def __init__(self, depth, base):
        super().__init__()
        self.register_buffer("frequencies", 1.0 / base ** (torch.arange(0, depth, 2).float() / depth), persistent=False)

    def forward(self, length):
        angles = torch.arange(length, device=self.frequencies.device).float()[:, None] * self.frequencies.float()[None]
        angles = torch.cat([angles, angles], -1)
        return angles.cos().to(DTYPE), angles.sin().to(DTYPE)


def rotated(x, cos, sin):
    """x: [B, S, H, D]."""
    one, two = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat([-two, one], -1) * sin[:, None]


class DecoderAttention(nn.Module):
    """Grouped queries with rotary positions; Qwen3 norms queries and keys."""

    def __init__(self, width, heads, groups, depth, norms):
        super().__init__()
        self.heads, self.groups = heads, groups
        self.q, self.k, self.v = (nn.Linear(width, n * depth, bias=False) for n in (heads, groups, groups))
        self.out = nn.Linear(heads * depth, width, bias=False)
        self.q_norm, self.k_norm = (RMSNorm(depth) if norms else nn.Identity() for _ in range(2))

    def forward(self, x, cos, sin, mask):
        batch, length, _ = x.shape
        q = rotated(self.q_norm(self.q(x).view(batch, length, self.heads, -1)), cos, sin)
        k = rotated(self.k_norm(self.k(x).view(batch, length, self.groups, -1)), cos, sin)
        v = self.v(x).view(batch, length, self.groups, -1)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


class GatedMlp(nn.Module):
    """Of silu, or of Gemma's gelu."""

    def __init__(self, width, hidden, gelu=False):
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((width, hidden), (width, hidden), (hidden, width)))
        self.gelu = gelu

    def forward(self, x):
        gate = self.gate(x)
        return self.down((F.gelu(gate, approximate="tanh") if self.gelu else F.silu(gate)) * self.up(x))


class Experts(nn.Module):
    """A router that sends each token to a few of many gated networks, as grouped products over sorted tokens."""

    def __init__(self, width, hidden, experts, chosen):
        super().__init__()
        self.router, self.chosen = nn.Linear(width, experts, bias=False), chosen
        self.up = nn.Parameter(torch.randn(experts, width, 2 * hidden) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(experts, hidden, width) / math.sqrt(hidden))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights, experts = torch.topk(torch.softmax(self.router(flat).float(), -1), self.chosen, dim=-1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        order = torch.argsort(experts.flatten(), stable=True)
        tokens = order // self.chosen
        numbers = torch.arange(self.up.shape[0], device=x.device)
        ends = torch.searchsorted(experts.flatten()[order], numbers, right=True).to(torch.int32)
        gate, up = self.grouped(flat[tokens], self.up, ends).chunk(2, -1)
        y = self.grouped(F.silu(gate) * up, self.down, ends) * weights.flatten()[order][:, None]
        return torch.zeros_like(flat).index_add(0, tokens, y).view_as(x)

    def grouped(self, x, weight, ends):
        if x.is_cuda and x.dtype == torch.bfloat16 and hasattr(torch, "_grouped_mm"):
            return torch._grouped_mm(x, weight, offs=ends)
        begin, parts = 0, []
        for k, end in enumerate(ends.tolist()):
            parts.append(x[begin:end] @ weight[k])
            begin = end
        return torch.cat(parts)


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, groups, depth, mlp, norms):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attention, self.mlp = DecoderAttention(width, heads, groups, depth, norms), mlp

    def forward(self, x, cos, sin, mask):
        x = x + self.attention(self.norm1(x), cos, sin, mask)
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, vocabulary, width, heads, groups, depth, layers, mlp, norms=False, base=500000.0):
        super().__init__()
        self.embed, self.rotary = nn.Embedding(vocabulary, width), Rotary(depth, base)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, groups, depth, mlp(), norms) for _ in range(layers))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        cos, sin = self.rotary(tokens.shape[1])
        mask = causal_mask(tokens.shape[1], x)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.head(self.norm(x)[:, -256:])


class Attention(nn.Module):
    """Of encoders and GPT-2: one projection for queries, keys and values."""

    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (heads_of(f(x), self.heads) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Mlp(nn.Module):
    def __init__(self, width, hidden, form="none"):
        super().__init__()
        self.up, self.down, self.form = nn.Linear(width, hidden), nn.Linear(hidden, width), form

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.form))


class Layer(nn.Module):
    """Of a transformer that is no Llama; `after`: BERT has its norms behind the sums."""

    def __init__(self, width, heads, hidden, causal=False, form="none", after=False):
        super().__init__()
        self.norm1, self.norm2, self.after = nn.LayerNorm(width), nn.LayerNorm(width), after
        self.attention, self.mlp = Attention(width, heads, causal), Mlp(width, hidden, form)

    def forward(self, x, mask=None):
        if self.after:
            x = self.norm1(x + self.attention(x, mask))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class TextModel(nn.Module):
    """GPT-2 and BERT."""

    def __init__(self, vocabulary, positions, width, heads, layers, causal, form, after):
        super().__init__()
        self.embed, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(0.02 * torch.randn(positions, width))
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width, causal, form, after) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary if causal else 2, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens) + self.positions[:tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, -256:])


class VisionTransformer(nn.Module):
    def __init__(self, image, patch, width, heads, layers):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn((image // patch) ** 2 + 1, width))
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


class SpeechEncoder(nn.Module):
    """Whisper's."""

    def __init__(self, bands, width, heads, layers, length):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(bands, width, 3, padding=1), nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, spectrum):
        x = F.gelu(self.conv2(F.gelu(self.conv1(spectrum)))).transpose(1, 2) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.mlp, self.scale = Mlp(width, 4 * width), nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = self.depthwise(x).permute(0, 2, 3, 1)
        return x + (self.mlp(self.norm(y)) * self.scale).permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self, widths, depths):
        super().__init__()
        stages, before = [nn.Conv2d(3, widths[0], 4, stride=4), ChannelNorm(widths[0], eps=1e-6)], None
        for width, depth in zip(widths, depths):
            if before:
                stages += [ChannelNorm(before, eps=1e-6), nn.Conv2d(before, width, 2, stride=2)]
            stages += [ConvNextBlock(width) for _ in range(depth)]
            before = width
        self.stages, self.norm, self.head = nn.Sequential(*stages), nn.LayerNorm(before, eps=1e-6), nn.Linear(before, 1000)

    def forward(self, images):
        return self.head(self.norm(self.stages(images).mean((2, 3))))


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.short = None if before == 4 * width and stride == 1 else nn.Sequential(
            nn.Conv2d(before, 4 * width, 1, stride=stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(y)))))
        return F.relu(y + (x if self.short is None else self.short(x)))


class ResNet(nn.Module):
    def __init__(self, depths, width):
        super().__init__()
        layers, before = [nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                          nn.MaxPool2d(3, 2, 1)], width
        for k, depth in enumerate(depths):
            for block in range(depth):
                layers.append(Bottleneck(before, width << k, 2 if k and not block else 1))
                before = 4 * (width << k)
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(before, 1000)

    def forward(self, images):
        return self.head(self.layers(images).mean((2, 3)))


class ResnetBlock(nn.Module):
    """Of the autoencoder of Stable Diffusion."""

    def __init__(self, before, width, groups):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, before, eps=1e-6), nn.Conv2d(before, width, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(groups, width, eps=1e-6), nn.Conv2d(width, width, 3, padding=1)
        self.short = nn.Identity() if before == width else nn.Conv2d(before, width, 1)

    def forward(self, x):
        y = self.conv1(F.silu(self.norm1(x)))
        return self.short(x) + self.conv2(F.silu(self.norm2(y)))


class Upsample(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class ImageDecoder(nn.Module):
    """Without the attention in its middle."""

    def __init__(self, latent, widths, blocks, groups):
        super().__init__()
        layers, before = [nn.Conv2d(latent, widths[0], 3, padding=1)], widths[0]
        layers += [ResnetBlock(before, before, groups) for _ in range(2)]
        for k, width in enumerate(widths):
            for block in range(blocks):
                layers.append(ResnetBlock(before, width, groups))
                before = width
            if k + 1 < len(widths):
                layers.append(Upsample(width))
        self.layers = nn.Sequential(*layers)
        self.norm, self.conv = nn.GroupNorm(groups, before, eps=1e-6), nn.Conv2d(before, 3, 3, padding=1)

    def forward(self, latents):
        return self.conv(F.silu(self.norm(self.layers(latents))))


def llama():
    """Llama 3 8B, 4 of its 32 layers."""
    vocabulary, width, heads, groups, depth, hidden, layers = sizes((128256, 4096, 32, 8, 128, 14336, 4), (96, 64, 4, 2, 16, 128, 2))
    return Decoder(vocabulary, width, heads, groups, depth, layers, lambda: GatedMlp(width, hidden)).to(DTYPE)


def llama_inputs():
    return torch.randint(0, *sizes((128256, (1, 8192)), (96, (1, 128))))


def llama_short_inputs():
    return torch.randint(0, *sizes((128256, (8, 512)), (96, (2, 64))))


def qwen3_moe():
    """Qwen3 30B-A3B, 2 of its 48 layers."""
    vocabulary, width, heads, groups, depth, hidden, experts, chosen, layers = sizes(
        (151936, 2048, 32, 4, 128, 768, 128, 8, 2), (96, 64, 4, 2, 16, 32, 8, 2, 2))
    return Decoder(vocabulary, width, heads, groups, depth, layers, lambda: Experts(width, hidden, experts, chosen), True, 1e6).to(DTYPE)


def qwen3_moe_inputs():
    return torch.randint(0, *sizes((151936, (1, 4096)), (96, (1, 128))))


def gemma():
    """Gemma 7B, 3 of its 28 layers; its attention has heads of 256."""
    vocabulary, width, heads, depth, hidden, layers = sizes((256000, 3072, 16, 256, 24576, 3), (96, 64, 4, 16, 128, 2))
    return Decoder(vocabulary, width, heads, heads, depth, layers, lambda: GatedMlp(width, hidden, True), base=1e4).to(DTYPE)


def gemma_inputs():
    return torch.randint(0, *sizes((256000, (1, 8192)), (96, (1, 128))))


def gpt2():
    """GPT-2 medium, 8 of its 24 layers."""
    return TextModel(*sizes((50257, 1024, 1024, 16, 8), (96, 64, 64, 4, 2)), causal=True, form="tanh", after=False).to(DTYPE)


def gpt2_inputs():
    return torch.randint(0, *sizes((50257, (8, 1024)), (96, (2, 64))))


def bert():
    """BERT large, 8 of its 24 layers."""
    return TextModel(*sizes((30522, 512, 1024, 16, 8), (96, 64, 64, 4, 2)), causal=False, form="none", after=True).to(DTYPE)


def bert_inputs():
    return torch.randint(0, *sizes((30522, (32, 384)), (96, (2, 48))))


def vit():
    """ViT-L/16."""
    return VisionTransformer(*sizes((224, 16, 1024, 16, 24), (32, 8, 64, 4, 2))).to(DTYPE)


def vit_inputs():
    return torch.randn(*sizes((64, 3, 224, 224), (2, 3, 32, 32))).to(DTYPE)


def whisper():
    """The encoder of Whisper large, 8 of its 32 layers."""
    return SpeechEncoder(*sizes((128, 1280, 20, 8, 1500), (16, 64, 4, 2, 50))).to(DTYPE)


def whisper_inputs():
    return torch.randn(*sizes((8, 128, 3000), (2, 16, 100))).to(DTYPE)


def convnext():
    """ConvNeXt-B."""
    return ConvNext(*sizes(((128, 256, 512, 1024), (3, 3, 27, 3)), ((16, 32), (1, 1)))).to(DTYPE)


def resnet50():
    return ResNet(*sizes(((3, 4, 6, 3), 64), ((1, 1), 8))).to(DTYPE)


def autoencoder():
    """The decoder of Stable Diffusion's autoencoder, to 512 x 512 pixels."""
    return ImageDecoder(*sizes((4, (512, 512, 256, 128), 3, 32), (4, (32, 16), 1, 8))).to(DTYPE)


def autoencoder_inputs():
    return torch.randn(*sizes((4, 4, 64, 64), (2, 4, 8, 8))).to(DTYPE)


def image_inputs():
    return torch.randn(*sizes((64, 3, 224, 224), (2, 3, 32, 32))).to(DTYPE)
