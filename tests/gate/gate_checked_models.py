"""Small modules with a right form and wrong ones. Which one runs is an attribute, so that all have the same weights."""

import torch
from torch import nn
from torch.nn import functional


def seeded(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


class Form(nn.Module):
    """``fault`` names what is wrong; empty means nothing."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault


class Mixed(Form):
    """A bit of everything: rounding, a normalisation, an index, a maximum."""

    def __init__(self, fault: str = "") -> None:
        super().__init__(fault)
        torch.manual_seed(0)
        self.first, self.norm, self.second = nn.Linear(7, 5), nn.LayerNorm(5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = functional.gelu(self.norm(self.first(x)))
        y = self.second(hidden) * mask.unsqueeze(-1)
        if self.fault == "one lane":
            y = y + torch.zeros_like(y).index_fill(1, torch.tensor([2]), 1e-5)
        return y, y.argmax(-1), x.max(-1).values

    @staticmethod
    def inputs() -> tuple[torch.Tensor, ...]:
        return seeded(4, 7).requires_grad_(), torch.tensor([1.0, 0.0, 1.0, 1.0])


class Product(Form):
    """Two inputs multiplied, accumulated as declared or in bfloat16."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if not self.fault:
            return a @ b
        total = torch.zeros(a.shape[0], b.shape[1])
        for k in range(0, a.shape[1], 4):
            total = total + a[:, k : k + 4] @ b[k : k + 4]
            total = total.bfloat16().float() if self.fault == "bfloat16" else total
        return total


class Elementwise(Form):
    """``op`` is what it should do, ``fault`` how it does it instead."""

    def __init__(self, op: str, fault: str = "") -> None:
        super().__init__(fault)
        self.op = op

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return FORMS[self.fault or self.op](x)


def _half_away(x: torch.Tensor) -> torch.Tensor:
    """To bfloat16, ties away from zero: half a step is added to the bits before the lower ones go."""
    bits = (x.contiguous().view(torch.int32) + 0x8000) & -0x10000
    return bits.view(torch.float32).bfloat16()


FORMS = {
    "maximum with zero": lambda x: torch.maximum(x, torch.zeros(())),
    "comparison with zero": lambda x: torch.where(x >= 0, x, torch.zeros(())),
    "negation": lambda x: -x,
    "taken from zero": lambda x: 0 - x,
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp without NaN": lambda x: torch.nan_to_num(x, nan=-1.0).clamp(-1, 1),
    "times zero": lambda x: x * 0,
    "zero": lambda x: torch.zeros_like(x),
    "log1p": lambda x: torch.log1p(x.abs()),
    "log of one more": lambda x: torch.log(1 + x.abs()),
    "cast": lambda x: x.bfloat16(),
    "cast half away": _half_away,
    "round": lambda x: x.round().int(),
    "round half away": lambda x: (x.sign() * (x.abs() + 0.5).floor()).int(),
    "normalised": lambda x: x / (x.var(-1, keepdim=True) + 1e-5).sqrt(),
    "normalised with less": lambda x: x / (x.var(-1, keepdim=True) + 1e-6).sqrt(),
    "softmax": lambda x: x.softmax(-1),
    "softmax without maximum": lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
}


class Backward(torch.autograd.Function):
    """``x ** 3`` with a backward pass that is wrong in one way."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, fault: str) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.fault = fault
        return x**3

    @staticmethod
    def backward(ctx, grad: torch.Tensor):
        (x,) = ctx.saved_tensors
        if ctx.fault == "strides of the example":
            grad = grad.as_strided(grad.shape, x.stride()) if grad.untyped_storage().nbytes() >= 4 * x.numel() else grad
        if ctx.fault == "expanded":
            grad = grad if grad.is_contiguous() else torch.zeros_like(x)
        slope = 3 * x**2
        if ctx.fault == "scaled":
            slope = slope * 1.00001
        return (grad * (slope.detach() if ctx.fault == "no second order" else slope)), None


class RefusesTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad: torch.Tensor):
        if torch.is_grad_enabled():
            raise RuntimeError("there is no second order")
        return grad * 3 * ctx.saved_tensors[0] ** 2


class Cubed(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        match self.fault:
            case "":
                return x**3
            case "none":
                return x.detach() ** 3 + 0 * x.sum().detach().requires_grad_()
            case "refused":
                return RefusesTwice.apply(x)
            case _:
                return Backward.apply(x, self.fault)


class Maximum(Form):
    """The gradient of a tie goes to one of the equal maxima, or to all."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.amax(-1) if self.fault else x.max(-1).values


class Reader(Form):
    """Reads its input by strides that it assumes, or beyond its end."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        match self.fault:
            case "contiguous strides":
                size = x.untyped_storage().nbytes() // x.element_size()
                if size >= x.storage_offset() + x.numel():
                    x = x.as_strided(x.shape, (x.shape[1], 1))
            case "offset":
                x = x.as_strided(x.shape, x.stride(), 0)
            case "one more":
                flat = torch.empty(0).set_(x.detach().untyped_storage())
                end = x.storage_offset() + sum(s * (n - 1) for s, n in zip(x.stride(), x.shape, strict=True)) + 1
                return x * 2 + (flat[end] * 0 if end < flat.numel() else 0.0)
            case "contiguous result":
                return (x * 2).contiguous()
            case _:
                pass
        return x * 2


class Masked(Form):
    """Hides rows with ``where``, or by a product that lets NaN through."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = x * mask.unsqueeze(-1) if self.fault else torch.where(mask.unsqueeze(-1) > 0, x, torch.zeros(()))
        return hidden.sum(0) + 1


class Neighbours(Form):
    """Each row by itself, or with something of the last one in the others."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.exp() + (x[-1] * 0 if self.fault else 0)


class Sized(Form):
    """Wrong at certain sizes of the batch."""

    def __init__(self, fault: str = "") -> None:
        super().__init__(fault)
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        if self.fault == "tail" and x.shape[0] % 4 == 1:
            y = torch.cat([y[:-1], y[-1:] * 1.001])
        if self.fault == "halves" and x.shape[0] == 2:
            y = y * 1.001
        if self.fault == "hooks" and self.linear._forward_hooks:
            y = y * 1.001
        return torch.sin(y)


class Rows(Form):
    """A sum of each row, in an order that hangs on the size of the batch where it is wrong."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = x.unbind(1)
        if self.fault and x.shape[0] > 2:
            parts = parts[::-1]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


class Promoted(Form):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found = x * 2 + y
        return found.float() if self.fault else found
