// Types that several modules share: a trace as JSON (docs/trace.md, traces/schema.py), what `data()` gives, and what is drawn of it.

type Replay = import("./replay.js").Replay;
type ReplayState = import("./replay.js").State;
type Moment = import("./rules.js").Moment;
type Theme = import("./paint.js").Theme;
type Context = CanvasRenderingContext2D;

/** An id, or the vector of a continuous token. */
type Token = number | number[];
/** One entry per entry of `position`; null where the method gave no number. */
type Column = (number | null)[];

/** Outcome of a step at a position (FATES of traces/schema.py), with its colours and its glyph: an outlined or filled path in a box of 16. */
interface FateStyle {
  name: string;
  meaning: string;
  final: boolean;
  judged: boolean;
  evaluated: boolean;
  pending: boolean;
  light: string;
  dark: string;
  inkOnLight: string;
  inkOnDark: string;
  path: string;
  filled: boolean;
  glyph: string;
}

/** Colours of a light or of a dark page, as CSS. */
interface Surface {
  background: string;
  panel: string;
  line: string;
  text: string;
  muted: string;
  accent: string;
  emphasis: string;
}

/** Result of visualizers.player.data(), as far as typed modules use it. */
interface PlayerData {
  fates: FateStyle[];
  measures: Record<string, { label: string; meaning: string; unit: string }>;
  renamedSettings: RenamedSettings;
  surfaces: { light: Surface; dark: Surface };
  hardware: HardwarePresets;
}

/** Methods whose settings had other names in older traces, and the names: old -> present. */
interface RenamedSettings {
  methods: string[];
  names: Record<string, string>;
}

/** Attention mask of a pass: `runs[i]` alternates how many keys query i may not and may attend to, from the left. */
interface MaskRuns {
  queries: string[];
  keys: string[];
  runs: number[][];
}

/** A mask spelled out: `sees[row][column]` is whether the query of the row may attend to the key of the column. */
interface ShownMask extends MaskRuns {
  sees: boolean[][];
}

/** A pass as the trace has it; missing columns were not recorded. */
interface TraceStep {
  call?: { role?: string; mode?: string; rows?: number; query_tokens?: number; milliseconds?: Record<string, number> };
  position?: number[];
  token?: Token[];
  fate?: string[];
  draft?: (Token | null)[] | null;
  p?: Column | null;
  q?: Column | null;
  accept_prob?: Column | null;
  coin?: Column | null;
  top?: [number, number][][] | null;
  likely?: ([number, number, number][] | null)[] | null;
  numbers?: Record<string, Column>;
  signals?: Record<string, number>;
  mask?: MaskRuns | null;
  graph?: { positions: number[]; accepted?: boolean; vouched_by?: number[] }[] | null;
  paths?: any[] | null;
  /** Token id -> text, of tokens that a live run sends for the first time. */
  words?: Record<number, string>;
}

/** A pass in columns ready to draw; `Replay.read` computes what a trace step does not have. */
interface Step extends Omit<TraceStep, "fate" | "likely" | "graph"> {
  call: NonNullable<TraceStep["call"]>;
  position: number[];
  token: Token[];
  /** Codes: indices into `Replay.fates`. */
  fate: number[];
  numbers: Record<string, Column>;
  signals: Record<string, number>;
  acceptProb: Column | null;
  likely?: ({ token: number; p: number; q: number }[] | null)[];
  graph?: { positions: number[]; accepted?: boolean; acceptedUnder: number[] }[];
  /** Whether the drafter ran, not the target. */
  drafting: boolean;
  /** Measured, summed over the stages of the pass. */
  milliseconds: number;
  /** Entries that give the value of their position. */
  deciding: number[];
  /** Entries with a verdict, and their number. */
  judgedEntries: number[];
  judged: number;
  accepted: number;
  evaluated: number;
  /** Means over the entries that have a number; null if none has. */
  meanAgreement: number | null;
  meanAcceptProb: number | null;
}

/** How a method decides an entry; names in braces are filled in (traces/explanations.py). */
interface Rule {
  fates: string[];
  formula: string;
  says?: string;
  redrawn?: any;
}

/** Order and shape of the positions: [length], [rows, columns] or [frames, rows, columns]. */
interface CanvasShape {
  kind: string;
  shape: number[];
  /** Position -> cell, counted row by row; null where they are equal. */
  order?: number[] | null;
  /** Length of a block of a text, in tokens, and by how many the first one is shorter; 1 or none without blocks. */
  block?: number | null;
  block_offset?: number | null;
}

/** A piece of a formula that was filled in: text, or the value of a name. */
interface Piece {
  text: string;
  name?: string;
}

/** A trace without its steps. */
interface TraceMeta {
  method: string;
  config?: Record<string, any>;
  rules?: Rule[];
  canvas: CanvasShape;
  prompt?: string;
  legend?: { vocabulary?: Record<number, string>; tiles?: any; patches?: any; frames?: { step: number; image: string }[] };
  output?: { image?: string; video?: string[]; given?: number; text?: string };
  /** Fields that a host adds or that are only shown. */
  [field: string]: any;
}

interface TraceFile extends TraceMeta {
  steps: TraceStep[];
}

/** A run as it is drawn at a time: `state` after `count` steps, of which `step` was the last, with the cursor at `position`. */
interface Scene {
  replay: Replay;
  state: ReplayState;
  step: Step | null;
  count: number;
  position: number | null;
  /** Whether to draw the outcome of every position. */
  overlay: boolean;
  theme: Theme;
  /** Whether frames of a video have no names here. */
  unnamed?: boolean;
}

/** A device by its data sheet: bytes, bytes a second, floating-point operations a second, seconds (analysis/hardware.py). */
interface Device {
  name: string;
  memory: number;
  bandwidth: number;
  peak: number;
  cache: number;
  link: number;
  link_latency: number;
  link_step: number;
}

/** Numbers of a network that decide its cost: counts, and bytes (analysis/hardware.py). */
interface NetworkSize {
  name: string;
  parameters: number;
  layers: number;
  width: number;
  hidden: number;
  head: number;
  kv_heads: number;
  window: number;
  window_layers: number;
  experts: number;
  active_experts: number;
  weight_bytes: number;
  stored_bytes: number;
  expert_bytes: number;
  layer_cache_bytes: number;
  head_bytes: number;
  step_layers: number;
}

/** How an engine runs a pass: seconds, and shares of what the device can do (analysis/hardware.py). */
interface Engine {
  name: string;
  base: number;
  overhead: number;
  several: number;
  verification: number;
  attention: number;
  bandwidth_share: number;
  compute_share: number;
  overlaps: boolean;
}

interface HardwarePresets {
  devices: Device[];
  engines: Engine[];
  sizes: NetworkSize[];
  /** Kind of canvas -> names of target and drafter to begin with. */
  usual: Record<string, string[]>;
}

/** Work of a pass, the argument of `passCost`. */
interface PassWork {
  queries: number;
  rows: number;
  context: number;
  judges?: boolean;
  headPasses?: number;
  noisy?: number;
}

/** Hardware and networks that passes are computed for; `batch` sequences share each. */
interface Machine {
  device: Device;
  engine: Engine;
  target: NetworkSize;
  draft: NetworkSize;
  batch: number;
}
