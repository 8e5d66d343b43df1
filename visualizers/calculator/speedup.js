// @ts-check
// How much faster drafts make a model: analysis/speedup_model.py, break_even.py and verdicts.py, on passes of pass_cost.js. No DOM here.

import { inDigits, memoryOf, passCost, touched } from "../player/pass_cost.js";

export const MAX_DRAFTS = 128;
/** Draft lengths among which the fastest is. */
export const SHORT = 16;
const BATCHES = Array.from({ length: 11 }, (_, power) => 2 ** power);
export const DRAFTS = [...Array.from({ length: 16 }, (_, index) => index + 1), 20, 24, 28, 32, 40, 48, 64, 96, 128];
const GPUS = [1, 2, 4, 8];
const MAX_BATCH = 4096;
/** Times as fast from which a speed-up is worth the second model and its memory. */
const WORTH = 1.15;
const HALVINGS = 60;
const RANGES = { acceptance: [0, 1], drafts: [1, MAX_DRAFTS], batch: [1, MAX_BATCH], context: [0, 1_000_000] };
const BOUNDS = {
  launches: "what the engine adds to it, so verifying more drafts costs almost nothing",
  memory: "reading weights and KV cache, so verifying more drafts costs almost nothing",
  compute: "arithmetic, so every draft costs its share",
  communication: "what GPUs send one another, so verifying more drafts costs little",
};

/** A model, what drafts for it, and where both run; `draft` is null for drafts that no network makes.
 * @typedef {{ device: any, engine: any, target: any, draft: any, acceptance: number, drafts: number, batch: number, context: number, gpus: number }} Plan */

const inWords = (value) => value.toLocaleString("en");
const share = (part) => `${(100 * part).toFixed(0)}%`;
const milliseconds = (seconds) => `${Number((1000 * seconds).toPrecision(3))} ms`;

/** A network with weights and KV cache of fewer bits than 16. */
export function quantised(size, weights, cache) {
  const less = weights / 8 / size.bytes_per_number;
  const scaled = ["weight_bytes", "stored_bytes", "expert_bytes", "head_bytes"].map((name) => [name, size[name] * less]);
  const name = weights === 16 ? size.name : `${size.name} in ${weights} bits`;
  return { ...size, ...Object.fromEntries(scaled), name, layer_cache_bytes: (size.layer_cache_bytes * cache) / 8 / size.cache_bytes_per_number };
}

/** Why a plan cannot be computed, in a sentence; empty where it can. @param {Plan} plan */
export function problemOf(plan) {
  for (const [field, [minimum, maximum]] of Object.entries(RANGES)) {
    if (!(plan[field] >= minimum && plan[field] <= maximum)) return `${field}: ${plan[field]} is not allowed; use ${minimum} to ${inWords(maximum)}.`;
  }
  const { device, target, draft, context, drafts, batch, gpus } = plan;
  if (gpus > 1 && !device.link) return `gpus: ${device.name} cannot be combined with others; choose another device or 1.`;
  const sizes = draft ? [target, draft] : [target];
  const tokens = context + drafts + 1;
  const parts = sizes.map((size) => ({ ...memoryOf(size, tokens, batch), heads: Math.min(gpus, size.kv_heads || gpus) }));
  const each = parts.reduce((sum, { weights, cached, heads }) => sum + weights / gpus + cached / heads, 0);
  if (each <= device.memory) return "";
  const needed = parts.reduce((sum, { weights, cached }) => sum + weights + cached, 0);
  const [names, gigabytes] = [sizes.map(({ name }) => name).join(" and "), (device.memory / 1e9).toFixed(0)];
  const memory = gpus === 1 ? `${device.name} has ${gigabytes}` : `${gpus} ${device.name} have ${gigabytes} each`;
  return `device: ${names} with a KV cache of ${tokens * batch} tokens take ${(needed / 1e9).toFixed(1)} GB, and ${memory}; `
    + "choose a larger device, more GPUs, fewer bits, a smaller model or a smaller batch.";
}

/** Tokens that a verification yields on average (arXiv 2211.17192, equation 1). */
function tokensOf(acceptance, drafts) {
  return acceptance === 1 ? drafts + 1 : (1 - acceptance ** (drafts + 1)) / (1 - acceptance);
}

/** The acceptance rate at which a verification yields `tokens`; null if even full acceptance yields fewer. */
function acceptanceFor(tokens, drafts) {
  if (tokens > drafts + 1) return null;
  let [low, high] = [0, 1];
  for (let halving = 0; halving < HALVINGS; halving += 1) {
    const middle = (low + high) / 2;
    if (tokensOf(middle, drafts) < tokens) low = middle;
    else high = middle;
  }
  return high;
}

