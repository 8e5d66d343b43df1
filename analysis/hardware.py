"""Computed time of a run on other hardware. Everything in this module is computed, nothing is measured.

A forward pass takes, in seconds,

    t = overhead + verification + communication + max(bytes / (e_b * bandwidth), flops / (e_f * peak))

(the sum of both instead of the maximum for engines that do not overlap memory access and computation)

    bytes         KV cache that is read, weights that no cache holds, a diffusion head's for each of its steps
    flops         2 * parameters * query tokens, 4 * layers * width * query tokens * keys for attention, and
                  2 * parameters of the head * noisy tokens
    overhead      time that the engine adds for every pass, layer and step of a head: kernel launches, scheduling
    verification  time that the engine adds for every verifying pass
    communication of several GPUs: two all-reduces a layer over the hidden states, a ring's steps and its traffic each
    e_b, e_f      shares of the data sheet's bandwidth and peak that kernels reach

Several GPUs share weights, KV heads and flops (tensor parallelism). Of a mixture of experts, a pass reads those to
which its tokens are routed, taken as drawn alike and independently: n tokens touch E (1 - (1 - k / E)^n) of E experts.

A trace has the inputs for every pass: role, rows, query tokens, final tokens before it, denoising steps.
docs/hardware.md compares the model with times that papers report, and lists what it leaves out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeVar

from draftscope.analysis.hardware_models import MODELS, ModelConfig
from draftscope.traces.replay import canvas_size
from draftscope.traces.schema import Step, Token, Trace
from draftscope.traces.stats import evaluated_drafts

Bound = Literal["launches", "memory", "compute", "communication"]
"""The longest term of a pass: the engine's overhead, reading weights and KV cache, arithmetic, or other GPUs."""
MAX_GPUS: Final = 64


