// @ts-check
// What a forward pass costs on hardware that is not here: the arithmetic of analysis/hardware.py, in its order. No DOM here.

/** A ratio with two digits, since a third one differs from run to run. @param {number} ratio */
export function inDigits(ratio) {
  return ratio.toFixed(ratio >= 9.95 ? 0 : ratio >= 0.995 ? 1 : 2);
}

/** Keys that a query attends to, over all layers. @param {NetworkSize} size @param {number} keys */
export function seen({ layers, window, window_layers }, keys) {
  return (layers - window_layers) * keys + window_layers * Math.min(keys, window);
}

/**
 * Experts of a layer that at least one of some tokens is routed to, on average; 0 in a dense network.
 * @param {NetworkSize} size @param {number} tokens
 */
export function touched({ experts, active_experts }, tokens) {
  return experts ? experts * (1 - (1 - active_experts / experts) ** tokens) : 0;
}

/** Bytes of the weights that a pass over some tokens reads, the head's left out. @param {NetworkSize} size @param {number} tokens */
function weightBytes(size, tokens) {
  return size.weight_bytes + (touched(size, tokens) - size.active_experts) * size.expert_bytes;
}

/** Bytes of weights, and of a KV cache with `tokens` in every row. @param {NetworkSize} size @param {number} tokens @param {number} rows */
export function memoryOf(size, tokens, rows) {
  return { weights: size.stored_bytes + size.head_bytes, cached: rows * seen(size, tokens) * size.layer_cache_bytes };
}

/**
 * Seconds of the all-reduces of a pass, after attention and after the feed-forward network of every layer.
 * @param {Device} device @param {NetworkSize} size @param {Engine} engine @param {number} tokens @param {number} gpus
 */
function communication(device, size, engine, tokens, gpus) {
  if (gpus === 1) return 0;
  const traffic = ((2 * (gpus - 1)) / gpus) * tokens * (size.hidden || size.width) * 2;
  const latency = device.link_latency + 2 * (gpus - 1) * device.link_step;
  return 2 * size.layers * (latency + traffic / (device.link * engine.bandwidth_share));
}

/**
 * The terms of one pass in seconds, their sum, and the longest one. The work: tokens fed and rows, over all sequences; tokens that
 * the KV cache holds for each row; how often a diffusion head runs, and the noisy tokens that it is fed over all of these times.
 * @param {Device} device @param {NetworkSize} size @param {Engine} engine @param {PassWork} work @param {number} gpus
 */
export function passCost(device, size, engine, { queries, rows, context, judges = false, headPasses = 0, noisy = 0 }, gpus = 1) {
  const keys = context + queries / rows / 2;
  const attended = 4 * size.width * seen(size, keys) * engine.attention;
  const flops = queries * (2 * size.parameters + attended) + noisy * 2 * size.head;
  const [weights, head] = [weightBytes(size, queries), size.head_bytes].map((bytes) => (bytes >= device.cache ? bytes : 0));
  const { cached } = memoryOf(size, context, rows);
  const moved = (weights + headPasses * head) / gpus + cached / Math.min(gpus, size.kv_heads || gpus);
  const overhead = engine.base + engine.overhead * (size.layers + headPasses * size.step_layers) + engine.several * size.layers * Number(queries > 1);
  /** @type {Record<string, number>} */
  const terms = {
    memory: moved / (device.bandwidth * engine.bandwidth_share),
    compute: flops / gpus / (device.peak * engine.compute_share),
    launches: overhead + (judges ? engine.verification : 0),
    communication: communication(device, size, engine, queries, gpus),
  };
  const work = engine.overlaps ? Math.max(terms.memory, terms.compute) : terms.memory + terms.compute;
  const bound = Object.keys(terms).reduce((largest, name) => (terms[name] > terms[largest] ? name : largest));
  return { ...terms, bound, seconds: terms.launches + terms.communication + work };
}
