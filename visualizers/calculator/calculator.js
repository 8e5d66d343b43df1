// @ts-check
// The calculator of a page without a server: a form, its answer, curves of devices and a table. The address keeps the form.

import { find, make } from "../lessons/core.js";
import { showDevices } from "./curves.js";
import { showReasons } from "./reasons.js";
import { curvesOf, description, planOf, quantised, reasonsOf, tableOf } from "./speedup.js";

/** Fields have this before their names in addresses, as in those of the app. */
const PLANNED = "plan.";
const NUMBERS = ["gpus", "weights", "cache", "acceptance", "spread", "drafts", "batch", "context"];
const ALLOWED = { gpus: [0, 1, 2, 4, 8], weights: [16, 8, 4], cache: [16, 8] };
const BY_HAND = "set by hand";

/** @param {HTMLElement} root @param {{ presets: any, first: Record<string, any>, drafters: Record<string, string>, none: string, sources: any[] }} data */
export function beginCalculator(root, { presets, first, drafters, none, sources }) {
  const values = { ...first };
  /** Source of a measured acceptance rate; null if the rate was set by hand. @type {{ name: string, rate: number, low: number, high: number } | null} */
  let source = null;
  const names = {
    target: presets.sizes.map(({ name }) => name).filter((name) => !name.endsWith("MTP")), // which only drafts
    draft: [none, ...presets.sizes.map(({ name }) => name)],
    device: presets.devices.map(({ name }) => name),
    engine: presets.engines.map(({ name }) => name),
  };
  const named = (list, name) => list.find((each) => each.name === name);

  /** The form as a plan, or why there is none. */
  function read() {
    const invalid = Object.entries({ ...names, ...ALLOWED }).find(([field, allowed]) => !allowed.includes(values[field]));
    if (invalid) return { plan: null, problem: `${invalid[0]}: ${values[invalid[0]]} is not allowed; use ${invalid[1].join(", ")}.` };
    if (!(values.spread >= 0 && values.spread <= 1)) return { plan: null, problem: `spread: ${values.spread} is not allowed; use 0 to 1.` };
    const size = (name) => (name === none ? null : quantised(named(presets.sizes, name), values.weights, values.cache));
    const parts = { device: named(presets.devices, values.device), engine: named(presets.engines, values.engine), target: size(values.target), draft: size(values.draft) };
    const { acceptance, batch, context, drafts, gpus } = values;
    return planOf({ ...parts, acceptance, batch, context, drafts, gpus });
  }

  function show() {
    const { plan, problem } = read();
    const rate = source ?? { rate: values.acceptance, low: Math.max(0, values.acceptance - values.spread), high: Math.min(1, values.acceptance + values.spread) };
    const words = plan ? description(plan, rate, source ? source.name : BY_HAND) : { verdict: "–", basis: problem, details: "" };
    find(root, ".verdict").textContent = words.verdict;
    find(root, ".basis").textContent = words.basis;
    find(root, ".details").textContent = words.details;
    root.classList.toggle("is-problem", !plan);
    showReasons(find(root, ".reasons"), make, plan ? reasonsOf(plan, rate) : null);
    showCurves(plan);
    showTable(plan);
    for (const [name, control] of controls) {
      if (document.activeElement !== control || control.type === "range") control.value = String(values[name]);
      const shown = control.parentElement?.querySelector("output");
      if (shown) shown.textContent = shownValue(name);
    }
    if (chooser) chooser.value = source ? source.name : BY_HAND;
  }

  function shownValue(name) {
    if (name === "drafts") return values.drafts ? String(values.drafts) : "fastest";
    return `${name === "spread" ? "± " : ""}${(100 * values[name]).toFixed(0)}%`;
  }

  function showCurves(plan) {
    const container = find(root, ".curves");
    const other = plan ?? presets.devices.map((device) => planWith(device)).find((each) => each);
    const shown = other ? curvesOf(other, presets.devices) : { curves: [], longest: 0, most: 1 };
    showDevices(container, make, { ...shown, chosen: values.device });
  }

  /** The plan of the form on another device; null if it cannot run there. */
  function planWith(device) {
    const chosen = values.device;
    values.device = device.name;
    const { plan } = read();
    values.device = chosen;
    return plan;
  }

  function showTable(plan) {
    const { heads, rows } = plan ? tableOf(plan) : { heads: [], rows: [] };
    const row = (cells, tag) => make("tr", {}, ...cells.map((cell) => make(tag, {}, cell)));
    find(root, "table").replaceChildren(make("thead", {}, row(heads, "th")), make("tbody", {}, ...rows.map((cells) => row(cells, "td"))));
  }

  function change(changed) {
    Object.assign(values, changed);
    write();
    show();
  }

  /** Keep in the address what differs from the first values, next to what else it has. */
  function write() {
    const parts = new URLSearchParams(location.hash.slice(1));
    for (const name of Object.keys(first)) {
      if (values[name] === first[name]) parts.delete(PLANNED + name);
      else parts.set(PLANNED + name, String(values[name]));
    }
    history.replaceState(null, "", `#${parts}`);
  }

  function readAddress() {
    for (const [key, text] of new URLSearchParams(location.hash.slice(1))) {
      const name = key.slice(PLANNED.length);
      if (key.startsWith(PLANNED) && Object.hasOwn(first, name)) values[name] = NUMBERS.includes(name) ? Number(text) : text;
    }
  }

  /** @type {[string, HTMLSelectElement | HTMLInputElement][]} */
  const controls = [];
  const add = (name, label, control, event, ...more) => {
    control.addEventListener(event, () => {
      const value = NUMBERS.includes(name) ? Number(control.value) : control.value;
      if (name === "acceptance" || name === "spread") source = null;
      change({ [name]: value, ...(name === "target" ? { draft: drafters[value] || none } : {}) });
    });
    controls.push([name, control]);
    return make("label", {}, make("span", {}, label), control, ...more);
  };
  const select = (name, label, options) => {
    const list = /** @type {HTMLSelectElement} */ (make("select", {}, ...options.map(([value, text]) => make("option", { value }, text))));
    return add(name, label, list, "change");
  };
  const same = (list) => list.map((each) => [each, String(each)]);
  const range = (name, label, maximum, step) => add(name, label, /** @type {HTMLInputElement} */ (make("input", { type: "range", min: 0, max: maximum, step })), "input", make("output"));
  const number = (name, label, minimum, maximum) => add(name, label, /** @type {HTMLInputElement} */ (make("input", { type: "number", min: minimum, max: maximum, step: 1 })), "input");
  const chooser = sources.length ? /** @type {HTMLSelectElement} */ (make("select", {}, ...[BY_HAND, ...sources.map(({ name }) => name)].map((name) => make("option", { value: name }, name)))) : null;
  chooser?.addEventListener("change", () => {
    source = named(sources, chooser.value) ?? null;
    if (source) change({ acceptance: Number(source.rate.toFixed(4)), spread: Number(Math.min(0.5, Math.max(source.high - source.rate, source.rate - source.low)).toFixed(4)) });
    else show();
  });
  find(root, "form").replaceChildren(
    make("div", {}, select("target", "Your model", same(names.target)), select("draft", "Drafter", same(names.draft)),
      select("weights", "Weights, bits", same(ALLOWED.weights)), select("cache", "KV cache, bits", same(ALLOWED.cache))),
    make("div", {}, select("device", "Device", same(names.device)), select("gpus", "GPUs", ALLOWED.gpus.map((count) => [count, count ? String(count) : "fewest"])),
      select("engine", "Engine", same(names.engine)), number("batch", "Batch", 1, 4096), number("context", "Context, tokens", 0, 1_000_000)),
    make("div", {}, ...(chooser ? [make("label", {}, make("span", {}, "Acceptance"), chooser)] : []), range("acceptance", "Drafts accepted, if those before were", 1, 0.01),
      range("spread", "Known to within", 0.5, 0.01), range("drafts", "Draft length γ", 128, 1)));
  find(root, ".curves").addEventListener("change", ({ target }) => change({ device: /** @type {HTMLInputElement} */ (target).value }));
  addEventListener("hashchange", () => {
    Object.assign(values, first);
    readAddress();
    show();
  });
  readAddress();
  show();
}
