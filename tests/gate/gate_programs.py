"""Factories for the gate's tests: small, each with something that a check of its own is about."""

import torch
import torch.nn.functional as F


def _normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class _Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(12, 24)
        self.norm = torch.nn.LayerNorm(24)
        self.down = torch.nn.Linear(24, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = self.norm(F.gelu(self.up(x)))
        y = self.down(hidden) * 0.125
        return y, torch.softmax(hidden - torch.tanh(x).repeat(1, 2), -1), y.argmax(-1)


def mlp() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    return _Mlp(), (_normal(1, 5, 12).requires_grad_(),)


class _Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = torch.nn.MultiheadAttention(16, 4, batch_first=True)
        self.norm = torch.nn.RMSNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended, _ = self.heads(x, x, x, need_weights=False)
        return self.norm(x + F.silu(attended))


def attention() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    return _Attention(), (_normal(2, 2, 7, 16),)


class _BatchNorm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.groups = torch.nn.GroupNorm(2, 8)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        hidden = F.hardswish(self.groups(torch.relu(self.norm(self.convolution(pixels)))))
        return F.max_pool2d(hidden, 2)


def batch_norm() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    return _BatchNorm().train(), (_normal(3, 4, 3, 8, 8),)


class _Counts(torch.nn.Module):
    def forward(self, seen: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        seen.add_(x.abs())
        return torch.log(seen).sum(-1)


def counts() -> tuple[torch.nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """Writes to its first input."""
    return _Counts(), (torch.ones(4, 6), _normal(4, 4, 6))


class _Special(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.log(x), 1 / torch.relu(x)


def special() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """NaN where ``x`` is negative, infinities where it is not positive."""
    return _Special(), (torch.tensor([-1.5, 0.0, 0.5, 2.0]),)


class _Cancelling(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1e7) - 1e7


def cancelling() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """Loses every digit: the limit is wider than the value."""
    return _Cancelling(), (_normal(5, 64),)


class _Empty(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :0] * 2


def empty() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _Empty(), (_normal(6, 3, 4),)


def dropout() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return torch.nn.Dropout(0.5).train(), (_normal(7, 3, 4),)


class _Casting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.plain = _normal(8, 6, 6)
        self.register_buffer("table", torch.linspace(0, 1, 6), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(6, dtype=torch.float32).masked_fill(torch.arange(6) > 3, torch.finfo(x.dtype).min)
        wide = (x.float() @ self.plain + torch.ones(6) * self.table).to(torch.float32)
        return torch.softmax(wide + mask, -1) + F.rms_norm(x, (6,))


def casting() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """Casts, plain tensor attributes, masks and a default ``eps``: where doubling the module leaves float32."""
    return _Casting(), (_normal(9, 4, 6).requires_grad_(),)