class HardwareError(ValueError):
    """Error for a prediction that cannot be computed; the message has the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Time that an inference engine adds to a pass."""

    name: str
    overhead: float
    """Seconds for every layer of a pass."""
    verification: float
    """Seconds added to every verifying pass."""
    source: str
    bandwidth_share: float = 0.8
    compute_share: float = 0.6
    base: float = 0.0
    """Seconds for every pass, whatever its layers."""
    overlaps: bool = True
    """Whether memory is read while it computes; else the times of both add up."""
    attention: float = 1.0
    """How much longer a flop of attention takes than another one."""
    several: float = 0.0
    """Seconds more for every layer of a pass over more than one token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device as its data sheet describes it, or as it was measured."""

    name: str
    memory: float
    """Bytes."""
    bandwidth: float
    """Bytes a second."""
    peak: float
    """Dense 16-bit floating-point operations a second, 32-bit on a CPU."""
    source: str
    engine: Engine | None = None
    """Engine with which it was measured; None for a data sheet."""
    cache: float = 0.0
    """Bytes of weights that are still too many for its cache; fewer take no time to read."""
    link: float = 0.0
    """Bytes a second to other GPUs of its kind, in one direction; 0 if it works alone."""
    link_latency: float = 0.0
    """Seconds that an all-reduce takes however small it is, before its steps."""
    link_step: float = 0.0
    """Seconds of each of the 2 (g - 1) steps of a ring of g GPUs, without the traffic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSize:
    """Numbers of a network that decide its cost."""

    name: str
    parameters: float
    """Parameters that every token uses."""
    layers: int
    width: int
    """Query heads times head dimension."""
    kv_width: float
    """Key-value heads times head dimension; half of what a token takes in the cache of one layer."""
    head: float = 0.0
    """Parameters of a diffusion head, which every denoising step uses; 0 without one."""
    head_layers: int = 0
    denoising_steps: int = 0
    """Denoising steps per token, as published; the settings of a trace specify those of its own tokens."""
    source: str = ""
    bytes_per_number: float = 2.0
    """Bytes of one weight."""
    cache_bytes_per_number: float = 2.0
    """Bytes of one number of the KV cache."""
    total: float = 0.0
    """All parameters, in memory; 0 if every token uses all."""
    hidden: float = 0.0
    """Numbers of a hidden state; 0 if as many as `width`."""
    kv_heads: int = 0
    """Heads of the KV cache, of which every GPU holds at least one; 0 if it can be shared among any number."""
    experts: int = 0
    """Routed experts of a layer; 0 for a dense network."""
    active_experts: int = 0
    """Those of them that a token uses, and `parameters` count."""
    expert: float = 0.0
    """Parameters of one routed expert, over all layers."""
    window: float = 0.0
    """Tokens that the layers with a sliding window see."""
    window_layers: int = 0

    @property
    def stored_bytes(self) -> float:
        """Bytes of the weights in memory, the head's left out."""
        return (self.total or self.parameters) * self.bytes_per_number

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights that one token reads, the head's left out."""
        return self.parameters * self.bytes_per_number

    @property
    def expert_bytes(self) -> float:
        """Bytes of one routed expert, over all layers."""
        return self.expert * self.bytes_per_number

    def touched(self, tokens: float) -> float:
        """Experts of a layer that at least one of some tokens is routed to, on average."""
        return self.experts * (1 - (1 - self.active_experts / self.experts) ** tokens) if self.experts else 0.0

    def read_bytes(self, tokens: float) -> float:
        """Bytes of the weights that a pass over some tokens reads, the head's left out."""
        return self.weight_bytes + (self.touched(tokens) - self.active_experts) * self.expert_bytes

    def seen(self, keys: float) -> float:
        """Keys that a query attends to, over all layers."""
        return (self.layers - self.window_layers) * keys + self.window_layers * min(keys, self.window)

    @property
    def head_bytes(self) -> float:
        """Bytes of the head's weights."""
        return self.head * self.bytes_per_number

    @property
    def step_layers(self) -> float:
        """Layers of a transformer that launch as much as one denoising step: one, and a seventh for each of the head.

        Counted: a step of a head with 3 layers takes 57 operations, 6 for each layer (engines/models/heads.py), a layer
        of transformers' Llama and Qwen3 36 and 48.
        """
        return 1 + self.head_layers / 7 if self.head else 0.0

    @property
    def layer_cache_bytes(self) -> float:
        """Bytes of the KV cache for one token in one layer."""
        return 2 * self.kv_width * self.cache_bytes_per_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A device, what runs networks on it, and the networks."""

    device: Device
    engine: Engine
    target: NetworkSize
    draft: NetworkSize | None = None
    """The network that drafts, for traces in which another model does."""
    batch: int = 1
    """Sequences that are decoded together, all alike."""
    gpus: int = 1
    """Devices that share every layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassWork:
    """Work of one forward pass."""

    query_tokens: float
    """Tokens fed, over all rows."""
    rows: float = 1
    """Over all sequences."""
    context: float = 0
    """Tokens that the KV cache holds for each row."""
    judges: bool = False
    head_passes: int = 0
    """How often a diffusion head runs, one time after the other."""
    noisy_tokens: float = 0
    """Tokens that are fed to it, over all of these times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCost:
    """The terms of one pass, in seconds."""

    overhead: float
    verification: float
    memory: float
    compute: float
    overlaps: bool = True
    communication: float = 0.0

    @property
    def seconds(self) -> float:
        """The whole pass."""
        work = max(self.memory, self.compute) if self.overlaps else self.memory + self.compute
        return self.overhead + self.verification + self.communication + work

    @property
    def bound(self) -> Bound:
        """The longest term."""
        terms: dict[Bound, float] = {"memory": self.memory, "compute": self.compute}
        terms |= {"launches": self.overhead + self.verification, "communication": self.communication}
        return max(terms, key=terms.__getitem__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A run on other hardware, computed pass by pass."""

    passes: tuple[PassCost, ...]
    """In the order of the trace's steps."""
    ordinary: PassCost
    """One pass of ordinary decoding, in the middle of the canvas."""
    tokens: int
    """Tokens of one sequence."""
    batch: int
    note: str = ""
    """Return a sentence about what the computed time of these networks excludes."""

    def __repr__(self) -> str:
        """The prediction in one line."""
        return (
            f"<Prediction: {self.tokens} tokens in {len(self.passes)} passes, {self.seconds:.3g} s, "
            f"{self.speed_up:.2f} times as fast as ordinary decoding>"
        )

    @property
    def seconds(self) -> float:
        """Seconds of the whole run."""
        return sum(cost.seconds for cost in self.passes)

    @property
    def ordinary_seconds(self) -> float:
        """Seconds of the baseline, one token per pass."""
        return self.tokens * self.ordinary.seconds

    @property
    def speed_up(self) -> float:
        """Times as fast as ordinary decoding on the same hardware."""
        return self.ordinary_seconds / self.seconds

    @property
    def tokens_per_second(self) -> float:
        """Tokens a second, over the whole batch."""
        return self.tokens * self.batch / self.seconds


