// @ts-check
// The arithmetic of speculative decoding that the lessons draw: the same formulas as engines/sampling/coupling.py and
// analysis/break_even.py, against which tests/ui/test_lessons.py compares every function here.

/** @typedef {number[]} Distribution Probabilities that add up to 1. */
/** @typedef {"exact" | "always" | "refill" | "greedy"} Rule How a draft is verified and replaced. */

/** The sum of numbers. @param {number[]} values */
export const total = (values) => values.reduce((sum, value) => sum + value, 0);

/** The numbers over their sum. @param {number[]} values @returns {Distribution} */
export const normalized = (values) => values.map((value) => value / total(values));

/** Probability that each token is drafted and accepted: min(p, q). @param {Distribution} p @param {Distribution} q */
export const overlap = (p, q) => p.map((value, token) => Math.min(value, q[token]));

/** How often a draft is accepted. @param {Distribution} p @param {Distribution} q */
export const acceptance = (p, q) => total(overlap(p, q));

/** Residual of each token, (p - q)+, not normalised. @param {Distribution} p @param {Distribution} q */
export const residual = (p, q) => p.map((value, token) => Math.max(0, value - q[token]));

/** Half the sum of all differences. @param {Distribution} p @param {Distribution} q */
export const totalVariation = (p, q) => total(p.map((value, token) => Math.abs(value - q[token]))) / 2;

/** The likeliest token; the first of several. @param {Distribution} p */
export const likeliest = (p) => p.indexOf(Math.max(...p));

/** The chance that a draft of a token stays. @param {Rule} rule @param {Distribution} p @param {Distribution} q @param {number} token */
export function stays(rule, p, q, token) {
  if (rule === "always") return 1;
  if (rule === "greedy") return Number(token === likeliest(p));
  return q[token] > 0 ? Math.min(1, p[token] / q[token]) : 1;
}

/** From where the replacement of a rejected draft is drawn. @param {Rule} rule @param {Distribution} p @param {Distribution} q @returns {number[]} */
export function replacements(rule, p, q) {
  if (rule === "refill") return p;
  if (rule === "greedy") return p.map((_, token) => Number(token === likeliest(p)));
  const missing = residual(p, q);
  return total(missing) > 0 ? missing : p;
}

/** The distribution of what a rule puts out. @param {Rule} rule @param {Distribution} p @param {Distribution} q @returns {Distribution} */
export function output(rule, p, q) {
  const accepted = q.map((value, token) => value * stays(rule, p, q, token));
  const others = normalized(replacements(rule, p, q));
  const rejected = 1 - total(accepted);
  return accepted.map((value, token) => value + rejected * others[token]);
}

/** A function that returns the same numbers from 0 to 1 for the same seed (mulberry32). @param {number} seed */
export function random(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The token at which the running sum of weights passes a uniform number. @param {number[]} weights @param {number} uniform */
export function pick(weights, uniform) {
  let left = uniform * total(weights);
  for (let token = 0; token < weights.length; token += 1) {
    left -= weights[token];
    if (left < 0) return token;
  }
  return weights.findLastIndex((weight) => weight > 0);
}

/**
 * One draft and its verdict: the draft, whether it stayed, and the token that comes out.
 * @param {Rule} rule @param {Distribution} p @param {Distribution} q @param {() => number} chance
 */
export function verify(rule, p, q, chance) {
  const draft = pick(q, chance());
  const accepted = chance() < stays(rule, p, q, draft);
  return { draft, accepted, token: accepted ? draft : pick(replacements(rule, p, q), chance()) };
}

/**
 * Draw many drafts and verify each: how many tokens of each kind came out as accepted drafts, and as replacements.
 * @param {Rule} rule @param {Distribution} p @param {Distribution} q @param {number} draws @param {number} seed
 */
export function experiment(rule, p, q, draws, seed) {
  const [accepted, replaced] = [p.map(() => 0), p.map(() => 0)];
  const chance = random(seed);
  const odds = p.map((_, token) => stays(rule, p, q, token));
  const others = replacements(rule, p, q);
  for (let draw = 0; draw < draws; draw += 1) {
    const token = pick(q, chance());
    if (chance() < odds[token]) accepted[token] += 1;
    else replaced[pick(others, chance())] += 1;
  }
  return { kept: accepted, replaced };
}

/** @type {number[]} */
const logFactorials = [0];

/** @param {number} count */
function logFactorial(count) {
  for (let next = logFactorials.length; next <= count; next += 1) logFactorials.push(logFactorials[next - 1] + Math.log(next));
  return logFactorials[count];
}

/** The mean distance of a binomial share from its probability, E|X / n - p| (de Moivre). @param {number} p @param {number} n */
export function meanDeviation(p, n) {
  if (p <= 0 || p >= 1) return 0;
  const next = Math.floor(n * p) + 1;
  const ways = logFactorial(n) - logFactorial(next) - logFactorial(n - next);
  return (2 * next * Math.exp(ways + next * Math.log(p) + (n - next + 1) * Math.log1p(-p))) / n;
}

/** The total variation that draws of p itself have on average: the noise of a measurement. @param {Distribution} p @param {number} draws */
export const expectedNoise = (p, draws) => total(p.map((value) => meanDeviation(value, draws))) / 2;

/** Tokens that a verification of drafts yields on average, if each is accepted with a probability once those before it were. @param {number} alpha @param {number} gamma */
export const expectedTokens = (alpha, gamma) => (alpha === 1 ? gamma + 1 : (1 - alpha ** (gamma + 1)) / (1 - alpha));

/** Times as fast as without drafts, where a draft costs a share of a pass. @param {number} alpha @param {number} gamma @param {number} cost */
export const speedUp = (alpha, gamma, cost) => expectedTokens(alpha, gamma) / (1 + gamma * cost);

/** The fastest draft length up to a longest. @param {number} alpha @param {number} cost @param {number} longest */
export function bestLength(alpha, cost, longest) {
  let best = 1;
  for (let gamma = 2; gamma <= longest; gamma += 1) if (speedUp(alpha, gamma, cost) > speedUp(alpha, best, cost)) best = gamma;
  return best;
}

/** The acceptance at which drafts neither gain nor lose, to 1e-9; null where none suffices. @param {number} gamma @param {number} cost */
export function breakEven(gamma, cost) {
  if (speedUp(1, gamma, cost) < 1) return null;
  let [low, high] = [0, 1];
  while (high - low > 1e-9) {
    const middle = (low + high) / 2;
    if (speedUp(middle, gamma, cost) < 1) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** The density of a normal distribution. @param {number} x @param {number} mean @param {number} std */
export const density = (x, mean, std) => Math.exp(-(((x - mean) / std) ** 2) / 2) / (std * Math.sqrt(2 * Math.PI));

/**
 * The logarithms of the weights w_k of block verification, from w_0 = 1 on: w_k = min(1, w_{k-1} p_k / q_k).
 * @param {number[]} logRatios log p_k / q_k of every denoising step
 */
export function logWeights(logRatios) {
  const weights = [0];
  for (const ratio of logRatios) weights.push(Math.min(0, weights[weights.length - 1] + ratio));
  return weights;
}
