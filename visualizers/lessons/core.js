// @ts-check
// What all lessons use: elements, sliders, choices, and the frame around a lesson.

export const SVG = "http://www.w3.org/2000/svg";

/** Whether the reader prefers little motion. */
export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** @param {number} value @param {number} low @param {number} high */
export const clamp = (value, low = 0, high = 1) => Math.max(low, Math.min(high, value));

/** A share in percent, with as many digits as it takes to see it. @param {number} share */
export function percent(share) {
  const digits = share >= 0.0995 || share === 0 ? 0 : share >= 0.00095 ? 1 : 2;
  return `${(100 * share).toFixed(digits)} %`;
}

/** A number with its noun. @param {number} count @param {string} noun @param {string} several */
export const counted = (count, noun, several = `${noun}s`) => `${count} ${count === 1 ? noun : several}`;

/**
 * Make an element; strings become text.
 * @param {string} tag @param {Record<string, string | number | boolean | null>} attributes @param {(Node | string)[]} children
 * @returns {HTMLElement}
 */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  set(node, attributes);
  node.append(...children);
  return node;
}

/**
 * Make an element of a drawing.
 * @param {string} tag @param {Record<string, string | number | boolean | null>} attributes @param {(Node | string)[]} children
 * @returns {SVGElement}
 */
export function draw(tag, attributes = {}, ...children) {
  const node = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  set(node, attributes);
  node.append(...children);
  return node;
}

/** Set attributes; null and false remove one. @param {Element} node @param {Record<string, string | number | boolean | null>} attributes */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) node.removeAttribute(name);
    else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? "" : String(value));
  }
}

/** The one part of a page that has to be there. @param {ParentNode} root @param {string} selector @returns {HTMLElement} */
export function find(root, selector) {
  const found = root.querySelector(selector);
  if (!found) throw new Error(`${selector}: is missing in the lesson's page`);
  return /** @type {HTMLElement} */ (found);
}

/**
 * A labelled slider that shows its value.
 * @param {{ label: string, min: number, max: number, step: number, value: number, tone?: string,
 *   says?: (value: number) => string, change: (value: number) => void }} options
 */
export function slider({ label, min, max, step, value, tone = "ink", says = String, change }) {
  const input = /** @type {HTMLInputElement} */ (make("input", { type: "range", min, max, step, class: `is-${tone}`, "aria-label": label }));
  const shown = make("b", { "aria-hidden": "true" });
  const node = make("div", { class: "slider" }, make("span", { "aria-hidden": "true" }, label), shown, input);
  /** @param {number} next */
  const put = (next) => {
    input.value = String(next);
    const text = says(Number(input.value));
    shown.textContent = text;
    input.setAttribute("aria-valuetext", text);
    input.style.setProperty("--at", `${(100 * (Number(input.value) - min)) / (Number(input.max) - min)}%`);
  };
  input.addEventListener("input", () => {
    put(Number(input.value));
    change(Number(input.value));
  });
  put(value);
  return { node, put, input };
}

/**
 * Buttons of which one is chosen.
 * @template {string | number} Key
 * @param {string} label @param {[Key, string][]} options @param {Key} chosen @param {(key: Key) => void} change
 */
export function choices(label, options, chosen, change) {
  const buttons = options.map(([key, text]) => {
    const button = make("button", { type: "button", class: "pill", "aria-pressed": String(key === chosen) }, text);
    button.addEventListener("click", () => put(key, true));
    return button;
  });
  /** @param {Key} key @param {boolean} report */
  const put = (key, report = false) => {
    options.forEach(([other], index) => buttons[index].setAttribute("aria-pressed", String(other === key)));
    if (report) change(key);
  };
  return { node: make("div", { class: "row choices", role: "group", "aria-label": label }, ...buttons), put };
}

/**
 * Call a function with the size of a node now and whenever it changes; returns a function that calls it again.
 * @param {Element} node @param {(width: number, height: number) => void} paint
 */
export function sized(node, paint) {
  const again = () => {
    const { width, height } = node.getBoundingClientRect();
    if (width > 40 && height > 40) paint(width, height);
  };
  new ResizeObserver(again).observe(node);
  return again;
}

/**
 * A crisp 2D context for a canvas, cleared. @param {HTMLCanvasElement} node @param {number} width @param {number} height
 */
export function context(node, width, height) {
  const ratio = globalThis.devicePixelRatio || 1;
  const [wide, tall] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (node.width !== wide) node.width = wide;
  if (node.height !== tall) node.height = tall;
  const pen = /** @type {CanvasRenderingContext2D} */ (node.getContext("2d"));
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

/** A colour of the page by its name. @param {string} name */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/**
 * Environment of a lesson: where it draws, its data, and how it reports that its task is done.
 * @typedef {{ root: HTMLElement, figure: HTMLElement, data: any, done: () => void, say: (text: string) => void }} Lesson
 */