def pass_cost(device: Device, size: NetworkSize, engine: Engine, work: PassWork, gpus: int = 1) -> PassCost:
    """Return the cost of one forward pass of a network.

    Args:
        device: Device whose memory and arithmetic are used.
        size: The network.
        engine: What the engine adds, and how much of the device it uses.
        work: Tokens and rows of the pass, with their context.
        gpus: Devices that share every layer.
    """
    keys = work.context + work.query_tokens / work.rows / 2  # a query sees half of its own row's queries on average
    attended = 4 * size.width * size.seen(keys) * engine.attention
    flops = work.query_tokens * (2 * size.parameters + attended) + work.noisy_tokens * 2 * size.head
    weights, head = (
        read_bytes if read_bytes >= device.cache else 0.0
        for read_bytes in (size.read_bytes(work.query_tokens), size.head_bytes)
    )
    cached = work.rows * size.seen(work.context) * size.layer_cache_bytes
    moved = (weights + work.head_passes * head) / gpus + cached / min(gpus, size.kv_heads or gpus)
    layers = size.layers + work.head_passes * size.step_layers
    return PassCost(
        overhead=engine.base + engine.overhead * layers + engine.several * size.layers * (work.query_tokens > 1),
        verification=engine.verification if work.judges else 0.0,
        memory=moved / (device.bandwidth * engine.bandwidth_share),
        compute=flops / gpus / (device.peak * engine.compute_share),
        overlaps=engine.overlaps,
        communication=_communication(device, size, engine, work.query_tokens, gpus),
    )


def _communication(device: Device, size: NetworkSize, engine: Engine, tokens: float, gpus: int) -> float:
    """Seconds of the all-reduces of a pass, after attention and after the feed-forward network of every layer."""
    if gpus == 1:
        return 0.0
    traffic = 2 * (gpus - 1) / gpus * tokens * (size.hidden or size.width) * 2  # of a ring, in 16 bits
    latency = device.link_latency + 2 * (gpus - 1) * device.link_step
    return 2 * size.layers * (latency + traffic / (device.link * engine.bandwidth_share))


def draft_cost(device: Device, size: NetworkSize, engine: Engine, work: PassWork, gpus: int = 1) -> PassCost:
    """Return the cost of a pass of a drafter, which runs on one of the GPUs if that is faster than on all.

    Args:
        device: Device whose memory and arithmetic are used.
        size: The drafter.
        engine: What the engine adds, and how much of the device it uses.
        work: Tokens and rows of the pass, with their context.
        gpus: Devices that share every layer of the target.
    """
    costs = [pass_cost(device, size, engine, work, count) for count in {1, gpus}]
    return min(costs, key=lambda cost: cost.seconds)