/** Tokens a pass, costs of an ordinary and of a verifying pass, speed-up and break-even acceptance of a plan. @param {Plan} plan */
export function computed({ device, engine, target, draft, acceptance, drafts, batch, context, gpus }) {
  const pass = (size, tokens, count, judges = false) => {
    const steps = size.denoising_steps;
    const work = { queries: tokens * batch, rows: batch, context, judges, headPasses: steps, noisy: steps * tokens * batch };
    return passCost(device, size, engine, work, count);
  };
  const [ordinary, verification] = [pass(target, 1, gpus), pass(target, drafts + 1, gpus, true)];
  const drafting = draft ? drafts * Math.min(...[1, gpus].map((count) => pass(draft, 1, count).seconds)) : 0;
  const tokens = tokensOf(acceptance, drafts);
  const accelerated = verification.seconds + drafting;
  const speedUp = (tokens * ordinary.seconds) / accelerated;
  const rates = [1 / ordinary.seconds, speedUp / ordinary.seconds];
  return { tokens, ordinary, verification, drafting, speedUp, rates, breakEven: acceptanceFor(accelerated / ordinary.seconds, drafts) };
}

const speedOf = (plan) => computed(plan).speedUp;

/** A plan with the fastest short draft length that fits the memory, the shortest of equals. @param {Plan} plan @returns {Plan} */
export function fastest(plan) {
  const plans = Array.from({ length: SHORT }, (_, index) => ({ ...plan, drafts: index + 1 })).filter((each) => !problemOf(each));
  return plans.reduce((best, each) => (speedOf(each) > speedOf(best) ? each : best));
}

/** The plan of a form, with the fewest GPUs and the fastest draft length where these are 0; or why there is none. */
export function planOf({ device, engine, target, draft, acceptance, batch, context, drafts, gpus }) {
  const counts = gpus ? [gpus] : GPUS.filter((count) => count === 1 || device.link);
  for (const count of counts) {
    const plan = { device, engine, target, draft, acceptance, drafts: drafts || 1, batch, context, gpus: count };
    const problem = problemOf(plan);
    if (!problem) return { plan: drafts ? plan : fastest(plan), problem };
    if (count === counts.at(-1) || !problem.startsWith("device: ")) return { plan: null, problem };
  }
  throw new Error("gpus: no number was tried");
}

/** The largest number for which something holds that holds for `low` and not for `high`. */
function last(low, high, holds) {
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    [low, high] = holds(middle) ? [middle, high] : [low, middle];
  }
  return low;
}

/** From which larger batch on the answer is another, or where memory ends; null where neither is. */
function turnOf(plan, speed) {
  const worth = speed >= WORTH;
  const known = new Map([[plan.batch, speed]]);
  const at = (batch) => {
    if (!known.has(batch)) {
      const larger = { ...plan, batch, drafts: 1 };
      known.set(batch, problemOf(larger) ? null : speedOf(fastest(larger)));
    }
    return known.get(batch) ?? null;
  };
  const same = (batch) => at(batch) !== null && at(batch) >= WORTH === worth;
  let [batch, ends] = [plan.batch, null];
  while (batch < MAX_BATCH && ends === null) {
    const larger = Math.min(2 * batch, MAX_BATCH);
    if (at(larger) === null) ends = last(batch, larger, (one) => at(one) !== null);
    const turned = ends ?? larger;
    if (at(turned) >= WORTH !== worth) return { turns: last(batch, turned, same) + 1, ends: null };
    batch = larger;
  }
  return { turns: null, ends };
}

/** Describe what larger batches change, and from which batch on; null if nothing changes. @param {Plan} plan */
function limitOf(plan) {
  const speed = speedOf(plan);
  const { turns, ends } = turnOf(plan, speed);
  const worth = speed >= WORTH;
  if (turns !== null) return { batch: turns, text: `${worth ? "no" : "yes"} from batch ${inWords(turns)} on` };
  if (worth && ends !== null) return { batch: ends, text: ends > plan.batch ? `memory ends at batch ${inWords(ends)}` : "memory ends there" };
  return { batch: null, text: `no batch up to ${inWords(ends ?? MAX_BATCH)} changes that` };
}

/** Whether it is worth it at this batch, in one sentence. @param {Plan} plan @param {{ low: number, high: number }} rate */
export function verdict(plan, rate) {
  const [speed, low, high] = [plan.acceptance, rate.low, rate.high].map((acceptance) => speedOf({ ...plan, acceptance }));
  const answer = low >= WORTH ? "Yes" : high >= WORTH ? "Perhaps" : "No";
  const span = inDigits(low) === inDigits(high) ? "" : `, ${inDigits(low)} to ${inDigits(high)},`;
  return `${answer}: about ${inDigits(speed)} times${span} at batch ${inWords(plan.batch)}; ${limitOf(plan).text}.`;
}

