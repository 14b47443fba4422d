"""Factories for the gate's tests: small, each with something that a check of its own is about."""

from collections.abc import Callable

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


class _Literal(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> int:
        return x.shape[0]


def literal() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _Literal(), (_normal(10, 3, 4),)


class _Indices(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.argmax(-1)


def indices() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _Indices(), (_normal(11, 5, 4),)


class _WritesOnly(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> None:
        self.total.add_(x.sum(0))


def writes_only() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _WritesOnly(), (_normal(12, 3, 4),)


class _ReturnsState(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(_normal(13, 4, 3))
        self.register_buffer("mean", torch.ones(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
        return x @ self.weight.t(), self.weight, self.mean


def returns_state() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """Returns a parameter, and a buffer that it has written to."""
    return _ReturnsState(), (_normal(14, 5, 3),)


class _Dead(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(6, 3)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.head(x), torch.relu(-x.abs() - 1)


def dead() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """A head of zeros and a rectifier that never opens."""
    return _Dead(), (_normal(15, 5, 6),)


class _RandomEverything(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.nn.functional.dropout(x, 0.5, training=True)
        self.seen.add_(y.sum(0))
        return y, y.argmax(-1)


def random_everything() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """Values, indices and a buffer that all hang on what is drawn."""
    return _RandomEverything(), (_normal(16, 3, 4),)


class _Spectrum(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(_normal(17, 16))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spectrum = torch.fft.rfft(x * self.weight)
        return spectrum * spectrum, spectrum.abs()


def spectrum() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _Spectrum(), (_normal(18, 3, 16),)


class _ComplexState(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.complex(_normal(19, 4, 4), _normal(20, 4, 4)))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z @ self.weight


def complex_state() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """Complex input, weight and output."""
    return _ComplexState(), (torch.complex(_normal(21, 5, 4), _normal(22, 5, 4)).requires_grad_(),)


class _Calls(torch.nn.Module):
    def __init__(self, call: Callable[[torch.Tensor], torch.Tensor | tuple[torch.Tensor, ...]]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        return self.call(x)


def _matrix() -> torch.Tensor:
    return (_normal(23, 6, 6) + 6 * torch.eye(6)).requires_grad_()


def inverse() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _Calls(torch.linalg.inv), (_matrix(),)


def solve() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    right = _normal(24, 6, 2)
    return _Calls(lambda x: torch.linalg.solve(x, right)), (_matrix(),)


def qr() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _Calls(lambda x: tuple(torch.linalg.qr(x))), (_matrix(),)


def bilinear() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    def call(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=False)

    return _Calls(call), (_normal(25, 2, 3, 24, 24).requires_grad_(),)


def remainder() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _Calls(lambda x: torch.fmod(x * 3, 0.7)), (_normal(26, 64).requires_grad_(),)


def digamma() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _Calls(torch.digamma), ((_normal(27, 256).abs() + 0.1).requires_grad_(),)