def pass_works(steps: Iterable[Step], batch: int = 1, config: Mapping[str, Any] | None = None) -> Iterator[PassWork]:
    """Yield the work of every step's pass.

    Args:
        steps: Steps from the beginning of a run.
        batch: Identical sequences that are decoded together.
        config: Settings of the run, for the denoising steps of vectors.

    Raises:
        HardwareError: If a step has no query tokens.
    """
    final: set[int] = set()
    for step in steps:
        if step.call.query_tokens < 1:
            raise HardwareError("trace: a pass does not report its query tokens, so its cost cannot be computed.")
        fates = {*step.fate}  # few, so that a wide pass costs little
        judges = step.call.role != "draft" and any(fate.judged for fate in fates)
        passes, noisy = denoised(step, config or {})
        fed, over, noisy = step.call.query_tokens * batch, step.call.rows * batch, noisy * batch
        yield PassWork(
            query_tokens=fed, rows=over, context=len(final), judges=judges, head_passes=passes, noisy_tokens=noisy
        )
        final.difference_update(step.position)
        settled = {fate for fate in fates if fate.final}
        final.update(position for position, fate in zip(step.position, step.fate, strict=True) if fate in settled)


def denoised(step: Step, config: Mapping[str, Any]) -> tuple[int, int]:
    """Return how often the diffusion head runs in a pass, and how many noisy tokens it is fed over all of these times.

    Every token that the pass samples or verifies takes the denoising steps of the settings, and so does the bonus token
    after the drafts, even if it is dropped. If whole paths are verified, the head runs once along all of them and then
    for its own token, whose steps are counted in full. A mixture of Gaussians denoises nothing.

    Args:
        step: The pass.
        config: Settings of the run, with `steps`.
    """
    steps = denoising_steps(config, step.token)
    if not steps or (step.call.role == "draft" and config.get("drafter") == "mixture"):
        return 0, 0
    tokens = max(len(step.position), evaluated_drafts(step) + 1)
    return steps + ("path_log_ratio" in step.numbers), steps * tokens * guided_rows(config)


def denoising_steps(config: Mapping[str, Any], tokens: Iterable[Token]) -> int:
    """Return the steps from noise to each token; 0 if the settings do not have them, or no token is a vector.

    Args:
        config: Settings of the run, with `steps`.
        tokens: Tokens of the run or of a pass.
    """
    steps = config.get("steps")
    return steps if type(steps) is int and steps > 0 and any(isinstance(token, tuple) for token in tokens) else 0


def guided_rows(config: Mapping[str, Any]) -> int:
    """Rows of a token: 2 with classifier-free guidance."""
    return 2 if config.get("guidance", 1) not in (1, None) else 1


def predict(trace: Trace, machine: Machine) -> Prediction:
    """Compute the passes of a trace on other hardware, with networks of another size.

    The trace specifies which passes there were; its own model's size and times play no role. The prompt is left out.

    Args:
        trace: A run with its steps.
        machine: Device, engine, sizes of target and drafter, and batch.

    Raises:
        HardwareError: If there are no passes, a pass has no query tokens, a drafter is missing, or the device has too
            little memory.
    """
    device, engine, target, draft, batch = machine.device, machine.engine, machine.target, machine.draft, machine.batch
    gpus = machine.gpus
    if batch < 1:
        raise HardwareError(f"batch: {batch} is not allowed; use a whole number from 1.")
    if not trace.steps:
        raise HardwareError("trace: has no steps; give a run with its steps.")
    drafting = any(step.call.role == "draft" for step in trace.steps)
    if drafting and draft is None:
        raise HardwareError("draft: is missing, although another model drafts in this trace; give its size.")
    rows = guided_rows(trace.config)
    check_memory(device, target, draft if drafting else None, canvas_size(trace.canvas), rows * batch, gpus)

    passes = [
        draft_cost(device, draft, engine, work, gpus)
        if step.call.role == "draft" and draft is not None
        else pass_cost(device, target, engine, work, gpus)
        for step, work in zip(trace.steps, pass_works(trace.steps, batch, trace.config), strict=True)
    ]
    ordinary, tokens = ordinary_cost(trace, machine), trace.summary.tokens
    note = _without(trace, target, _denoising_steps(trace))
    return Prediction(passes=tuple(passes), ordinary=ordinary, tokens=tokens, batch=batch, note=note)