/** The answer in three parts: the verdict, what it rests on, and what it consists of. @param {Plan} plan */
export function description(plan, rate, source) {
  const found = computed(plan);
  const best = fastest(plan);
  const fast = speedOf(best);
  const several = plan.drafts > 1 ? `Its ${plan.drafts} drafts take` : "Its draft takes";
  const drafts = plan.draft ? `${several} ${milliseconds(found.drafting)}` : "Drafts cost nothing";
  const advice = fast <= 1 ? "No draft length is faster than ordinary decoding"
    : best.drafts === plan.drafts ? `γ = ${plan.drafts} is the fastest` : `γ = ${best.drafts} would be the fastest, ${fast.toFixed(2)} times`;
  const even = `it breaks even at ${found.breakEven === null ? "no acceptance rate" : share(found.breakEven)}`;
  const gpus = plan.gpus === 1 ? plan.device.name : `${plan.gpus} ${plan.device.name}`;
  const [ordinary, faster] = found.rates.map((one) => one.toFixed(0));
  const experts = [1, plan.drafts + 1].map((tokens) => touched(plan.target, plan.batch * tokens));
  const routed = experts[0] ? ` Its ${inWords(plan.batch * (plan.drafts + 1))} tokens touch ${experts[1].toFixed(0)} of ${plan.target.experts} experts in a layer, ordinary decoding's ${experts[0].toFixed(0)}.` : "";
  return {
    verdict: verdict(plan, rate),
    basis: `${share(rate.rate)} (${share(rate.low)} to ${share(rate.high)}) of drafts accepted, ${source}; ${even}.`,
    details: `${plan.target.name}, drafts ${plan.draft ? `by ${plan.draft.name}` : "by lookup"}, on ${gpus}: ${faster} tokens a second for each user, ${ordinary} without drafts, computed from data sheets, not measured. `
      + `A verification yields ${found.tokens.toFixed(2)} tokens, each ${milliseconds(found.ordinary.seconds)} of ordinary decoding, and takes ${milliseconds(found.verification.seconds)}, most of it for ${BOUNDS[found.verification.bound]}. ${drafts}. ${advice}.${routed}`,
  };
}

/** The two curves of a verdict, as demo/components/calculator.py has them. @param {Plan} plan @param {{ low: number, high: number }} rate */
export function reasonsOf(plan, rate) {
  const { batch, text } = limitOf(plan);
  const batches = [...new Set([...BATCHES, plan.batch, ...(batch === null ? [] : [batch])])].sort((a, b) => a - b);
  const plans = batches.map((each) => ({ ...plan, batch: each, drafts: 1 })).filter((each) => !problemOf(each)).map(fastest);
  const at = (acceptance) => speedOf({ ...plan, acceptance });
  return {
    rates: Array.from({ length: 51 }, (_, index) => [index / 50, at(index / 50)]),
    batches: plans.map((each) => [each.batch, ...[plan.acceptance, rate.low, rate.high].map((acceptance) => speedOf({ ...each, acceptance }))]),
    acceptance: plan.acceptance, low: rate.low, high: rate.high, even: computed(plan).breakEven,
    batch: plan.batch, speed: speedOf(plan), label: `${inDigits(speedOf(plan))}×`, worth: WORTH, turn: batch === null ? null : { batch, text },
  };
}

/** The curves by draft length of every device, as demo/components/calculator.py has them. @param {Plan} plan */
export function curvesOf(plan, devices) {
  const curves = devices.map((device) => {
    const plans = Array.from({ length: MAX_DRAFTS }, (_, index) => ({ ...plan, device, drafts: index + 1 })).filter((each) => !problemOf(each));
    const speeds = plans.map((each) => [each.drafts, speedOf(each)]);
    if (!speeds.length) return { device: device.name, speeds, best: 0, pays_to: 0, fastest: "", note: "too little memory" };
    const [best, speed] = speeds.slice(0, SHORT).reduce((fastest, each) => (each[1] > fastest[1] ? each : fastest));
    const paysTo = Math.max(0, ...speeds.filter((each) => each[1] >= 1).map(([drafts]) => drafts));
    const note = !paysTo ? "never faster" : paysTo < (speeds.at(-1)?.[0] ?? 0) ? `slower from γ ${paysTo + 1}` : "never slower";
    return { device: device.name, speeds, best, pays_to: paysTo, fastest: `${speed.toFixed(1)}× at γ ${best}`, note };
  });
  const highest = Math.max(1, ...curves.flatMap(({ speeds }) => speeds.map(([, speed]) => speed)));
  return { chosen: plan.device.name, longest: MAX_DRAFTS, most: highest, curves };
}

/** The table by draft length: heads and rows. @param {Plan} plan */
export function tableOf(plan) {
  const rows = DRAFTS.map((drafts) => ({ ...plan, drafts })).filter((each) => !problemOf(each)).map((each) => {
    const { tokens, verification, drafting, speedUp } = computed(each);
    return [each.drafts, ...[tokens, 1000 * verification.seconds, 1000 * drafting, speedUp].map((value) => Number(value.toPrecision(4)))].map(String);
  });
  return { heads: ["Draft length γ", "Tokens per verification", "Verification, ms", "Drafts, ms", "Times as fast"], rows };
}
