"""Linear maps as the lean forward calls them: over the model's own weights, or over copies laid out anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear map by its weight [out, in] and bias [out]."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def joined(cls, *parts: nn.Linear) -> Self:
        """Maps of one input as one; of several, the parts' own weights become views of the new one."""
        if len(parts) == 1:
            return cls(parts[0].weight, parts[0].bias)
        weight = torch.cat([part.weight for part in parts]).detach()
        for part, piece in zip(parts, weight.split([part.out_features for part in parts]), strict=True):
            part.weight.data = piece
        if parts[0].bias is None:
            return cls(weight, None)
        bias = torch.cat([part.bias for part in parts]).detach()
        for part, piece in zip(parts, bias.split([part.out_features for part in parts]), strict=True):
            part.bias.data = piece
        return cls(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def packed(self) -> Packed:
        """The same map with its weight laid out for this processor by oneDNN."""
        return Packed(torch.ops.mkldnn._reorder_linear_weight(self.weight.detach()), self.bias)


@dataclass(frozen=True, slots=True)
class Packed:
    """A linear map over a copy of its weight, in the order in which the processor reads it.

    F.linear reorders the weight at every call with more than one row; for few rows that costs more than the product.
    """

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return out

    def packed(self) -> Packed:
        return self


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN is here and computes in this number format, which depends on the processor: it is tried."""
    if weight.device.type != "cpu" or not weight.is_floating_point() or not torch.backends.mkldnn.is_available():
        return False
    sample = weight.detach()[:16, :16].contiguous()
    try:
        Linear(sample, None).packed()(sample)
    except RuntimeError:
        return False
    return True
