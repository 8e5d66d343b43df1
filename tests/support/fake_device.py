"""A fake device: its tensors are in the host's memory, but behave as those of a GPU would.

`Elsewhere` holds a tensor and claims to be on another device. While `device()` is entered, an operation on such a
tensor and one of the host raises as CUDA's would, and every way of copying values to the host is counted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

NAME: Final = "meta"
"""The one device type, other than the CPU, for which torch needs no driver."""

_WAITS: Final = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "_unique2", "unique_dim")
"""Operations that need values on the host before they can continue."""
_CROSSES: Final = ("_to_copy", "copy_")
_INDEXES: Final = ("index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")


class Elsewhere(Tensor):
    """A tensor of the other device."""

    host: Tensor

    @staticmethod
    def __new__(cls, host: Tensor) -> "Elsewhere":
        tensor: Elsewhere = Tensor._make_wrapper_subclass(
            cls, host.size(), strides=host.stride(), storage_offset=host.storage_offset(), dtype=host.dtype, device=NAME
        )
        tensor.host = host
        return tensor

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"{self.host!r} elsewhere"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(operation, args, kwargs or {}, Counter())


class Device(TorchDispatchMode):
    """Watches over the operations of a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()
        """How often values came to the host, by operation."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(operation, args, kwargs or {}, self.reads)


@contextmanager
def device() -> Iterator[Device]:
    """Make `NAME` a device. Inference mode, which custom tensor classes cannot enter, is left out."""
    off = torch.no_grad()
    with ExitStack() as stack:
        for part in ("__enter__", "__exit__"):
            stack.enter_context(patch.object(torch.inference_mode, part, lambda *_: None))
        stack.enter_context(off)
        stack.enter_context(_Arrivals())
        yield stack.enter_context(Device())


class _Arrivals(TorchFunctionMode):
    """Two ways to the device that ask torch for its driver before a `Device` sees them."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is torch.tensor and _is_here(kwargs.get("device")):
            return Elsewhere(torch.tensor(*args, **{**kwargs, "device": "cpu"}))
        if function is Tensor.to and any(map(_is_here, (*args[1:], kwargs.get("device")))):
            sent = args[0] if isinstance(args[0], Elsewhere) else Elsewhere(args[0].detach())
            kinds = [part for part in (*args[1:], kwargs.get("dtype")) if isinstance(part, torch.dtype)]
            return sent.to(*kinds) if kinds else sent
        return function(*args, **kwargs)


def _is_here(where: object) -> bool:
    return isinstance(where, str | torch.device) and torch.device(where).type == NAME


def _run(operation: Any, args: Any, kwargs: Mapping[str, Any], reads: Counter[str]) -> Any:
    name = operation.overloadpacket.__name__
    leaves = tree_leaves((args, dict(kwargs)))
    elsewhere = [leaf for leaf in leaves if isinstance(leaf, Elsewhere)]
    _refuse_mixes(operation, name, args, leaves, bool(elsewhere))
    wanted = kwargs.get("device")
    named = None if wanted is None else torch.device(wanted).type
    to_host = bool(elsewhere) and (
        (name == "_to_copy" and named == "cpu") or (name == "copy_" and not isinstance(args[0], Elsewhere))
    )
    if to_host or (elsewhere and (name in _WAITS or _is_mask_index(name, args))):
        reads[name] += 1
    by_host = {id(tensor.host): tensor for tensor in elsewhere}
    plain_args, plain_kwargs = tree_map(lambda x: x.host if isinstance(x, Elsewhere) else x, (args, dict(kwargs)))
    if named == NAME:
        plain_kwargs["device"] = torch.device("cpu")
    out = operation(*plain_args, **plain_kwargs)
    if to_host or not (elsewhere or named == NAME):
        return out

    # Results are on that device, too; what was changed in place stays itself.
    def there_too(value: Any) -> Any:
        if not isinstance(value, Tensor) or isinstance(value, Elsewhere):
            return value
        return by_host[id(value)] if id(value) in by_host else Elsewhere(value)

    return tree_map(there_too, out)


def _refuse_mixes(operation: Any, name: str, args: Any, leaves: list[Any], any_elsewhere: bool) -> None:
    """Raise where tensors of both devices meet. Numbers, indices of tensors elsewhere and copies may come across."""
    host = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, Elsewhere) and leaf.dim()]
    if not any_elsewhere or not host or name in _CROSSES:
        return
    if name in _INDEXES and isinstance(args[0], Elsewhere):
        values = args[2] if len(args) > 2 and name not in ("index", "_unsafe_index") else None
        if values is None or isinstance(values, Elsewhere) or not values.dim():
            return
    raise RuntimeError(f"{operation}: tensors of two devices, {NAME} and cpu")


def _is_mask_index(name: str, args: Any) -> bool:
    """Whether places are picked by a mask, whose size has to be known first."""
    if name not in ("index", "_unsafe_index"):
        return False
    return any(isinstance(each, Elsewhere) and each.dtype == torch.bool for each in args[1] if each is not None)