def ordinary_cost(trace: Trace, machine: Machine) -> PassCost:
    """Return the cost of one pass of ordinary decoding, in the middle of a trace's canvas.

    Args:
        trace: Run, which gives the context and the rows of a sequence.
        machine: Device, engine and target, and the batch.
    """
    steps, rows = _denoising_steps(trace), guided_rows(trace.config) * machine.batch
    one = PassWork(
        query_tokens=rows, rows=rows, context=trace.summary.tokens / 2, head_passes=steps, noisy_tokens=steps * rows
    )
    return pass_cost(machine.device, machine.target, machine.engine, one, machine.gpus)


def _denoising_steps(trace: Trace) -> int:
    return denoising_steps(trace.config, (token for step in trace.steps for token in step.token))


def _without(trace: Trace, target: NetworkSize, steps: int) -> str:
    """Why the denoising steps of a token are left out, in a sentence; empty where they are not."""
    if not any(isinstance(token, tuple) for step in trace.steps for token in step.token):
        return ""
    if not steps:
        return "This trace does not report the denoising steps of a token, so those of a head are left out."
    return "" if target.head else f"The steps of a diffusion head are left out, as {target.name} has none."


def check_memory(
    device: Device, target: NetworkSize, draft: NetworkSize | None, tokens: int, rows: int = 1, gpus: int = 1
) -> None:
    """Check that weights and KV caches fit into the GPUs.

    Args:
        device: Device, all GPUs being the same.
        target: The network of the target.
        draft: The network of the drafter, if there is one.
        tokens: Tokens of each row in the cache.
        rows: Rows over all sequences.
        gpus: Devices that share every layer.

    Raises:
        HardwareError: If they do not fit, or the GPUs cannot be combined.
    """
    if not 1 <= gpus <= MAX_GPUS:
        raise HardwareError(f"gpus: {gpus} is not allowed; use 1 to {MAX_GPUS}.")
    if gpus > 1 and not device.link:
        raise HardwareError(f"gpus: {device.name} cannot be combined with others; choose another device or 1.")
    sizes = [size for size in (target, draft) if size is not None]
    cached = [rows * size.seen(tokens) * size.layer_cache_bytes for size in sizes]
    needed = sum(size.stored_bytes + size.head_bytes for size in sizes) + sum(cached)
    each = sum((size.stored_bytes + size.head_bytes) / gpus for size in sizes) + sum(
        cache / min(gpus, size.kv_heads or gpus) for size, cache in zip(sizes, cached, strict=True)
    )
    if each > device.memory:
        names = " and ".join(size.name for size in sizes)
        gigabytes = f"{device.memory / 1e9:.0f}"
        memory = f"{device.name} has {gigabytes}" if gpus == 1 else f"{gpus} {device.name} have {gigabytes} each"
        raise HardwareError(
            f"device: {names} with a KV cache of {tokens * rows} tokens take {needed / 1e9:.1f} GB, and {memory}; "
            "choose a larger device, more GPUs, fewer bits, a smaller model or a smaller batch."
        )


def quantised(size: NetworkSize, weight_bits: float, cache_bits: float) -> NetworkSize:
    """Return a network with fewer bits; it still computes in 16.

    Args:
        size: The network.
        weight_bits: Bits of a weight.
        cache_bits: Bits of a number in the KV cache.
    """
    name = size.name if weight_bits == 16 else f"{size.name} in {weight_bits:g} bits"
    return replace(size, name=name, bytes_per_number=weight_bits / 8, cache_bytes_per_number=cache_bits / 8)


