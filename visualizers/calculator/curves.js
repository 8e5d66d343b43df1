// @ts-check
// A small curve of speed by draft length for every device, of which one is chosen: on the page and without a server.

const [CURVE_WIDTH, CURVE_HEIGHT] = [160, 64];

/** @param {string} tag @param {Record<string, string | number>} attributes @param {Element[]} children */
export function svgElement(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

function curve({ speeds, best, pays_to: last }, { longest, most: highest }) {
  const x = (drafts) => 4 + ((CURVE_WIDTH - 8) * Math.log(drafts)) / Math.log(longest);
  const y = (speed) => CURVE_HEIGHT - 4 - ((CURVE_HEIGHT - 10) * speed) / highest;
  const points = speeds.map(([drafts, speed]) => [x(drafts), y(speed)]);
  const at = points[speeds.findIndex(([drafts]) => drafts === best)];
  const ends = last > 0 && last < speeds.at(-1)[0] ? [x(last + 0.5)] : [];
  return svgElement("svg", { viewBox: `0 0 ${CURVE_WIDTH} ${CURVE_HEIGHT}`, "aria-hidden": "true" },
    svgElement("path", { class: "one", d: `M0 ${y(1)}H${CURVE_WIDTH}` }),
    svgElement("path", { d: `M${points.map((one) => one.join(" ")).join("L")}` }),
    ...ends.map((end) => svgElement("path", { class: "cross", d: `M${end} ${y(1) - 7}v14` })),
    svgElement("circle", { cx: at[0], cy: at[1], r: 4 }));
}

/** Show the devices to choose from, as radio buttons with their curves. The buttons stay, with their focus, as long as the
 * devices are the same. `make` makes an element of a tag, attributes and children. @param {Element} container */
export function showDevices(container, make, { chosen, curves, longest, most: highest }) {
  const names = () => [...container.querySelectorAll("input")].map(({ value }) => value).join();
  if (!curves.length) return container.replaceChildren();
  if (names() !== curves.map(({ device }) => device).join()) {
    const explained = `γ from 1 to ${longest}. Dotted line: ordinary decoding. Dot: the fastest γ. Orange mark: from there on slower than ordinary decoding.`;
    container.replaceChildren(make("fieldset", {},
      make("legend", {}, "Computed speed-up by draft length γ, on every device"), make("p", {}, explained),
      ...curves.map(({ device: value }) =>
        make("label", { "data-no-terms": "" }, make("input", { type: "radio", name: "calculator-device", value }), make("div", {})))));
  }
  for (const [index, radio] of container.querySelectorAll("input").entries()) {
    const { device, speeds, fastest, note } = curves[index];
    radio.checked = device === chosen;
    radio.disabled = !speeds.length;
    const drawing = speeds.length ? [curve(curves[index], { longest, most: highest })] : [];
    radio.nextElementSibling?.replaceChildren(make("strong", {}, device), make("span", {}, fastest), ...drawing, make("small", {}, note));
  }
}
