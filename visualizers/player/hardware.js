// @ts-check
// The clock of hardware that is not here, and the choice of it.

import { make, setText } from "./paint.js";
import { memoryOf, passCost } from "./pass_cost.js";
import { formatInteger } from "./replay.js";

const HARDWARE_FIELDS = ["device", "engine", "target", "draft", "batch"];
const MAX_BATCH = 4096;
const COMPUTED = "Computed from data sheets, not measured; without the prompt and decoders of pictures.";

/**
 * The number of denoising steps per token by a run's settings; 0 for tokens that are not vectors or when unknown.
 * @param {Record<string, any>} config @param {Token[]} tokens
 */
function denoisingSteps({ steps }, tokens) {
  return Number.isInteger(steps) && steps > 0 && tokens.some(Array.isArray) ? steps : 0;
}

/**
 * How often the diffusion head runs in a pass, and how many noisy tokens it is fed over all of these times.
 * @param {Step} step @param {Record<string, any>} config @param {number} rows @returns {[number, number]}
 */
function denoised({ call, position, token, numbers, judged, evaluated }, config, rows) {
  const steps = denoisingSteps(config, token);
  if (!steps || (call.role === "draft" && config.drafter === "mixture")) return [0, 0];
  const tokens = Math.max(position.length, (judged && evaluated) + 1);
  return [steps + Number("path_log_ratio" in numbers), steps * tokens * rows];
}

/**
 * Milliseconds of a pass of a run after `finals` final tokens. A pass that has not arrived takes none.
 * @param {Step} step @param {number} finals @param {Machine} machine @param {Replay} replay
 */
export function computedMilliseconds(step, finals, { device, engine, target, draft, batch }, { meta, guided }) {
  const { call, judged } = step;
  if (!call.query_tokens) return 0;
  const size = call.role === "draft" && draft ? draft : target;
  const [headPasses, noisy] = denoised(step, meta.config ?? {}, guided ? 2 : 1);
  const work = { queries: call.query_tokens * batch, rows: (call.rows ?? 1) * batch, context: finals, judges: call.role !== "draft" && judged > 0, headPasses, noisy: noisy * batch };
  return 1000 * passCost(device, size, engine, work).seconds;
}

/** Why traces cannot be computed for some hardware, in a sentence; empty where they can. @param {Replay[]} replays @param {Machine} machine */
function uncomputed(replays, { device, target, draft, batch }) {
  if (replays.some(({ steps }) => steps.some(({ call }) => !call.query_tokens))) return "A pass of this trace does not report its query tokens, so its cost cannot be computed.";
  const sizes = replays.some(({ drafts }) => drafts) ? [target, draft] : [target];
  const rows = replays.map(({ positions, guided }) => [batch * (guided ? 2 : 1), positions]);
  const tokens = Math.max(...rows.map(([count, positions]) => count * positions));
  const bytes = (/** @type {NetworkSize} */ size) => Math.max(...rows.map(([count, positions]) => memoryOf(size, positions, count)).map(({ weights, cached }) => weights + cached));
  const needed = sizes.reduce((sum, size) => sum + bytes(size), 0);
  if (needed <= device.memory) return "";
  const [wanted, available] = [needed, device.memory].map((bytes) => Math.ceil(bytes / 1e9));
  return `${sizes.map(({ name }) => name).join(" and ")} with a KV cache of ${formatInteger(tokens)} tokens take ${wanted} GB, and ${device.name} has ${available}; choose a larger device, a smaller model or a smaller batch.`;
}

/** Why the steps of a diffusion head are left out, in a sentence; empty where they are not. @param {Replay[]} replays @param {Machine} machine */
function withoutHead(replays, { target }) {
  const continuous = replays.filter((replay) => replay.continuous);
  if (continuous.some(({ meta, steps }) => !denoisingSteps(meta.config ?? {}, steps.flatMap(({ token }) => token)))) return " This trace does not report the denoising steps of a token, so those of a head are left out.";
  return continuous.length && !target.head ? ` The steps of a diffusion head are left out, as ${target.name} has none.` : "";
}

/** The choice of device, engine, networks and batch. */
export class Hardware {
  /** @param {HardwarePresets} presets @param {() => void} changed */
  constructor({ devices, engines, sizes, usual: defaultSizes }, changed) {
    /** @type {Record<string, (Device | Engine | NetworkSize)[]>} */
    this.presets = { device: devices, engine: engines, target: sizes, draft: sizes };
    this.defaultSizes = defaultSizes;
    this.chosen = false;
    const choose = () => {
      this.chosen = true;
      changed();
    };
    const select = (/** @type {string} */ name) => make("select", { change: choose }, ...this.presets[name].map((each) => make("option", { value: each.name }, each.name)));
    /** @type {Record<string, HTMLSelectElement | HTMLInputElement>} */
    this.controls = { device: select("device"), engine: select("engine"), target: select("target"), draft: select("draft") };
    this.controls.batch = make("input", { type: "number", min: 1, max: MAX_BATCH, value: 1, change: choose });
    [this.controls.device.value, this.controls.engine.value] = ["H100", "CUDA graphs"];
    /** @type {Record<string, string>} */
    const labels = { device: "Device ", engine: "Engine ", target: "Target ", draft: "Drafter ", batch: "Batch " };
    this.labels = Object.fromEntries(HARDWARE_FIELDS.map((name) => [name, make("label", {}, labels[name], this.controls[name])]));
    this.note = make("p", { class: "ds-note", role: "status" });
    this.node = make("fieldset", { class: "ds-hardware", hidden: true }, make("legend", {}, "Computed for"), ...Object.values(this.labels), this.note);
  }

  /** Chosen hardware, as presets. */
  get machine() {
    const preset = (/** @type {string} */ name) => /** @type {any} */ (this.presets[name].find((each) => each.name === this.controls[name].value));
    const batch = Math.max(1, Math.min(MAX_BATCH, Math.round(Number(this.controls.batch.value)) || 1));
    return { device: preset("device"), engine: preset("engine"), target: preset("target"), draft: preset("draft"), batch };
  }

  /** Compute the clock of these runs; where they have networks of their own kind, begin with those. @param {Replay[]} replays */
  use(replays) {
    const [first] = replays;
    if (first && !this.chosen) [this.controls.target.value, this.controls.draft.value] = this.defaultSizes[first.continuous ? "continuous" : first.grid.kind] ?? this.defaultSizes.text;
    this.labels.draft.hidden = !replays.some(({ drafts }) => drafts);
    const { machine } = this;
    this.controls.batch.value = String(machine.batch);
    const problem = uncomputed(replays, machine);
    this.node.classList.toggle("is-problem", problem !== "");
    setText(this.note, problem || COMPUTED + withoutHead(replays, machine));
    for (const replay of replays) replay.useMachine(machine);
  }

  /** Hardware as written in the address; `read` takes it, as far as it names presets. */
  get written() {
    return HARDWARE_FIELDS.map((name) => this.controls[name].value.replaceAll(" ", "_")).join(",");
  }

  /** @param {string} written */
  read(written) {
    const values = written.split(",").map((part) => part.replaceAll("_", " "));
    HARDWARE_FIELDS.forEach((name, index) => {
      if (name === "batch" ? Number(values[index]) > 0 : this.presets[name].some((each) => each.name === values[index])) this.controls[name].value = values[index];
    });
    this.chosen = true;
  }
}