def size_of(parameters: float) -> NetworkSize:
    """A network of the usual proportions: 12 layers width^2 parameters, width = 128 layers, 4 query heads to a KV head.

    Raises:
        HardwareError: for a number that no network has.
    """
    if not 1e6 <= parameters <= 1e13:
        raise HardwareError(f"size: {parameters:g} parameters are not allowed; use 1e6 to 1e13.")
    width = round((parameters * 128 / 12) ** (1 / 3) / 128) * 128 or 128
    return NetworkSize(
        name=f"{parameters / 1e9:g}B", parameters=parameters, layers=max(1, width // 128), width=width,
        kv_width=max(width // 4, 64), source="usual proportions",
    )  # fmt: skip


def read_size(field: str, value: str | float | NetworkSize) -> NetworkSize:
    """Return a network by its name, by its number of parameters, or as it is.

    Args:
        field: Name of the argument, which errors begin with.
        value: Name of a preset, number of parameters (also as a text, such as "7e9"), or the network.

    Raises:
        HardwareError: If there is no such network.
    """
    if isinstance(value, NetworkSize):
        return value
    try:
        parameters = float(value)
    except ValueError:
        if not str(value).strip():
            raise HardwareError(f"{field}: is empty; choose a model, or give its parameters, such as 7e9.") from None
        return named(field, {**SIZES, **SHIPPED}, str(value))
    try:
        return size_of(parameters)
    except HardwareError as error:
        raise HardwareError(str(error).replace("size:", f"{field}:", 1)) from None


def read_machine(
    device: str | Device,
    engine: str | Engine,
    target: str | float | NetworkSize,
    draft: str | float | NetworkSize | None = None,
    batch: int = 1,
    gpus: int = 1,
) -> Machine:
    """Return a machine.

    Args:
        device: Preset name or device.
        engine: Preset name or engine.
        target: Preset name, number of parameters, or size of the target.
        draft: The same for the drafter; None for methods without one.
        batch: Sequences per pass.
        gpus: Devices that share every layer.

    Raises:
        HardwareError: If a name is unknown or a number is invalid.
    """
    return Machine(
        device=device if isinstance(device, Device) else named("device", DEVICES, device),
        engine=engine if isinstance(engine, Engine) else named("engine", ENGINES, engine),
        target=read_size("target", target),
        draft=None if draft is None else read_size("draft", draft),
        batch=batch,
        gpus=gpus,
    )


Preset = TypeVar("Preset", Device, NetworkSize, Engine)


def named(kind: str, presets: Mapping[str, Preset], name: str) -> Preset:
    """Return a preset by name, ignoring case.

    Args:
        kind: What the presets are, which errors begin with.
        presets: Presets by name.
        name: Name of one of them.

    Raises:
        HardwareError: If the name is unknown; the message suggests those that begin with it, or the nearest one.
    """
    known = {key.lower(): key for key in presets}
    if name.lower() in known:
        return presets[known[name.lower()]]
    begin = [key for lower, key in known.items() if name and lower.startswith(name.lower())]
    near = begin or [known[lower] for lower in get_close_matches(name.lower(), known, 1, 0.3)]
    remedy = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(presets)}."
    raise HardwareError(f"{kind}: there is no {name!r}; {remedy}")


def _by_name(*presets: Preset) -> Mapping[str, Preset]:
    return {preset.name: preset for preset in presets}


_ALL_REDUCE: Final = 6.6e-6
_NVLINK, _PCIE = 0.6e-6, 1.0e-6
"""Seconds of a small all-reduce of a ring, and of each of its steps: the constants by which NCCL chooses algorithms.

github.com/NVIDIA/nccl, src/graph/tuning.cc, at b6475625: baseLat and hwLat of ring and protocol LL.
"""


def _device(
    name: str,
    gigabytes: float,
    gigabytes_per_second: float,
    teraflops: float,
    source: str,
    link: tuple[float, float] = (0, 0),
) -> Device:
    """`link`: GB a second in one direction, and the seconds of a step of an all-reduce."""
    return Device(
        name=name, memory=gigabytes * 1e9, bandwidth=gigabytes_per_second * 1e9, peak=teraflops * 1e12, source=source,
        link=link[0] * 1e9, link_latency=_ALL_REDUCE if link[0] else 0.0, link_step=link[1],
    )  # fmt: skip


DEVICES: Final = _by_name(
    _device("T4", 16, 320, 65, "NVIDIA T4 data sheet", (16, _PCIE)),
    _device("L4", 24, 300, 121, "NVIDIA L4 data sheet, dense", (32, _PCIE)),
    _device("RTX 3090", 24, 936, 71, "NVIDIA GA102 whitepaper, FP16 with FP32 accumulation", (32, _PCIE)),
    _device("RTX 4090", 24, 1008, 165, "NVIDIA Ada whitepaper, FP16 with FP32 accumulation", (32, _PCIE)),
    _device("V100", 32, 900, 125, "NVIDIA V100 SXM2 data sheet, FP16", (150, _NVLINK)),
    _device("A100 40GB", 40, 1555, 312, "NVIDIA A100 data sheet", (300, _NVLINK)),
    _device("A100 80GB", 80, 2039, 312, "NVIDIA A100 SXM data sheet", (300, _NVLINK)),
    _device("H100", 80, 3350, 989, "NVIDIA H100 SXM data sheet, dense", (450, _NVLINK)),
    _device("H200", 141, 4800, 989, "NVIDIA H200 SXM data sheet, dense", (450, _NVLINK)),
    _device("B200", 180, 8000, 2250, "NVIDIA DGX B200 data sheet, an eighth, dense", (900, _NVLINK)),
    _device("M3 Max", 128, 400, 14, "Apple: 400 GB/s; 40 cores * 128 lanes * 2 * 1.38 GHz, computed"),
    _device("laptop DDR5", 32, 90, 1, "two channels of DDR5-5600; 8 cores * 32 flops * 4 GHz, computed"),
)


def _size(
    name: str, billions: float, layers: int, heads: tuple[int, int, int], source: str, head: tuple[float, int] = (0, 0)
) -> NetworkSize:
    """`heads` are query heads, KV heads and the head dimension; `head` a diffusion head's parameters and layers.

    Such a head takes the 100 steps of MAR.
    """
    queries, groups, dimension = heads
    return NetworkSize(
        name=name, parameters=billions * 1e9, layers=layers, width=queries * dimension, kv_width=groups * dimension,
        head=head[0] * 1e9, head_layers=head[1], denoising_steps=100 if head[1] else 0, source=source,
    )  # fmt: skip


def _published(config: ModelConfig) -> NetworkSize:
    return NetworkSize(
        name=config.name, parameters=config.active, total=config.total, layers=config.layers, width=config.width,
        kv_width=config.kv_width, hidden=config.hidden, kv_heads=config.kv_heads, experts=config.experts,
        active_experts=config.active_experts, expert=config.expert, window=config.window,
        window_layers=config.window_layers, source=config.source,
    )  # fmt: skip


SIZES: Final = _by_name(
    *map(_published, MODELS.values()),
    _size("Lumina-mGPT 7B", 7.0, 32, (32, 32, 128), "config.json of Chameleon-7B"),
    _size("Janus-Pro 7B", 6.9, 30, (32, 32, 128), "config.json of deepseek-ai/Janus-Pro-7B"),
    _size("Cosmos 4B", 4.0, 16, (32, 8, 128), "config.json of nvidia/Cosmos-1.0-Autoregressive-4B"),
    _size("SDAR 1.7B", 1.7, 28, (16, 8, 128), "config.json of Qwen3-1.7B"),
    _size("SDAR 4B", 4.0, 36, (32, 8, 128), "config.json of Qwen3-4B"),
    _size("SDAR 8B", 8.2, 36, (32, 8, 128), "config.json of Qwen3-8B"),
    _size("Fast-dLLM v2 1.5B", 1.5, 28, (12, 2, 128), "config.json of Qwen2.5-1.5B"),
    _size("Fast-dLLM v2 7B", 7.6, 28, (28, 4, 128), "config.json of Qwen2.5-7B"),
    _size("LLaDA 8B", 8.0, 32, (32, 32, 128), "config.json of GSAI-ML/LLaDA-8B-Instruct"),
    _size("Dream 7B", 7.6, 28, (28, 4, 128), "config.json of Dream-org/Dream-v0-Instruct-7B"),
    _size("SmolLM2 135M", 0.135, 30, (9, 3, 64), "config.json of HuggingFaceTB/SmolLM2-135M-Instruct"),
    _size("MAR-H", 0.791, 40, (16, 16, 80), "code and training script of MAR, arXiv 2406.11838", (0.151, 12)),
    _size("MAR-L", 0.406, 32, (16, 16, 64), "code and training script of MAR, arXiv 2406.11838", (0.072, 8)),
    _size("MAR-B", 0.172, 24, (12, 12, 64), "code and training script of MAR, arXiv 2406.11838", (0.036, 6)),
)


def _ours(name: str, millions: float, layers: int, width: int, head: tuple[float, int] = (0, 0)) -> NetworkSize:
    return NetworkSize(
        name=name, parameters=millions * 1e6, layers=layers, width=width, kv_width=width, head=head[0] * 1e6,
        head_layers=head[1], source="assets/models", bytes_per_number=4.0, cache_bytes_per_number=4.0,
    )  # fmt: skip


SHIPPED: Final = _by_name(
    *(_ours(name, 4.788, 6, 256) for name in ("studio-image", "studio-video")),
    _ours("studio-image-draft", 1.017, 1, 256),
    _ours("text-target", 8.507, 5, 384),
    _ours("text-draft", 1.374, 4, 160),
    _ours("tally-target", 4.549, 6, 256),
    *(_ours(name, 0.578, 3, 128) for name in ("tally-draft", "tally-full")),
    _ours("patch-target", 13.645, 18, 256, (1.324, 3)),
    _ours("patch-draft", 1.577, 2, 256, (0.284, 2)),
    _ours("patch-mixture", 1.678, 2, 256),
)
"""Bundled models, in float32 and without embeddings that are only looked up."""
ENGINES: Final = _by_name(
    Engine(
        name="eager",
        overhead=1.0e-3,
        verification=4.1e-3,
        source="ordinary decoding of SCD's Tables 1 and 2 less the time of its weights; Table 4 without the pass",
    ),
    Engine(
        name="CUDA graphs",
        overhead=0.12e-3,
        verification=0.3e-3,
        source="decoders of transformers replayed on an H100 less the time of their weights; verification: assumed",
    ),
)


def presets() -> dict[str, Any]:
    """Devices, networks and engines as plain data, and the target and drafter to begin with for a kind of canvas."""
    derived = ("weight_bytes", "stored_bytes", "expert_bytes", "layer_cache_bytes", "head_bytes", "step_layers")
    return {
        "devices": [asdict(device) for device in DEVICES.values()],
        "sizes": [asdict(size) | {name: getattr(size, name) for name in derived} for size in SIZES.values()],
        "engines": [asdict(engine) for engine in ENGINES.values()],
        "usual": {
            "text": ("Llama 3.1 8B", "Llama 3.2 1B"),
            "image": ("Lumina-mGPT 7B", "Llama 3.2 1B"),
            "video": ("Cosmos 4B", "Llama 3.2 1B"),
            "continuous": ("MAR-H", "MAR-B"),
        },
    }
